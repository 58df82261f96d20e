"""Models of format 1, under the names of today."""

from __future__ import annotations

from genius.storage import Json

FORMAT_1 = 1
_NAMES = {
    "joining": "fusion_kind",
    "fair": "dense_baseline",
    "first": "modality_code",
    "joined": "embeddings",
    "widen": "up",
    "shrink": "down",
    "inner_norm": "mlp_norm",
}
"""Names that changed: of settings and their values, of a graph's inputs, of a network's tensors."""


def current_name(name: str) -> str:
    """Today's name of a setting, a value, an input or a tensor."""
    return _NAMES.get(name, name)


def upgraded(settings: Json) -> Json:
    """The settings of a model of format 1, as far as a model reads them, under the names of format 2."""
    current = {current_name(name): value for name, value in settings.items()}
    if "quantizer" in current:
        quantizer = {current_name(name): value for name, value in current["quantizer"].items()}
        quantizer.pop("memory", None)  # there is no query memory any more
        quantizer["dense_baseline"] = current_name(quantizer.get("dense_baseline", "embeddings"))
        current["quantizer"] = quantizer
    return {"fusion_kind": "heads"} | current
