"""Fitting a model: embed the items, bring modalities together, fit codes, tune, write."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from genius import storage
from genius.data.collection import Failures
from genius.data.records import Item
from genius.decode.onnx_decoder import DECODER_FILES
from genius.encode.pipeline import default_cache
from genius.fit.base import open_base
from genius.fit.codebooks import BEAMS, ROUNDS, fit_quantizer
from genius.fit.overlap import mean_overlap
from genius.fit.sample import LARGEST, draw, embed_sample
from genius.fit.tuning import Tuning, tune
from genius.model import FORMAT, KIND, Model
from genius.quantize.joint_space import JointSpace
from genius.quantize.quantizer import Quantizer

QUANTIZER_FILES = (
    "fusion.onnx",
    "quantizer.safetensors",
    "codebooks.safetensors",
    "space.safetensors",
)


@dataclass(frozen=True)
class FittedModel:
    """A fitted model, and what it was fitted to.

    Attributes:
        model: opened for use.
        items: how many items codes were fitted to.
        total: how many the collection has.
        codes_overlap: the share of exact search's ten nearest that search by codes alone keeps, by modality.
        failures: items that could not be read.
    """

    model: Model
    items: int
    total: int
    codes_overlap: dict[str, float]
    failures: Failures

    @property
    def overlap(self) -> float:
        """The mean of `codes_overlap` over modalities."""
        return mean_overlap(self.codes_overlap)


def fit_model(
    items: Iterable[Item],
    encoder: Model | Path | str,
    out: Path | str,
    *,
    cache: Path | None = None,
    workers: int = 1,
    seed: int = 0,
    strict: bool = False,
    trust_remote_code: bool = False,
    offline: bool = False,
    most: int = LARGEST,
    rounds: int = ROUNDS,
    beams: int = BEAMS,
) -> FittedModel:
    """Fit a model to items by an encoder (see `genius.fit.base`), and write it to `out`.

    At most `most` items, drawn evenly, are embedded and fitted to; `rounds` and `beams` are those of
    `fit_quantizer`. Raises InputError for no items, none that
    can be read, or a name that stands for no encoder.
    """
    out, random = Path(out), np.random.default_rng(seed)
    sample, total = draw(items, random, most)
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=".fit-") as scratch:
        base = open_base(
            encoder,
            sample,
            Path(scratch, "base"),
            trust_remote_code=trust_remote_code,
            offline=offline,
        )
        embedded = embed_sample(
            base, sample, total, cache=cache or default_cache(), workers=workers, strict=strict
        )
        inputs, space = embedded.inputs, None
        if base.fusion_kind == "joint":
            whole = bool(base.settings["encoder"]["whole"])
            space = JointSpace.fit(inputs, whole=whole)
            inputs = space.moved(inputs, whole=whole)
        # what an index keeps of them, so that codes are fitted to what they will be compared with
        vectors = inputs.embeddings.astype(np.float16).astype(np.float32)
        quantizer = fit_quantizer(vectors, embedded.modality, random=random, rounds=rounds, beams=beams)
        tuning = tune(quantizer, vectors, embedded.modality, random=random)
        _write(out, base, space, quantizer, tuning, len(vectors))
    return FittedModel(Model.open(out), len(vectors), total, tuning.codes_overlap, embedded.failures)


def _write(
    out: Path, base: Model, space: JointSpace | None, quantizer: Quantizer, tuning: Tuning, items: int
) -> None:
    """Write the base with new codes, in place of any that it has."""
    old = storage.open(base.path, kind=KIND)
    settings = {
        **{name: value for name, value in base.settings.items() if name != "decoder"},
        "stages": ["encoder", "quantizer"],
        "quantizer": {
            "fitted": True,
            "sizes": list(quantizer.sizes),
            "modality_code": quantizer.modality_code,
            "modality_of": list(range(quantizer.sizes[0])),
            "beams": quantizer.beams,
            "temperature": tuning.temperature,
            "query_scale": tuning.query_scale,
            "dense_baseline": "embeddings",
            "rerank": 1.0,
            "overlap": tuning.codes_overlap,
            "items": items,
        },
    }
    made_from = {**old.manifest.made_from, "base": base.fingerprint}
    with storage.create(out, kind=KIND, format=FORMAT, settings=settings, made_from=made_from) as draft:
        kept = [
            name for name in old.manifest.files if not name.startswith((*QUANTIZER_FILES, *DECODER_FILES))
        ]
        draft.reuse(old, *kept)
        quantizer.write(draft.folder / "codebooks.safetensors")
        if space is not None:
            space.write(draft.folder / "space.safetensors")
        draft.counts["codes"] = sum(quantizer.sizes)
