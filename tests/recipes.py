"""Recipes of tiny models that train in a moment on the miniature benchmark."""

from __future__ import annotations

_ENCODER = """
name = "{name}"
[encoder]
batch = 8
negatives = 8
instruction_dropout = 0.0
[encoder.heads]
width = 48
raw = 8
hubness = 16
hidden = 32
dropout = 0.0
fusion_kind = "{fusion_kind}"
image_parts = ["mean:12", "colours:16", "thumbnail:12"]
text_parts = ["mean:16", "words:16"]
[encoder.loop]
steps = 150
warm_up = 5
validate_every = 20
average = 0.9
"""

_QUANTIZER = """
[quantizer]
batch = 32
temperature = 0.05
gamma = 5.0
validated = 30
[quantizer.fusion]
hidden = 32
width = 20
[quantizer.codebooks]
levels = 3
size = 16
iterations = 5
[quantizer.loop]
steps = 60
learning_rate = 0.001
warm_up = 3
validate_every = 30
save_every = 10
average = 0.0
"""

_DECODER = """
[decoder]
batch = 32
validated = 4
beams = 10
[decoder.network]
layers = 1
width = 32
heads = 2
head_width = 16
feed_forward = 64
prefix = 4
dropout = 0.0
[decoder.loop]
steps = 80
learning_rate = 0.003
warm_up = 5
validate_every = 40
save_every = 20
average = 0.0
"""


def dense_recipe(fusion_kind: str = "score", name: str = "small") -> str:
    """A model that embeds."""
    return _ENCODER.format(fusion_kind=fusion_kind, name=name)


DENSE = dense_recipe()
CODED = DENSE + _QUANTIZER
"""A model that codes."""
DECODED = CODED + _DECODER
"""A model that codes, with a learned decoder."""
