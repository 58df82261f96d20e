"""BERT's tokenizer, compared with transformers', and vocabularies in either of its files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from genius.encode.blip_tokenizer import ADDED, BlipTokenizer, read_vocabulary
from genius.errors import InputError

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
WORDS += ["dog", "##ging", "the", "!", ".", ",", "é"]
TEXTS = ["The DOG!", "dogging, doggy", "", "café 犬 x", "[SEP] the [MASK] dog", "dog " * 30]


def test_tokens_equal_those_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n", "utf-8")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path, do_lower_case=True)
    ours = BlipTokenizer(WORDS, 12)
    expected = theirs(TEXTS, truncation=True, max_length=12)["input_ids"]
    assert ours.token_ids(TEXTS) == [list(ids) for ids in expected]
    assert ours.too_long(TEXTS) == [False] * 5 + [True]


def test_blip_s_own_tokens_follow_the_vocabulary() -> None:
    tokens = BlipTokenizer(WORDS, 12).token_ids([" ".join(ADDED)])
    assert tokens == [[2, len(WORDS), len(WORDS) + 1, 3]]


def test_padding() -> None:
    ids, mask = BlipTokenizer(WORDS, 12).padded([[2, 9, 3], [2, 3]])
    np.testing.assert_array_equal(ids, [[2, 9, 3], [2, 3, 0]])
    np.testing.assert_array_equal(mask, [[1, 1, 1], [1, 1, 0]])


def test_either_file_has_the_vocabulary(tmp_path: Path) -> None:
    content = {"model": {"vocab": {word: number for number, word in reversed(list(enumerate(WORDS)))}}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert read_vocabulary(tmp_path) == WORDS
    (tmp_path / "vocab.txt").write_text("\n".join([*WORDS, *ADDED]) + "\n", "utf-8")
    assert read_vocabulary(tmp_path) == WORDS, "BLIP's own tokens are not BERT's"


def test_what_is_no_vocabulary_of_bert(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no tokenizer of BERT .* name a folder with the files of"):
        read_vocabulary(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match=r"tokenizer.json: holds no vocabulary of BERT"):
        read_vocabulary(tmp_path)
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\ndog\n")
    with pytest.raises(
        InputError, match=r"vocab.txt: is no vocabulary of BERT, as it lacks \[CLS\], \[SEP\]"
    ):
        read_vocabulary(tmp_path)
