"""Which encoder is meant: the embedded one, or a CLIP from a folder or the hub."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from genius.encode import lite
from genius.encode.encoder import EncoderLoader
from genius.errors import InputError

Towers = Literal["lite", "clip"]


def encoder_loader(towers: Towers, source: str = "") -> tuple[EncoderLoader, Path | None]:
    """What opens an encoder, here or in a worker, and the folder of towers that a model is to carry."""
    if towers == "lite":
        folder = lite.build()
        return lite.loader(folder), folder
    if not source:
        raise InputError("clip needs a source: the folder or the hub name of a CLIP or SigLIP model")
    from genius.encode.clip import ClipLoader
    from genius.encode.clip_folder import model_folder

    return ClipLoader(str(model_folder(source))), None
