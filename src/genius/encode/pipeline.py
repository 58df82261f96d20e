"""Encode a collection: what the cache does not know yet, in several processes, to one features artifact."""

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

from genius.data.images import load
from genius.data.mbeir import Tree
from genius.data.records import ImageSource
from genius.encode.contents import Contents
from genius.encode.direct import portions
from genius.encode.encoder import Encoder, EncoderLoader
from genius.encode.feature_cache import FeatureCache, content_key
from genius.encode.features import Features, is_of, write_features
from genius.errors import GeniusError, InputError
from genius.progress import bar
from genius.runtime import cores

IMAGE_BATCH = 16
TEXT_BATCH = 512

Encoded = tuple[np.ndarray, list[InputError | None]]
Run = Callable[[Callable[..., Encoded], Iterable[Any]], Iterator[Encoded]]


@dataclass
class Report:
    """What was done: how much was encoded, how much was known, which pictures failed, by name."""

    encoded: int = 0
    known: int = 0
    failed: dict[str, InputError] = field(default_factory=dict)

    @property
    def failures(self) -> list[InputError]:
        """What was wrong with the pictures that failed."""
        return list(self.failed.values())


@dataclass(frozen=True)
class Keys:
    """Under which keys of the cache pictures (by name) and texts are; a picture that failed has none."""

    images: dict[str, bytes]
    texts: dict[str, bytes]


class Encoding:
    """An encoder at work, with its cache and its worker processes; `encoding` opens one."""

    def __init__(self, run: Run, images: FeatureCache, texts: FeatureCache) -> None:
        self.images, self.texts = images, texts
        self._run = run

    def fill(self, contents: Contents, report: Report, *, bars: bool = True) -> Keys:
        """Encode what the cache does not know yet; it is in the cache, batch by batch, when it is done."""
        images = _encode_images(contents, self.images, self._run, report, bars)
        texts = {text: content_key(text.encode()) for text in contents.texts}
        _encode_texts(texts, self.texts, self._run, report, bars)
        return Keys(images, texts)


@contextlib.contextmanager
def encoding(loader: EncoderLoader, encoder: Encoder, cache: Path, workers: int) -> Iterator[Encoding]:
    """Open an encoder's cache, and worker processes if there shall be several."""
    home = cache / encoder.fingerprint[:16]
    with (
        _workers(loader, encoder, workers) as run,
        FeatureCache(home / "images.cache", encoder.image_width) as images,
        FeatureCache(home / "texts.cache", encoder.text_width) as texts,
    ):
        yield Encoding(run, images, texts)


def encode(
    contents: Contents, loader: EncoderLoader, out: Path | str, *, cache: Path, workers: int = 1
) -> Report:
    """Write the features of `contents` to the artifact `out`; a picture that can't be read has no row.

    Stopped at any moment, it goes on where it was: what is encoded is in the cache, batch by batch.
    """
    encoder = loader(workers)
    report = Report()
    with encoding(loader, encoder, cache, workers) as work:
        keys = work.fill(contents, report)
        # The same pictures under the same names and the same texts are the same features.
        digest = content_key(
            b"".join(name.encode() + key for name, key in (keys.images | keys.texts).items())
        ).hex()
        if not is_of(out, encoder, digest):
            write_features(
                out,
                encoder,
                digest,
                (list(keys.images), work.images.rows(list(keys.images.values()))),
                (list(keys.texts), work.texts.rows(list(keys.texts.values()))),
            )
    return report


def default_cache() -> Path:
    """Where features are cached for the user."""
    return platformdirs.user_cache_path("genius") / "features"


def tree_features(
    tree: Tree, loader: EncoderLoader, cache: Path, *, apart: bool = True
) -> tuple[Features, Report]:
    """The features of an M-BEIR tree, kept in the cache; instructions `apart` or before the texts.

    A view of some data sets has features of its own, so that it does not take the place of the whole tree's.
    """
    contents = Contents(apart)
    contents.add_tree(tree)
    encoder = loader(1)
    place = content_key("\n".join((str(tree.path.resolve()), *tree.datasets)).encode()).hex()
    name = f"tree-{place}" if apart else f"tree-{place}-instructed"
    out = cache / encoder.fingerprint[:16] / name
    report = encode(contents, loader, out, cache=cache, workers=cores())
    return Features.open(out, encoder), report


def _encode_images(
    contents: Contents, cache: FeatureCache, run: Run, report: Report, bars: bool
) -> dict[str, bytes]:
    """Fill the cache with the pictures; returns their keys by name, without those that failed."""
    keys: dict[str, bytes] = {}
    for name, source in contents.images.items():
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
        done = run(encode_images, [[contents.images[name] for name in batch] for batch in batches])
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


def _encode_texts(keys: dict[str, bytes], cache: FeatureCache, run: Run, report: Report, bars: bool) -> None:
    texts = list(keys)
    todo = [texts[position] for position in cache.missing(list(keys.values()))]
    report.known += len(keys) - len(todo)
    batches = _batches(sorted(todo, key=len), TEXT_BATCH)  # texts of like length are quicker together
    with bar("encoding texts", total=len(todo), unit="texts", silent=not bars) as shown:
        for batch, (rows, _) in zip(batches, run(encode_texts, batches), strict=True):
            cache.add([keys[text] for text in batch], rows)
            report.encoded += len(batch)
            shown.advance(len(batch))


def _batches(things: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [things[start : start + size] for start in range(0, len(things), size)]


# --- in a worker -----------------------------------------------------------------------------------

_encoder: Encoder | None = None


def encode_images(sources: Sequence[ImageSource], encoder: Encoder | None = None) -> Encoded:
    """Features of the pictures that can be read, and for each picture its error or None."""
    encoder = encoder or _own_encoder()
    rows = [np.zeros((0, encoder.image_width), np.float32)]
    errors: list[InputError | None] = []
    for part in portions(sources):
        pictures: list[Image.Image] = []
        for source in sources[part]:
            try:
                pictures.append(load(source))
                errors.append(None)
            except InputError as error:
                errors.append(error)
        if pictures:
            rows.append(encoder.images(pictures))
        del pictures  # before the next are loaded
    return np.concatenate(rows), errors


def encode_texts(texts: Sequence[str], encoder: Encoder | None = None) -> Encoded:
    """Features of texts."""
    return (encoder or _own_encoder()).texts(texts), []


def _own_encoder() -> Encoder:
    if _encoder is None:
        raise GeniusError("a worker has no encoder")
    return _encoder


def _start_worker(loader: EncoderLoader) -> None:
    """Open the encoder, and end when the process that started this one has died."""
    globals()["_encoder"] = loader(1)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


@contextlib.contextmanager
def _workers(loader: EncoderLoader, encoder: Encoder, workers: int) -> Iterator[Run]:
    """Something that runs a function over batches, in order: here, or in that many processes."""
    if workers <= 1:
        yield lambda function, batches: (function(batch, encoder) for batch in batches)
        return
    # spawned, not forked: the runtime's threads don't survive a fork
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _start_worker, (loader,)) as pool:
        yield lambda function, batches: _in_order(pool, function, batches, 4 * workers)


def _in_order(
    pool: ProcessPoolExecutor, function: Callable[..., Encoded], batches: Iterable[Any], ahead: int
) -> Iterator[Encoded]:
    """The results in the batches' order, with no more than `ahead` of them under way."""
    under_way: deque[Future[Encoded]] = deque()
    for batch in batches:
        under_way.append(pool.submit(function, batch))
        if len(under_way) >= ahead:
            yield under_way.popleft().result()
    while under_way:
        yield under_way.popleft().result()
