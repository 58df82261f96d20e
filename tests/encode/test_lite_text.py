"""The text tower, built from bare weights, equals transformers' BERT."""

from __future__ import annotations

import numpy as np
import pytest

from genius.encode import lite_text
from genius.errors import InputError
from tests.encode.small_towers import run_graph

pytest.importorskip("torch")
pytest.importorskip("onnx")
import torch


def test_the_tower_equals_transformers_bert() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 12}
    config = transformers.BertConfig(**sizes, intermediate_size=96, max_position_embeddings=40)
    network = transformers.BertModel(config, add_pooling_layer=False).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    ids = torch.randint(0, 50, (3, 11))
    mask = torch.ones_like(ids)
    mask[1, 4:] = 0
    mask[2, 1:] = 0
    weights = {name: value.numpy() for name, value in network.state_dict().items()}
    outputs = run_graph(lite_text.build(weights), ids=ids.numpy(), mask=mask.numpy())
    with torch.no_grad():
        layers = network(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
    kept = mask[:, :, None].bool()
    for name, value in (("mean", layers[-1]), ("words", layers[0])):
        expected = torch.where(kept, value, 0).sum(1) / mask.sum(1, keepdim=True)
        np.testing.assert_allclose(outputs[name], expected.numpy(), atol=1e-4)
    expected = torch.where(kept, layers[-1], -torch.inf).amax(1)
    np.testing.assert_allclose(outputs["max"], expected.numpy(), atol=1e-4)


def test_other_weights_are_refused() -> None:
    with pytest.raises(InputError, match="no weights of a BERT encoder"):
        lite_text.build({"x": np.zeros(3)})
