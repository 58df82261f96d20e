"""One of the published files: its weights by name, checked for what it is before any of them is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from genius.encode.checkpoints import StoredTensor, open_checkpoint
from genius.errors import InputError
from genius.storage import record_of

FileKind = Literal["clip", "blip", "quantizer", "decoder"]

KINDS: Mapping[FileKind, tuple[str, str]] = {
    "clip": ("clip_model.", "a CLIP (clip_sf_large.pth of UniIR)"),
    "blip": ("visual_encoder.", "a BLIP (blip_ff_large.pth of UniIR)"),
    "decoder": ("id_generator.", "a T5 decoder (GENIUS_t5small.pth)"),
    "quantizer": ("residual_rq.", "a quantizer (rq_clip_large.pth of GENIUS)"),
}
"""How names of each kind of file begin, and what it is called; a decoder's file holds a quantizer, too."""
WRAPPERS = ("module.", "_orig_mod.")
"""What wrappers put before every name: data-parallel training, and compiling."""
IGNORED = ("contra_projector.",)
"""What a later version of the authors' code saves and does not use in search."""
LISTED = 5

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class PublishedFile:
    """The weights of a file by their bare names."""

    path: Path
    tensors: Mapping[str, StoredTensor]

    @classmethod
    def open(cls, path: Path | str, kind: FileKind) -> PublishedFile:
        """The weights of a file that is of this kind.

        Raises InputError if it is of another kind, has no weights, or is no checkpoint.
        """
        path = Path(path)
        try:
            stored = open_checkpoint(path, part="model")
        except InputError as error:
            if "optimizer" not in error.reason or "has no part" not in error.reason:
                raise
            raise InputError(
                f"{error.reason}: this is the state of a training without its weights", path=path
            ) from None
        tensors = {bare_name(name): tensor for name, tensor in stored.items()}
        if len(tensors) < len(stored):
            raise InputError("holds weights twice, with and without the name of a wrapper", path=path)
        made = cls(path, {name: value for name, value in tensors.items() if not name.startswith(IGNORED)})
        made._check_kind(kind)
        return made

    def _check_kind(self, kind: FileKind) -> None:
        actual = next(
            (
                known
                for known, (start, _) in KINDS.items()
                if any(name.startswith(start) for name in self.tensors)
            ),
            None,
        )
        if actual in (kind, None):
            return
        raise InputError(
            f"is {KINDS[actual][1]}, but --{kind} takes {KINDS[kind][1]}: give it as --{actual}",
            path=self.path,
        )

    def part(self, prefix: str) -> PublishedFile:
        """The weights whose names begin so, without that beginning."""
        inner = {
            name.removeprefix(prefix): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(prefix)
        }
        return PublishedFile(self.path, inner)

    def without(self, prefix: str) -> PublishedFile:
        """The other weights."""
        rest = {name: tensor for name, tensor in self.tensors.items() if not name.startswith(prefix)}
        return PublishedFile(self.path, rest)

    def size(self, name: str, axis: int, model: str = "GENIUS") -> int:
        """How long an axis of a weight is. Raises InputError if it has no such axis, as in that model."""
        shape = self.tensors[name].shape
        if axis >= len(shape):
            raise InputError(f"holds {name} with the shape {shape}, which is none of {model}", path=self.path)
        return shape[axis]

    def check_names(self, names: set[str], what: str) -> None:
        """Raise InputError that says which names are missing and which are too many."""
        differences = {"missing": names - set(self.tensors), "extra": set(self.tensors) - names}
        if problems := [
            f"{word} {listed(some_names)}" for word, some_names in differences.items() if some_names
        ]:
            raise InputError(f"is not {what}: {'; '.join(problems)}", path=self.path)

    def check_shapes(self, shapes: Shapes) -> None:
        """Raise InputError that names the first weight of another shape."""
        for name, shape in shapes.items():
            if self.tensors[name].shape != shape:
                raise InputError(
                    f"holds {name} with the shape {self.tensors[name].shape}, but {shape} is needed",
                    path=self.path,
                )

    def read(self, name: str) -> np.ndarray:
        """A weight in single precision. Raises InputError for NaN and infinity, and for a damaged file."""
        values = np.ascontiguousarray(self.tensors[name].read(), np.float32)
        if not np.isfinite(values).all():
            raise InputError(f"holds NaN or infinity in {name}: the file is damaged", path=self.path)
        return values

    def described(self) -> dict[str, str | int]:
        """What a manifest says of the file."""
        record = record_of(self.path)
        return {"file": self.path.name, "bytes": record.bytes, "sha256": record.sha256}


def bare_name(name: str) -> str:
    """A weight's name without what wrappers put before it, in whatever order they did."""
    while name.startswith(WRAPPERS):
        name = name.partition(".")[2]
    return name


def listed(names: set[str]) -> str:
    """Some of the names, for a message."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(sorted(names)[:LISTED]) + more
