"""Any model of sentence-transformers: texts, images or both, with the model's own prompts.

Items are encoded by `encode_document` and queries by `encode_query`, so that the prompts of a model are
used as it was trained. An instruction takes the place of the query's prompt. Python code that a model brings
along is never run unless the user says so.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import orjson

from genius.encode.clip_folder import first_line, quiet
from genius.errors import InputError, MissingError, require

if TYPE_CHECKING:
    from PIL import Image

PURPOSE = "encoding with sentence-transformers"
BATCH = 32
OWN_CODE = "sentence_transformers."
"""Modules of a model whose classes have other names come with the model."""
_INSTRUCT = re.compile(r"(?P<before>Instruct: ).*?(?P<after>\s*\n?Query:\s*)$", re.DOTALL)
"""The prompt of models that follow instructions, as E5-instruct, Qwen3-Embedding and many others have it."""

Role = Literal["query", "document"]


class SentenceEncoder:
    """A model whose images and texts, as far as it takes them, are in one space."""

    def __init__(self, model: Any, fingerprint: str) -> None:
        self._model, self.fingerprint = model, fingerprint
        self.text_width = self.image_width = int(model.get_embedding_dimension())
        self.image_parts: Mapping[str, int] = {"features": self.image_width}
        self.text_parts: Mapping[str, int] = {"features": self.text_width}

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Features [n, text_width] of items' texts. Raises InputError for a model that takes none."""
        self._check("text", "texts")
        return self._encode(list(texts), "document")

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """Features [n, image_width] of items' images. Raises InputError for a model that takes none."""
        self._check("image", "images")
        return self._encode(list(images), "document")

    def encode_queries(
        self, images: Sequence[Image.Image | None], texts: Sequence[str], instructions: Sequence[str]
    ) -> np.ndarray:
        """Features [n, text_width] of queries, each under its instruction or else the model's prompt."""
        rows = np.zeros((len(texts), self.text_width), np.float32)
        groups: dict[tuple[bool, bool, str], list[int]] = {}
        for place, (image, text, instruction) in enumerate(zip(images, texts, instructions, strict=True)):
            groups.setdefault((image is not None, bool(text), instruction), []).append(place)
        for (has_image, has_text, instruction), places in groups.items():
            if has_image:
                self._check("image", "images")
            if has_text:
                self._check("text", "texts")
            inputs = [_input(images[place], texts[place]) for place in places]
            rows[places] = self._encode(inputs, "query", self._prompt(instruction))
        return rows

    def too_long(self, texts: Sequence[str]) -> list[bool]:
        """Which of the texts have more tokens than the model reads, as far as it says."""
        tokenizer, length = self._model.tokenizer, self._model.max_seq_length
        if not len(texts) or not callable(tokenizer) or not length:
            return [False] * len(texts)
        tokens = tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]
        return [len(ids) > length for ids in tokens]

    def _encode(self, inputs: list[Any], role: Role, prompt: str | None = None) -> np.ndarray:
        if not inputs:
            return np.zeros((0, self.text_width), np.float32)
        encode = self._model.encode_query if role == "query" else self._model.encode_document
        rows = encode(inputs, prompt=prompt, batch_size=BATCH, show_progress_bar=False)
        return np.asarray(rows, np.float32)

    def _prompt(self, instruction: str) -> str | None:
        """The prompt that says the instruction as the model's own prompt says its; None for that one."""
        if not instruction:
            return None
        own = (self._model.prompts or {}).get("query") or ""
        if _INSTRUCT.search(own):
            return _INSTRUCT.sub(lambda match: match["before"] + instruction + match["after"], own)
        return f"{instruction} "

    def _check(self, modality: str, plural: str) -> None:
        if not self._model.supports(modality):
            takes = " and ".join(str(known) for known in self._model.modalities)
            raise InputError(
                f"this model of sentence-transformers takes {takes}, and no {plural}: fit another encoder"
            )


class SentencePairEncoder(SentenceEncoder):
    """A model that also takes an image with its text in one call."""

    def encode_pairs(self, images: Sequence[Image.Image], texts: Sequence[str]) -> np.ndarray:
        """Features [n, text_width] of items that have both."""
        return self._encode([_input(*pair) for pair in zip(images, texts, strict=True)], "document")


@dataclass(frozen=True)
class SentenceTransformersLoader:
    """Opens a model in a worker process; `source` is a folder or a name on the hub."""

    source: str
    trust_remote_code: bool = False

    def __call__(self, threads: int) -> SentenceEncoder:
        """The encoder, using this many threads."""
        return open_model(self.source, threads=threads, trust_remote_code=self.trust_remote_code)


def open_model(
    source: Path | str, *, threads: int | None = None, trust_remote_code: bool = False
) -> SentenceEncoder:
    """The model in a folder, or of that name on the hub.

    Raises InputError (no such model, or one that wants to run code of its own) or MissingError (not available
    offline).
    """
    folder = Path(source)
    if folder.is_dir() and not trust_remote_code:
        _refuse_code(folder)
    library = require("sentence_transformers", "sentence-transformers", PURPOSE)
    if threads is not None:
        require("torch", "sentence-transformers", PURPOSE).set_num_threads(threads)
    try:
        with quiet(require("transformers", "sentence-transformers", PURPOSE)):
            model = library.SentenceTransformer(
                str(source),
                device="cpu",
                trust_remote_code=trust_remote_code,
                local_files_only=folder.is_dir(),
            )
    except Exception as error:  # the library has no errors of its own
        if "trust_remote_code" in str(error):
            raise _code_error(source) from error
        if folder.is_dir():
            raise InputError(
                f"is no model of sentence-transformers: {first_line(error)}", path=folder
            ) from error
        raise MissingError(
            f"cannot get the model {str(source)!r} of sentence-transformers: {first_line(error)}; "
            "download it and give its folder"
        ) from error
    model.eval()
    kind = SentencePairEncoder if model.supports(("image", "text")) else SentenceEncoder
    return kind(model, _fingerprint(source, model))


def _input(image: Image.Image | None, text: str) -> Any:
    if image is None:
        return text
    return {"image": image, "text": text} if text else image


def _refuse_code(folder: Path) -> None:
    """Raise InputError if a model names classes that are not the library's."""
    try:
        modules = orjson.loads((folder / "modules.json").read_bytes())
        foreign = [entry["type"] for entry in modules if not entry["type"].startswith(OWN_CODE)]
    except FileNotFoundError:
        foreign = []
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"its modules.json is damaged: {error}", path=folder) from error
    for config in (folder / "config.json", *folder.glob("*/config.json")):
        try:
            foreign += ["auto_map"] if "auto_map" in orjson.loads(config.read_bytes()) else []
        except (OSError, ValueError, TypeError):
            continue
    if foreign:
        raise _code_error(folder)


def _code_error(source: Path | str) -> InputError:
    return InputError(
        f"the model {str(source)!r} wants to run Python code that it brings along: if you trust whoever made "
        "it, say --trust-remote-code"
    )


def _fingerprint(source: Path | str, model: Any) -> str:
    """Of a folder's files, or of a name's configuration and weights as they were loaded."""
    digest = hashlib.sha256(b"sentence-transformers")
    folder = Path(source)
    if folder.is_dir():
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".md"):
            digest.update(path.relative_to(folder).as_posix().encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().float().numpy().tobytes())
    digest.update(orjson.dumps({name: model.prompts[name] for name in sorted(model.prompts or {})}))
    return digest.hexdigest()
