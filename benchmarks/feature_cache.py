"""The feature cache: how long it takes to open, and two processes beside one with two workers.

    python benchmarks/feature_cache.py [--entries 10000000] [--images 600] [--rounds 3] [--json]

Opening: a cache of made-up records of 100 bytes, indexed, is opened and asked for 16 keys. Sharing: made-up
images are encoded by the built-in encoder, half of them by each of two processes over one cache, or all by
one process with two workers, in turns; figures are medians. Exits 1 if a bar is missed: 0.2 s, and 0.9 of the
rate.
"""

from __future__ import annotations

import argparse
import io
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from figures import print_figures, verdict_line
from options import add_json, script_parser
from PIL import Image

from genius.data.records import ImageBytes, Item
from genius.encode import lite
from genius.encode.feature_cache import FeatureCache
from genius.encode.inputs import EncoderInputs
from genius.encode.pipeline import IMAGE_BATCH, EncodingReport, open_cached_encoder
from genius.progress import bar

WIDTH = 40
"""Numbers of a made-up record; with key and checksum it has 100 bytes."""
BLOCK = 1 << 18
BAR_SECONDS = 0.2
BAR_RATE = 0.9


def opening_seconds(folder: Path, entries: int, rounds: int) -> dict[str, float]:
    """What it takes to open a cache of `entries` indexed records, and to look for 16 keys."""
    rng = np.random.default_rng(0)
    path, looked_up = folder / "made-up.cache", [b""]
    record = np.dtype([("key", "V16"), ("check", "<u4"), ("row", "<f2", (WIDTH,))])
    with path.open("wb") as file, bar("writing records", total=entries, unit="records") as shown:
        for start in range(0, entries, BLOCK):
            records = np.zeros(min(BLOCK, entries - start), record)
            keys = rng.integers(0, 256, (len(records), 16), np.uint8)
            # rising, as then they are indexed sooner; what is measured does not depend on it
            rising = (np.arange(start, start + len(records)) * (1 << 32) // entries).astype(">u4")
            keys[:, :4] = rising.view(np.uint8).reshape(-1, 4)
            records["key"] = keys.view("V16")[:, 0]
            looked_up = [key.tobytes() for key in keys[:16]]
            file.write(records.tobytes())
            shown.advance(len(records))
    with FeatureCache(path, WIDTH) as cache:
        cache.missing(looked_up)
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        with FeatureCache(path, WIDTH) as cache:
            cache.missing(looked_up)
        times.append(time.perf_counter() - begin)
    return {"opening, s": statistics.median(times)}


def made_up_items(seeds: range) -> list[Item]:
    """Items with images of noise in large squares."""
    items = []
    for seed in seeds:
        pixels = np.random.default_rng(seed).integers(0, 256, (12, 12, 3), np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).resize((320, 320), Image.Resampling.NEAREST).save(file, "JPEG")
        items.append(Item(str(seed), image=ImageBytes(file.getvalue(), str(seed))))
    return items


def encode_into(cache: Path, seeds: range, workers: int) -> None:
    """Encode made-up images, as a process that says when it is ready and then waits for a line."""
    loader = lite.loader()
    inputs, warm_up = EncoderInputs(), EncoderInputs()
    inputs.add_items(made_up_items(seeds))
    warm_up.add_items(made_up_items(range(1_000_000, 1_000_000 + 2 * workers * IMAGE_BATCH)))
    with open_cached_encoder(loader, loader(workers), cache, workers) as encoder:
        encoder.fill(warm_up, EncodingReport(), bars=False)  # starts worker processes
        print("ready", flush=True)
        sys.stdin.readline()
        encoder.fill(inputs, EncodingReport(), bars=False)


def encoding_seconds(cache: Path, images: int, processes: int) -> float:
    """How long processes take to encode images together over one cache, with two workers in all."""
    runs = []
    for number in range(processes):
        part = ["--part", str(number * images // processes), str((number + 1) * images // processes)]
        command = [sys.executable, __file__, *part, str(2 // processes), "--cache", str(cache)]
        runs.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    for run in runs:
        assert run.stdout is not None and run.stdout.readline() == "ready\n"
    begin = time.perf_counter()
    for run in runs:
        assert run.stdin is not None
        run.stdin.write("go\n")
        run.stdin.flush()
    for run in runs:
        if run.wait():
            raise SystemExit("encoding failed")
    return time.perf_counter() - begin


def main() -> None:
    """Measure, print, and compare with the bars."""
    parser = script_parser(__doc__)
    parser.add_argument("--entries", type=int, default=10_000_000)
    parser.add_argument("--images", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--part", type=int, nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    add_json(parser)
    options = parser.parse_args()
    if options.part:
        first, last, workers = options.part
        encode_into(options.cache, range(first, last), workers)
        return
    with tempfile.TemporaryDirectory() as name:
        figures = opening_seconds(Path(name), options.entries, options.rounds)
        times: dict[int, list[float]] = {1: [], 2: []}
        for turn in range(options.rounds):
            for processes, taken in times.items():
                cache = Path(name) / f"{turn}-{processes}"
                taken.append(encoding_seconds(cache, options.images, processes))
    rates = {processes: options.images / statistics.median(values) for processes, values in times.items()}
    figures["one process with two workers, images/s"] = rates[1]
    figures["two processes, images/s"] = rates[2]
    print_figures(figures, as_json=options.json)
    opened, shared = figures["opening, s"] < BAR_SECONDS, rates[2] >= BAR_RATE * rates[1]
    print(verdict_line(f"a cache of {options.entries:,} entries opens in {BAR_SECONDS} s", opened))
    print(verdict_line(f"two processes encode at {BAR_RATE} of the rate of two workers", shared))
    sys.exit(not (opened and shared))


if __name__ == "__main__":
    main()
