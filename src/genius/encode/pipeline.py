"""Encode a collection into an artifact of features: only what the cache lacks, in several processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from PIL import Image

from genius.data.content_key import content_key
from genius.data.images import load
from genius.data.mbeir import SPLITS, Split, Tree
from genius.data.records import ImageSource
from genius.encode.direct import pixel_batches
from genius.encode.encoder import Encoder, EncoderLoader
from genius.encode.feature_cache import FeatureCache
from genius.encode.features import Features, is_up_to_date, write_features
from genius.encode.inputs import EncoderInputs
from genius.errors import GeniusError, InputError
from genius.progress import bar
from genius.runtime import cores

IMAGE_BATCH = 16
TEXT_BATCH = 512

Encoded = tuple[np.ndarray, list[InputError | None]]
"""Features of a batch without what failed, and for each image of the batch its error or None."""
RunBatches = Callable[[Callable[..., Encoded], Iterable[Any]], Iterator[Encoded]]
"""Runs a function over batches and yields the results in order."""


@dataclass
class EncodingReport:
    """How many inputs were encoded, how many were in the cache, and which images failed, by name."""

    encoded: int = 0
    known: int = 0
    failed: dict[str, InputError] = field(default_factory=dict)

    @property
    def failures(self) -> list[InputError]:
        """The errors of the images that failed."""
        return list(self.failed.values())


@dataclass(frozen=True)
class CacheKeys:
    """The cache keys of images (by name) and of texts; an image that failed has none."""

    images: dict[str, bytes]
    texts: dict[str, bytes]


class CachedEncoder:
    """An encoder with its cache and its worker processes; made by `open_cached_encoder`."""

    def __init__(self, run: RunBatches, images: FeatureCache, texts: FeatureCache) -> None:
        self.images, self.texts = images, texts
        self._run = run

    def fill(self, inputs: EncoderInputs, report: EncodingReport, *, bars: bool = True) -> CacheKeys:
        """Encode what the cache lacks; each batch is stored as soon as it is done."""
        images = _encode_images(inputs, self.images, self._run, report, bars)
        texts = {text: content_key(text.encode()) for text in inputs.texts}
        _encode_texts(texts, self.texts, self._run, report, bars)
        return CacheKeys(images, texts)


@contextlib.contextmanager
def open_cached_encoder(
    loader: EncoderLoader, encoder: Encoder, cache: Path, workers: int
) -> Iterator[CachedEncoder]:
    """Open an encoder's cache, and worker processes if `workers` is more than one."""
    folder = cache / encoder.fingerprint[:16]
    with (
        _open_workers(loader, encoder, workers) as run,
        FeatureCache(folder / "images.cache", encoder.image_width) as images,
        FeatureCache(folder / "texts.cache", encoder.text_width) as texts,
    ):
        yield CachedEncoder(run, images, texts)


def encode(
    inputs: EncoderInputs, loader: EncoderLoader, out: Path | str, *, cache: Path, workers: int = 1
) -> EncodingReport:
    """Write the features of `inputs` to the artifact `out`; an image that can't be read gets no row.

    It can be stopped at any moment and resumes where it was, since each encoded batch is in the cache.
    """
    encoder = loader(workers)
    report = EncodingReport()
    with open_cached_encoder(loader, encoder, cache, workers) as cached:
        keys = cached.fill(inputs, report)
        # The same images under the same names and the same texts have the same features.
        digest = content_key(
            b"".join(name.encode() + key for name, key in (keys.images | keys.texts).items())
        ).hex()
        if not is_up_to_date(out, encoder, digest):
            write_features(
                out,
                encoder,
                digest,
                (list(keys.images), cached.images.rows(list(keys.images.values()))),
                (list(keys.texts), cached.texts.rows(list(keys.texts.values()))),
            )
    return report


def default_cache() -> Path:
    """The user's folder for cached features."""
    return platformdirs.user_cache_path("genius") / "features"


def tree_features(
    tree: Tree, loader: EncoderLoader, cache: Path, *, apart: bool = True, splits: Sequence[Split] = SPLITS
) -> tuple[Features, EncodingReport]:
    """The features of an M-BEIR tree, stored in the cache folder; instructions `apart` or before the texts.

    A view of some data sets has features of its own, and so have some of the splits, so that they do not
    overwrite those of the whole tree.
    """
    inputs = EncoderInputs(apart)
    inputs.add_tree(tree, splits)
    encoder = loader(1)
    tree_key = content_key("\n".join((str(tree.path.resolve()), *tree.datasets)).encode()).hex()
    name = f"tree-{tree_key}" if apart else f"tree-{tree_key}-instructed"
    if set(splits) != set(SPLITS):
        name += f"-{'-'.join(splits)}"
    out = cache / encoder.fingerprint[:16] / name
    on_processor = getattr(loader, "device", "cpu") == "cpu"  # one process is enough for a GPU
    report = encode(inputs, loader, out, cache=cache, workers=cores() if on_processor else 1)
    return Features.open(out, encoder), report


def _encode_images(
    inputs: EncoderInputs, cache: FeatureCache, run: RunBatches, report: EncodingReport, bars: bool
) -> dict[str, bytes]:
    """Fill the cache with the images; returns their keys by name, without those that failed."""
    keys: dict[str, bytes] = {}
    for name, source in inputs.images.items():
        try:
            keys[name] = content_key(source.read())
        except InputError as error:
            report.failed[name] = error
    names = list(keys)
    todo = [names[position] for position in cache.missing(list(keys.values()))]
    report.known += len(keys) - len(todo)
    batches = _batches(todo, IMAGE_BATCH)
    failed: set[bytes] = set()
    with bar("encoding pictures", total=len(todo), unit="pictures", silent=not bars) as shown:
        done = run(encode_image_batch, [[inputs.images[name] for name in batch] for batch in batches])
        for batch, (rows, errors) in zip(batches, done, strict=True):
            bad = {position for position, error in enumerate(errors) if error is not None}
            good = [name for position, name in enumerate(batch) if position not in bad]
            cache.add([keys[name] for name in good], rows)
            failed |= {keys[batch[position]] for position in bad}
            report.failed |= {
                name: error for name, error in zip(batch, errors, strict=True) if error is not None
            }
            report.encoded += len(good)
            shown.advance(len(batch))
    return {name: key for name, key in keys.items() if key not in failed}


def _encode_texts(
    keys: dict[str, bytes], cache: FeatureCache, run: RunBatches, report: EncodingReport, bars: bool
) -> None:
    texts = list(keys)
    todo = [texts[position] for position in cache.missing(list(keys.values()))]
    report.known += len(keys) - len(todo)
    batches = _batches(sorted(todo, key=len), TEXT_BATCH)  # texts of similar length are encoded faster
    with bar("encoding texts", total=len(todo), unit="texts", silent=not bars) as shown:
        for batch, (rows, _) in zip(batches, run(encode_text_batch, batches), strict=True):
            cache.add([keys[text] for text in batch], rows)
            report.encoded += len(batch)
            shown.advance(len(batch))


def _batches(inputs: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [inputs[start : start + size] for start in range(0, len(inputs), size)]


# --- in a worker process ---------------------------------------------------------------------------

_encoder: Encoder | None = None


def encode_image_batch(sources: Sequence[ImageSource], encoder: Encoder | None = None) -> Encoded:
    """Features of the images that can be read, and for each image its error or None."""
    encoder = encoder or _own_encoder()
    rows = [np.zeros((0, encoder.image_width), np.float32)]
    errors: list[InputError | None] = []
    for batch in pixel_batches(sources):
        images: list[Image.Image] = []
        for source in sources[batch]:
            try:
                images.append(load(source))
                errors.append(None)
            except InputError as error:
                errors.append(error)
        if images:
            rows.append(encoder.encode_images(images))
        del images  # before the next ones are loaded
    return np.concatenate(rows), errors


def encode_text_batch(texts: Sequence[str], encoder: Encoder | None = None) -> Encoded:
    """Features of texts."""
    return (encoder or _own_encoder()).encode_texts(texts), []


def _own_encoder() -> Encoder:
    if _encoder is None:
        raise GeniusError("a worker has no encoder")
    return _encoder


def _start_worker(loader: EncoderLoader) -> None:
    """Open the encoder, and exit when the parent process has died."""
    globals()["_encoder"] = loader(1)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_with, args=(parent.sentinel,), daemon=True).start()


def _exit_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


@contextlib.contextmanager
def _open_workers(loader: EncoderLoader, encoder: Encoder, workers: int) -> Iterator[RunBatches]:
    """Runs batches in this process, or in that many worker processes."""
    if workers <= 1:
        yield lambda function, batches: (function(batch, encoder) for batch in batches)
        return
    # spawned, not forked: the threads of ONNX Runtime don't survive a fork
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _start_worker, (loader,)) as pool:
        yield lambda function, batches: _in_order(pool, function, batches, 4 * workers)


def _in_order(
    pool: ProcessPoolExecutor, function: Callable[..., Encoded], batches: Iterable[Any], ahead: int
) -> Iterator[Encoded]:
    """The results in the order of the batches, with at most `ahead` batches in flight."""
    in_flight: deque[Future[Encoded]] = deque()
    for batch in batches:
        in_flight.append(pool.submit(function, batch))
        if len(in_flight) >= ahead:
            yield in_flight.popleft().result()
    while in_flight:
        yield in_flight.popleft().result()
