"""The encoder that a model is fitted over, by the name that a user gives it, as a model without codes.

`photo`, or the folder of any model of genius: its towers and heads, without its codebooks. A folder of CLIP,
SigLIP or sentence-transformers, recognised by its files. `clip:NAME` and `sentence-transformers:NAME` of the
hub. `precomputed`: items bring their vectors along.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from genius import storage
from genius.data.records import Item
from genius.download import is_offline
from genius.encode.encoder import EncoderLoader, PairEncoder, QueryEncoder
from genius.errors import InputError
from genius.model import DEFAULT, FORMAT, KIND, Model

CLIP_TYPES = ("clip", "siglip", "siglip2")
WAYS = (
    "photo, the folder of a model, a folder of CLIP, SigLIP or sentence-transformers, clip:NAME or "
    "sentence-transformers:NAME of the hub, or precomputed"
)


def open_base(
    encoder: Model | Path | str,
    items: Sequence[Item],
    scratch: Path,
    *,
    trust_remote_code: bool = False,
    offline: bool = False,
) -> Model:
    """The model that embeds items by the encoder; what has to be written for it goes into `scratch`.

    What a model's encoder needs is fetched, unless the user is `offline`. Raises InputError if the name
    stands for no encoder.
    """
    if isinstance(encoder, Model):
        return encoder
    name = str(encoder)
    if name == DEFAULT:
        shipped = Model.open(DEFAULT)
        shipped.prepare(offline=offline)
        return shipped
    kind, _, source = name.partition(":")
    if name == "precomputed":
        return _precomputed(items, scratch)
    if name == "lite":
        raise InputError(
            "lite's images and texts are in two spaces, which training brings together: use photo, which is "
            "lite with trained heads, or train with genius train"
        )
    if kind in ("clip", "sentence-transformers") and source:
        if is_offline(requested=offline) and not Path(source).is_dir():
            raise InputError(f"{source} may be on the hub only, and nothing may be fetched: give its folder")
        return _joint(kind, source, scratch, trust_remote_code)
    if not Path(name).is_dir():
        raise InputError(f"there is no encoder {name!r}: give {WAYS}")
    return _folder(Path(name), scratch, trust_remote_code)


def _folder(folder: Path, scratch: Path, trust_remote_code: bool) -> Model:
    if storage.is_artifact(folder):
        return Model.open(folder)
    if (folder / "modules.json").is_file():
        return _joint("sentence-transformers", str(folder.resolve()), scratch, trust_remote_code)
    try:
        kind = orjson.loads((folder / "config.json").read_bytes())["model_type"]
    except (OSError, ValueError, KeyError, TypeError):
        kind = None
    if kind not in CLIP_TYPES:
        what = f"a model of type {kind!r}" if kind else "no encoder that genius knows"
        raise InputError(f"is {what}: give {WAYS}", path=folder)
    return _joint("clip", str(folder.resolve()), scratch, trust_remote_code)


def _joint(kind: str, source: str, scratch: Path, trust_remote_code: bool) -> Model:
    """A CLIP or SigLIP, or a model of sentence-transformers."""
    loader: EncoderLoader
    if kind == "clip":
        from genius.encode.clip import ClipLoader
        from genius.encode.clip_folder import model_folder

        source = str(model_folder(source))
        loader = ClipLoader(source)
    else:
        from genius.encode.sentence_transformers import SentenceTransformersLoader

        loader = SentenceTransformersLoader(source, trust_remote_code)
    opened = loader(1)
    if opened.image_width != opened.text_width:
        raise InputError(
            f"its images have {opened.image_width} numbers and its texts {opened.text_width}: "
            "they are not in one space",
            path=source,
        )
    pairs = isinstance(opened, PairEncoder)
    described = {
        "kind": kind,
        "source": source,
        "fingerprint": opened.fingerprint,
        "queries": isinstance(opened, QueryEncoder),
        "pairs": pairs,
        "whole": pairs,
        "trust_remote_code": trust_remote_code,
    }
    return _write(scratch, described, opened.text_width)


def _precomputed(items: Sequence[Item], scratch: Path) -> Model:
    """What takes items' own vectors; the width is the first one's."""
    first = next((item.vectors for item in items if item.vectors is not None), None)
    if first is None:
        raise InputError(
            "no item has a vector: name their file with --vectors (.npy, .npz, .safetensors or Parquet, with "
            "ids), or give items a vector"
        )
    described = {
        "kind": "precomputed",
        "source": "",
        "fingerprint": f"precomputed-{first.width}",
        "width": first.width,
        "whole": first.whole is not None,
    }
    return _write(scratch, described, first.width)


def _write(scratch: Path, described: dict[str, Any], width: int) -> Model:
    settings = {
        "stages": ["encoder"],
        "fusion_kind": "joint",
        "encoder": described,
        "width": width,
        "recipe": {},
        "validation": {},
    }
    made_from = {"encoder": str(described["fingerprint"])}
    with storage.create(scratch, kind=KIND, format=FORMAT, settings=settings, made_from=made_from):
        pass
    return Model.open(scratch)
