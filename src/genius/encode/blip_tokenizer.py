"""BERT's tokenizer as BLIP uses it: lower case, with two tokens of BLIP's own after the vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson

from genius.errors import InputError

VOCABULARY_FILES = ("vocab.txt", "tokenizer.json")
"""Either of them has BERT's vocabulary."""
ADDED = ("[DEC]", "[ENC]")
"""BLIP's own tokens. UniIR's texts begin with BERT's [CLS], so these count only in a text that names them."""
PADDING, UNKNOWN, START, END = "[PAD]", "[UNK]", "[CLS]", "[SEP]"


class BlipTokenizer:
    """Texts to token ids, of which at most `length` are kept; `words` is BERT's vocabulary, by token id."""

    def __init__(self, words: Sequence[str], length: int) -> None:
        from tokenizers import BertWordPieceTokenizer

        ids = {word: number for number, word in enumerate(words)}
        self._tokenizer = BertWordPieceTokenizer(ids, lowercase=True)
        self._tokenizer.add_special_tokens(list(ADDED))
        self._padding, self._end, self._length = ids[PADDING], ids[END], length

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text, between [CLS] and [SEP]; what is too long loses its last ones."""
        tokens = self._all_tokens(texts)
        return [ids if len(ids) <= self._length else [*ids[: self._length - 1], self._end] for ids in tokens]

    def too_long(self, texts: Sequence[str]) -> list[bool]:
        """Which of the texts have more tokens than are kept."""
        return [len(ids) > self._length for ids in self._all_tokens(texts)]

    def padded(self, tokens: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
        """Token ids and attention mask int64 [n, longest]."""
        length = max(map(len, tokens), default=1)
        ids = np.full((len(tokens), length), self._padding, np.int64)
        mask = np.zeros_like(ids)
        for place, row in enumerate(tokens):
            ids[place, : len(row)] = row
            mask[place, : len(row)] = 1
        return ids, mask

    def _all_tokens(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoded.ids for encoded in self._tokenizer.encode_batch(list(texts))]


def read_vocabulary(folder: Path) -> list[str]:
    """BERT's vocabulary, by token id, from the files of a tokenizer; without BLIP's own tokens.

    Raises InputError, with a way out, if the folder has none.
    """
    path = next((folder / name for name in VOCABULARY_FILES if (folder / name).is_file()), None)
    if path is None:
        raise InputError(
            "holds no tokenizer of BERT (vocab.txt or tokenizer.json), and UniIR's checkpoint has none: name "
            "a folder with the files of bert-base-uncased",
            path=folder,
        )
    try:
        if path.suffix == ".txt":
            words = path.read_text("utf-8").rstrip("\n").split("\n")
        else:
            ids: dict[str, int] = orjson.loads(path.read_bytes())["model"]["vocab"]
            words = sorted(ids, key=lambda word: ids[word])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"holds no vocabulary of BERT ({error!r})", path=path) from error
    words = words[: -len(ADDED)] if tuple(words[-len(ADDED) :]) == ADDED else words
    if missing := sorted({PADDING, UNKNOWN, START, END} - set(words)):
        raise InputError(
            f"is no vocabulary of BERT, as it lacks {', '.join(missing)}: use that of bert-base-uncased",
            path=path,
        )
    return words
