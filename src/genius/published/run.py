"""The import itself: from published files to one model folder, as any other.

Every name and shape of all files is checked, and whether they belong together, before anything is written;
then the parts are read, converted and written one after the other, so that never more than one of them is in
memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genius import storage
from genius.decode.export import PROBES, export_decoder
from genius.decode.onnx_decoder import Normalisation
from genius.decode.t5 import T5Decoder
from genius.dense_model import FusionKind
from genius.encode.blip_folder import write_blip
from genius.encode.clip_folder import ClipFolder
from genius.encode.uniir import clip_config, write_clip
from genius.errors import InputError, MismatchError, require
from genius.model import FORMAT, KIND, Model
from genius.published.blip_file import WHAT, CheckedBlip, check_blip
from genius.published.decoder_file import QUANTIZER, check_decoder, read_decoder
from genius.published.files import PublishedFile
from genius.published.quantizer_file import (
    PublishedQuantizer,
    check_quantizer,
    check_same_quantizer,
    read_quantizer,
)
from genius.published.tokenizer_folder import blip_tokenizer_folder, clip_tokenizer_folder
from genius.quantize.search_settings import SearchSettings
from genius.tensors import write_tensors
from genius.train.model_writer import (
    decoder_settings,
    fusion_graph,
    shared_tensors,
    sum_graph,
    write_decoder_files,
)

PRECOMPUTED = "precomputed"
AS_PUBLISHED = SearchSettings(force_modality=False, more_beams=False, bucket_order="added", query_bits=16)
"""How the authors' code searches."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class ImportedFiles:
    """What a model is made from.

    Attributes:
        clip: UniIR's CLIP, or None if it is a BLIP, or if items and queries bring their features along.
        quantizer: the fusion and codebooks; None for dense search alone.
        decoder: the learned decoder; None for search by geometry.
        tokenizer: a folder with CLIP's tokenizer (or BERT's, for a BLIP), or a name on the hub; None if it
            is beside the CLIP or BLIP.
        blip: UniIR's BLIP, in place of a CLIP, for dense search alone.
    """

    clip: Path | None = None
    quantizer: Path | None = None
    decoder: Path | None = None
    tokenizer: str | None = None
    blip: Path | None = None

    def __post_init__(self) -> None:
        if self.blip is not None and (self.clip or self.quantizer or self.decoder):
            raise InputError(
                "a BLIP is imported alone: GENIUS's quantizer and decoder were trained over CLIP; to search "
                "by codes, fit them to your items with genius fit --encoder"
            )
        if self.clip is None and self.quantizer is None and self.blip is None:
            raise InputError(
                "there is nothing to import: give --clip, and for codes --quantizer and --decoder, too, or "
                "--blip; with --encoder precomputed in place of --clip, features come from elsewhere"
            )
        if self.decoder is not None and self.quantizer is None:
            raise InputError("a decoder writes the codes of a quantizer: give --quantizer, too")
        if self.clip is None and self.blip is None and self.tokenizer is not None:
            raise InputError("a tokenizer is for a CLIP or a BLIP: give --clip or --blip, or leave it out")


def import_model(
    files: ImportedFiles,
    out: Path | str,
    *,
    normalisation: Normalisation = "vocabulary",
    tell: Tell = lambda message: None,
) -> Model:
    """Make a model of published files at `out`; `tell` is called with a line for each part.

    `normalisation` is that of the decoder's log-probabilities; as published, over the whole vocabulary.
    Raises InputError for a file that is not what it should be, and MismatchError for files that don't belong
    together; then nothing is written.
    """
    out = Path(out)
    storage.check_target(out, KIND)
    require("onnx", "train", "importing a model")
    checked = _Checked.of(files)
    settings: dict[str, Any] = {
        "stages": ["encoder"],
        "fusion_kind": checked.fusion_kind,
        "width": checked.width,
        "fusion": None,
        "recipe": {},
        "validation": {},
        "imported": checked.described(),
    }
    made_from = {name: str(record["sha256"]) for name, record in settings["imported"].items()}
    with storage.create(out, kind=KIND, format=FORMAT, settings=settings, made_from=made_from) as draft:
        if checked.fusion_kind == "score":
            for kind in ("items", "queries"):
                (draft.folder / f"{kind}.onnx").write_bytes(sum_graph(checked.width, kind))
        draft.settings["encoder"] = _write_encoder(checked, draft, tell)
        if checked.quantizer is not None:
            published = read_quantizer(checked.quantizer)
            _write_quantizer(published, draft)
            tell(_summary(checked.quantizer, f"quantizer, codes {_times(published.quantizer.sizes)}"))
            if checked.decoder is not None:
                _write_decoder(checked.decoder, published, draft, normalisation, tell)
    return Model.open(out)


@dataclass(frozen=True)
class _Checked:
    """Files whose names and shapes are all as they should be."""

    width: int
    clip: PublishedFile | None
    tokenizer: Path | None
    quantizer: PublishedFile | None
    decoder: PublishedFile | None
    blip: CheckedBlip | None = None

    @classmethod
    def of(cls, files: ImportedFiles) -> _Checked:
        if files.blip is not None:
            file = PublishedFile.open(files.blip, "blip")
            blip = check_blip(file, blip_tokenizer_folder(files.tokenizer, files.blip))
            return cls(blip.sizes.width, None, None, None, None, blip)
        return cls._of_genius(files)

    @classmethod
    def _of_genius(cls, files: ImportedFiles) -> _Checked:
        clip = quantizer = decoder = tokenizer = None
        widths: dict[str, int] = {}
        if files.quantizer is not None:
            quantizer = PublishedFile.open(files.quantizer, "quantizer")
            widths[str(files.quantizer)] = check_quantizer(quantizer).width
        if files.decoder is not None and quantizer is not None:
            decoder = PublishedFile.open(files.decoder, "decoder")
            own = check_quantizer(decoder.part(QUANTIZER))
            check_decoder(decoder.without(QUANTIZER), own.width, own.codes)
            check_same_quantizer(decoder.part(QUANTIZER), quantizer)
        if files.clip is not None:
            clip = PublishedFile.open(files.clip, "clip")
            tokenizer = clip_tokenizer_folder(files.tokenizer, files.clip)
            try:
                widths[str(files.clip)] = int(clip_config(clip.tensors)["projection_dim"])
            except InputError as error:
                raise error.at(files.clip) from None
        if len(set(widths.values())) > 1:
            (codes_of, codes), (clip_of, features) = widths.items()
            raise MismatchError(
                f"{clip_of} gives features of {features} numbers, but {codes_of} takes {codes}: they don't "
                "belong together"
            )
        return cls(next(iter(widths.values())), clip, tokenizer, quantizer, decoder)

    @property
    def fusion_kind(self) -> FusionKind:
        """BLIP's feature fusion is one over tokens; all else adds features."""
        return "tokens" if self.blip is not None and self.blip.sizes.fusion == "feature" else "score"

    def described(self) -> dict[str, dict[str, str | int]]:
        """What the manifest says of the files."""
        blip = self.blip.file if self.blip is not None else None
        files = {"clip": self.clip, "blip": blip, "quantizer": self.quantizer, "decoder": self.decoder}
        return {name: file.described() for name, file in files.items() if file is not None}


def _write_encoder(checked: _Checked, draft: storage.Draft, tell: Tell) -> dict[str, Any]:
    """Write the towers, if there are any; returns what the model's settings say of the encoder."""
    if checked.blip is not None:
        return _write_blip(checked.blip, draft, tell)
    if checked.clip is None or checked.tokenizer is None:
        tell(f"encoder: features of {checked.width} numbers that items and queries bring along")
        return {
            "kind": PRECOMPUTED,
            "source": "",
            "fingerprint": f"{PRECOMPUTED}-{checked.width}",
            "width": checked.width,
            "whole": False,
        }
    towers = draft.folder / "towers"
    towers.mkdir()
    try:
        write_clip(checked.clip.tensors, checked.tokenizer, towers)
    except InputError as error:
        raise error.at(checked.clip.path) from error.__cause__
    folder = ClipFolder.open(towers)
    draft.counts["parameters"] = sum(int(np.prod(tensor.shape)) for tensor in checked.clip.tensors.values())
    tell(_summary(checked.clip, f"CLIP with score fusion, features of {checked.width} numbers"))
    return {"kind": "clip", "source": "", "fingerprint": folder.fingerprint("float32")}


def _write_blip(blip: CheckedBlip, draft: storage.Draft, tell: Tell) -> dict[str, Any]:
    towers = draft.folder / "towers"
    towers.mkdir()
    weights = blip.read()
    folder = write_blip(towers, blip.sizes.settings(), blip.words, weights)
    draft.counts["parameters"] = sum(value.size for value in weights.values())
    tell(_summary(blip.file, f"{WHAT[blip.sizes.fusion]}, embeddings of {blip.sizes.width} numbers"))
    return {"kind": "blip", "source": "", "fingerprint": folder.fingerprint()}


def _write_quantizer(published: PublishedQuantizer, draft: storage.Draft) -> None:
    fusion, quantizer = published.fusion, published.quantizer
    tensors, graphs, names = shared_tensors(fusion, {"fusion.onnx": fusion_graph(fusion)})
    write_tensors(draft.folder / "quantizer.safetensors", tensors)
    quantizer.write(draft.folder / "codebooks.safetensors")
    (draft.folder / "fusion.onnx").write_bytes(graphs["fusion.onnx"])
    draft.settings["stages"] = ["encoder", "quantizer"]
    draft.settings["tensors"] = names
    draft.settings["quantizer"] = {
        "sizes": list(quantizer.sizes),
        "modality_code": quantizer.modality_code,
        "fusion": dataclasses.asdict(fusion.settings),
        "search": dataclasses.asdict(AS_PUBLISHED),
        "beams": 1,
        "temperature": None,  # there are no queries to fit it to: an index fits it to its items
        "modality_of": [min(code, 2) for code in range(quantizer.sizes[0])],
        "dense_baseline": "embeddings",
        "query_scale": 1.0,
        "rerank": 1.0,
    }
    draft.counts["codes"] = sum(quantizer.sizes)


def _write_decoder(
    file: PublishedFile,
    published: PublishedQuantizer,
    draft: storage.Draft,
    normalisation: Normalisation,
    tell: Tell,
) -> None:
    quantizer = published.quantizer
    network = read_decoder(file.without(QUANTIZER), published.width, quantizer.sizes, normalisation)
    # There are no queries to compare graphs along: quantized vectors of random codes take their place.
    codes = np.random.default_rng(0).integers(0, quantizer.sizes, (PROBES, len(quantizer.sizes)))
    exported = export_decoder(network, quantizer.units(codes), codes, needs_8_bits=False)
    write_decoder_files(draft, network, exported)
    draft.settings["stages"] = ["encoder", "quantizer", "decoder"]
    draft.settings["decoder"] = decoder_settings(network, exported)
    tell(_summary(file, f"decoder, {_network(network)}"))
    if "int8" not in exported.graphs:
        tell(
            f"without 8-bit graphs: their log-probabilities would be off by {exported.mean['int8']:.2g} on "
            "average"
        )


def _summary(file: PublishedFile, what: str) -> str:
    weights = sum(int(np.prod(tensor.shape)) for tensor in file.tensors.values())
    megabytes = file.path.stat().st_size / 1e6
    return f"{file.path.name}: {what}; {weights / 1e6:,.1f} million numbers, {megabytes:,.1f} MB"


def _times(sizes: tuple[int, ...]) -> str:
    return " × ".join(map(str, sizes))


def _network(network: T5Decoder) -> str:
    settings = network.settings
    return (
        f"{settings.layers} layers of {settings.width} numbers, {settings.heads} heads, a prefix of "
        f"{settings.prefix}; normalised over the {settings.normalisation}"
    )
