"""The Hugging Face folder of a CLIP or SigLIP model: fetched, read, checked, written."""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import orjson

from genius import storage
from genius.encode.checkpoints import read_checkpoint
from genius.encode.clip_preprocess import Preprocessing
from genius.errors import InputError, MismatchError, MissingError, require
from genius.storage import Json, record_of

PURPOSE = "encoding with CLIP or SigLIP"
ARTIFACT, FORMAT = "clip", 1
"""The kind of artifact that a folder written by genius is."""
TOKENIZER_FILES = (
    "tokenizer.json",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)

TextCleaning = Literal["none", "openai"]
"""What is done to texts before the tokenizer gets them: nothing, or what OpenAI's CLIP does."""
TEXT_CLEANING = "genius_text_cleaning"
"""The key of a preprocessor's configuration that says it; other programs ignore it."""

_SAFE_WEIGHTS = ("model.safetensors", "model-*-of-*.safetensors")
_OLD_WEIGHTS = "pytorch_model.bin"
_CONFIGS = ("config.json", "preprocessor_config.json", "processor_config.json")
_MODULES = {"clip": "CLIPModel", "siglip": "SiglipModel"}
_IRRELEVANT = {"transformers_version", "_name_or_path", "architectures", "torch_dtype", "dtype"}
"""Keys of a configuration that change no feature."""


def model_folder(source: Path | str) -> Path:
    """The local folder `source`, or the folder that the hub's model of this name is downloaded to.

    Raises InputError for what is neither, MissingError if the hub can't be reached.
    """
    path = Path(source)
    if path.is_dir():
        return path
    if re.fullmatch(r"[\w.-]+/[\w.-]+", str(source)) is None or path.exists():
        raise InputError(
            "is no folder of a model: give one, or a name on the hub such as openai/clip-vit-large-patch14",
            path=path,
        )
    hub = require("huggingface_hub", "clip", "fetching a model from the hub")
    small = [*_CONFIGS, *TOKENIZER_FILES, "model.safetensors.index.json"]
    try:
        folder = Path(hub.snapshot_download(str(source), allow_patterns=[*small, *_SAFE_WEIGHTS]))
        if not _weights(folder):
            folder = Path(hub.snapshot_download(str(source), allow_patterns=[*small, _OLD_WEIGHTS]))
    except Exception as error:  # the hub has many ways to fail
        raise MissingError(
            f"{source} is neither a folder here nor to be had from the hub ({first_line(error)}): "
            "give the folder of a model, or fetch it where there is a network"
        ) from error
    return folder


@dataclass(frozen=True)
class ClipFolder:
    """The configuration, preprocessing and tokenizer of a model; its weights are read by `load`."""

    path: Path
    config: Json
    preprocessing: Preprocessing
    tokenizer: Any
    text_cleaning: TextCleaning = "none"

    @classmethod
    def open(cls, path: Path) -> ClipFolder:
        """Read everything but the weights.

        Raises InputError, MismatchError (parts of different models) or DamagedError (a folder that genius
        wrote and that was altered).
        """
        if storage.is_artifact(path):
            storage.open(path, kind=ARTIFACT, format=FORMAT)
        config = _json(path / "config.json")
        kind = config.get("model_type")
        if kind not in _MODULES:
            hint = "; SigLIP 2 works in its fixed sizes (not naflex)" if kind == "siglip2" else ""
            raise InputError(
                f"holds a model of type {kind!r}, not of {' or '.join(_MODULES)}{hint}", path=path
            )
        prepared = _preprocessor_config(path)
        cleaning = prepared.get(TEXT_CLEANING, "none")
        if cleaning not in get_args(TextCleaning):
            raise InputError(f"asks for texts to be cleaned by {cleaning!r}, which is not known", path=path)
        return cls(path, config, _preprocessing(path, kind), open_tokenizer(path), cleaning)

    def load(self, dtype: str) -> Any:
        """The torch module with the folder's weights. Raises InputError if some are missing or damaged."""
        torch = require("torch", "clip", PURPOSE)
        transformers = require("transformers", "clip", PURPOSE)
        model = getattr(transformers, _MODULES[self.config["model_type"]])
        settings: dict[str, Any] = {"dtype": getattr(torch, dtype), "output_loading_info": True}
        files = _weights(self.path)
        if not files:
            raise InputError(f"holds no weights ({_SAFE_WEIGHTS[0]} or {_OLD_WEIGHTS})", path=self.path)
        with quiet(transformers):
            try:
                if files[0].name == _OLD_WEIGHTS:  # a pickle: only our own reader touches it
                    state = {k: torch.from_numpy(v) for k, v in read_checkpoint(files[0]).items()}
                    config = model.config_class.from_pretrained(self.path, local_files_only=True)
                    module, report = model.from_pretrained(None, config=config, state_dict=state, **settings)
                else:
                    settings |= {"local_files_only": True, "use_safetensors": True}
                    module, report = model.from_pretrained(self.path, **settings)
            except InputError:
                raise
            except Exception as error:  # so has transformers
                raise InputError(f"can't be loaded ({first_line(error)})", path=self.path) from error
        if missing := sorted(report["missing_keys"]):
            raise InputError(
                f"lacks {len(missing)} weights, such as {', '.join(missing[:3])}", path=self.path
            )
        self._check_fit(module.config)
        return module

    def fingerprint(self, dtype: str) -> str:
        """SHA-256 of all that changes a feature: weights, configuration, preprocessing, tokenizer."""
        names = [name for name in TOKENIZER_FILES if (self.path / name).is_file()]
        files = [*(self.path / name for name in names), *_weights(self.path)]
        content = {
            "format": FORMAT,
            "dtype": dtype,
            "config": _relevant(self.config),
            "preprocessing": self.preprocessing.described(),
            "files": {file.name: record_of(file).sha256 for file in files},
        }
        if self.text_cleaning != "none":
            content["text_cleaning"] = self.text_cleaning
        return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()

    def write(self, module: Any, out: Path, made_from: str) -> Path:
        """Write a folder like this one with the weights of `module`, atomically."""
        from safetensors.torch import save_file

        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
        with storage.create(out, kind=ARTIFACT, format=FORMAT, made_from={"clip": made_from}) as draft:
            for name in (*_CONFIGS, *TOKENIZER_FILES):
                if (self.path / name).is_file():
                    shutil.copyfile(self.path / name, draft.folder / name)
            save_file(weights, draft.folder / "model.safetensors", metadata={"format": "pt"})
            draft.counts["weights"] = len(weights)
        return out

    def _check_fit(self, config: Any) -> None:
        """Raise MismatchError if preprocessing or tokenizer do not fit the towers."""
        side = config.vision_config.image_size
        expected = (side, side) if isinstance(side, int) else tuple(side)
        if self.preprocessing.shape != expected:
            raise MismatchError(
                f"{self.path}: pictures are prepared to {self.preprocessing.shape} pixels, but the model "
                f"takes {expected}; use the preprocessor_config.json of this very model"
            )
        tokens, known = len(self.tokenizer), config.text_config.vocab_size
        if tokens > known:
            raise MismatchError(
                f"{self.path}: the tokenizer has {tokens:,} tokens, but the model knows {known:,}; "
                "use the tokenizer of this very model"
            )


def open_tokenizer(folder: Path) -> Any:
    """The folder's tokenizer. Raises InputError if it has none that can be opened."""
    transformers = require("transformers", "clip", PURPOSE)
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise InputError(f"holds no tokenizer ({', '.join(TOKENIZER_FILES[:3])} …)", path=folder)
    with quiet(transformers):
        try:
            return transformers.AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
        except ImportError as error:
            raise MissingError(
                f"the tokenizer in {folder} needs another package ({first_line(error)}): "
                "install it with: pip install sentencepiece protobuf"
            ) from error
        except Exception as error:
            raise InputError(
                f"holds a tokenizer that can't be opened ({first_line(error)})", path=folder
            ) from error


def _weights(folder: Path) -> list[Path]:
    """The files of weights: safetensors if there are any, else the old pickle."""
    safe = [file for pattern in _SAFE_WEIGHTS for file in sorted(folder.glob(pattern))]
    return safe or sorted(folder.glob(_OLD_WEIGHTS))


def _preprocessing(folder: Path, kind: str) -> Preprocessing:
    """The folder's preprocessing of images."""
    try:
        return Preprocessing.parse(_preprocessor_config(folder), kind)
    except InputError as error:
        raise (error if error.path else error.at(_preprocessor_file(folder))) from error.__cause__


def _preprocessor_file(folder: Path) -> Path:
    """Where it is written; newer releases of transformers may write it into the processor's file."""
    path, combined = folder / "preprocessor_config.json", folder / "processor_config.json"
    return combined if not path.exists() and combined.exists() else path


def _preprocessor_config(folder: Path) -> Json:
    content = _json(_preprocessor_file(folder))
    inner = content.get("image_processor")
    return inner if isinstance(inner, dict) else content


def _json(path: Path) -> Json:
    try:
        content = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError("is missing: this is no complete folder of a model", path=path) from None
    except ValueError as error:
        raise InputError(f"is no JSON ({error})", path=path) from error
    if not isinstance(content, dict):
        raise InputError("holds no JSON object", path=path)
    return content


def _relevant(config: Json) -> Json:
    return {
        name: _relevant(value) if isinstance(value, dict) else value
        for name, value in config.items()
        if name not in _IRRELEVANT
    }


@contextlib.contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Silence the progress bars and reports of transformers; errors are raised as usual."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def first_line(error: BaseException) -> str:
    """What an error says, without what follows."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
