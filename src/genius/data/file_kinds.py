"""Kinds of files by the endings of their names: images, texts, and what a folder of photos has besides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from genius.data.images import heif_is_readable

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
HEIF_ENDINGS = (".heic", ".heif", ".hif")
TEXT_ENDINGS = (".txt", ".md")


@dataclass(frozen=True)
class UnreadKind:
    """A kind of files that is not read: its name for one file and for several, and what to do about it."""

    singular: str
    plural: str
    endings: tuple[str, ...]
    way_out: str


UNREAD_KINDS = (
    UnreadKind("HEIC photo", "HEIC photos", HEIF_ENDINGS, "after pip install pillow-heif they are read"),
    UnreadKind(
        "camera raw photo",
        "camera raw photos",
        (".arw", ".cr2", ".cr3", ".dng", ".nef", ".orf", ".pef", ".raf", ".raw", ".rw2", ".srw"),
        "export them as JPEG",
    ),
    UnreadKind(
        "video",
        "videos",
        (".3gp", ".avi", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".webm", ".wmv"),
        "only images and texts are searched",
    ),
    UnreadKind(
        "image of another format",
        "images of other formats",
        (".avif", ".jp2", ".jxl", ".psd", ".svg"),
        "save them as JPEG or PNG",
    ),
)


def is_image(name: str) -> bool:
    """Whether a file's name ends like that of an image that can be read."""
    lower = name.lower()
    return lower.endswith(IMAGE_ENDINGS) or (lower.endswith(HEIF_ENDINGS) and heif_is_readable())


def is_text(name: str) -> bool:
    """Whether a file's name ends like that of a text."""
    return name.lower().endswith(TEXT_ENDINGS)


def unread_kind(name: str) -> UnreadKind | None:
    """The kind of a file that is neither image nor text but that somebody may miss; None for any other."""
    lower = name.lower()
    return next((kind for kind in UNREAD_KINDS if lower.endswith(kind.endings)), None)


def skipped_notes(counts: Mapping[UnreadKind, int]) -> list[str]:
    """What was skipped, a sentence a kind.

    >>> skipped_notes({UNREAD_KINDS[1]: 12})
    ['12 camera raw photos were skipped: export them as JPEG']
    """
    return [
        f"{count:,} {kind.singular} was skipped: {kind.way_out}"
        if count == 1
        else f"{count:,} {kind.plural} were skipped: {kind.way_out}"
        for kind, count in counts.items()
    ]
