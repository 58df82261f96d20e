"""Where a published model's tokenizer is: checkpoints have none, so it is in a folder or on the hub."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from genius.encode.blip_tokenizer import VOCABULARY_FILES
from genius.encode.clip_folder import TOKENIZER_FILES, first_line
from genius.encode.uniir import check_tokenizer
from genius.errors import InputError, MissingError, require

CLIP_HINT = (
    "the file of a CLIP has no tokenizer: name the folder of any Hugging Face CLIP with --tokenizer, such as "
    "a download of openai/clip-vit-large-patch14 (tokenizer.json, or vocab.json and merges.txt)"
)
BLIP_HINT = (
    "the file of a BLIP has no tokenizer: name a folder with that of bert-base-uncased with --tokenizer "
    "(vocab.txt or tokenizer.json), or google-bert/bert-base-uncased for the hub's"
)

ON_THE_HUB = r"[\w.-]+/[\w.-]+|bert-base-uncased"
"""Names of models there; BERT's has a short one."""


def clip_tokenizer_folder(given: str | None, clip: Path) -> Path:
    """The folder with CLIP's tokenizer: the one given, of that name on the hub, or beside the CLIP.

    Raises InputError if it has none, MissingError if the hub can't be reached.
    """
    folder = _folder(given, clip, ("tokenizer.json", "vocab.json"), TOKENIZER_FILES, CLIP_HINT)
    check_tokenizer(folder)
    return folder


def blip_tokenizer_folder(given: str | None, blip: Path) -> Path:
    """The same for the tokenizer of BERT, which BLIP uses; whoever reads it checks it."""
    return _folder(given, blip, VOCABULARY_FILES, VOCABULARY_FILES, BLIP_HINT)


def _folder(
    given: str | None, checkpoint: Path, beside: Sequence[str], fetched: Sequence[str], hint: str
) -> Path:
    if given is None:
        if any((checkpoint.parent / name).is_file() for name in beside):
            return checkpoint.parent
        raise InputError(hint)
    folder = Path(given)
    if folder.is_dir() or not re.fullmatch(ON_THE_HUB, given):
        return folder
    hub = require("huggingface_hub", "clip", "fetching a tokenizer from the hub")
    try:
        return Path(hub.snapshot_download(given, allow_patterns=list(fetched)))
    except Exception as error:  # the hub has many ways to fail
        raise MissingError(
            f"the tokenizer of {given} is neither in a folder here nor to be had from the hub "
            f"({first_line(error)}): {hint}"
        ) from error
