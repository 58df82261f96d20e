"""What a Ray cluster costs beside `genius index`, and what the driver of a build takes.

    python benchmarks/cluster.py speed --items 20000
    python benchmarks/cluster.py driver --rows 100000 --rows 1000000 --rows 10000000

`speed` builds an index of made-up texts with the model `photo`, encoding included and nothing cached: by
`genius index` with one and two processes, and by as many workers of a cluster that is started before.
`driver` builds indexes of made-up vectors by two workers, and prints the peak memory of the driver and what a
commit takes, by chunks of a tenth. (It is not called ray.py: then it would be what `import ray` finds.)
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from genius.cluster import index_build
from genius.cluster.connection import connected
from genius.cluster.ray_index import ClusterOptions, index_on_cluster
from genius.data.read import read
from genius.index.index import Index
from genius.model import DEFAULT, Model
from genius.progress import quiet

WORDS = ("red", "old", "small", "dog", "house", "river", "night", "paper", "bird", "stone", "cup", "street")
WIDTH = 16


def write_texts(path: Path, count: int) -> Path:
    """Texts of some words, all different."""
    dice = random.Random(0)
    with path.open("w") as file:
        for number in range(count):
            text = " ".join(dice.choices(WORDS, k=12)) + f" {number}"
            file.write(json.dumps({"id": str(number), "text": text}) + "\n")
    return path


def write_vectors(path: Path, count: int) -> Path:
    """Rows with vectors."""
    numbers = np.random.default_rng(0)
    with path.open("w") as file:
        for start in range(0, count, 10_000):
            for row, vector in enumerate(numbers.normal(size=(10_000, WIDTH)).round(2).tolist(), start):
                file.write(json.dumps({"id": str(row), "text": f"text {row}", "vector": vector}) + "\n")
    return path


def timed(work: Callable[[], Any]) -> float:
    """Seconds of some work."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def speed(folder: Path, items: int, rounds: int) -> None:
    """Items a second alone and on a cluster, in turns."""
    source, model = write_texts(folder / "items.jsonl", items), Model.open(DEFAULT)
    seconds: dict[str, list[float]] = {}
    with connected("auto"):
        for turn in range(rounds):
            for count in (1, 2):
                place = folder / f"{turn}-{count}"

                def alone(place: Path = place, count: int = count) -> None:
                    with Index.create(place / "alone", model) as index:
                        index.add(read(source), cache=place / "cache", workers=count)

                def together(place: Path = place, count: int = count) -> None:
                    options = ClusterOptions(
                        workers=count, chunk_items=-(-items // 8), cache=place / "other-cache"
                    )
                    index_on_cluster(read(source), model, place / "together", options)

                place.mkdir()
                seconds.setdefault(f"{count} alone", []).append(timed(alone))
                seconds.setdefault(f"{count} together", []).append(timed(together))
    for count in (1, 2):
        by_alone, by_ray = (float(np.median(seconds[f"{count} {how}"])) for how in ("alone", "together"))
        ratio = float(np.median(np.divide(seconds[f"{count} together"], seconds[f"{count} alone"])))
        print(
            f"{items:,} texts, {count} processes: {items / by_alone:,.0f} items/s by genius index, "
            f"{items / by_ray:,.0f} by workers of a cluster; time as a ratio {ratio:.2f}"
        )


def driver(folder: Path, rows: int) -> None:
    """Peak memory of this process, which only drives, and seconds of the commits."""
    source = write_vectors(folder / "rows.jsonl", rows)
    # Fitted by another process: its memory would count here.
    fit = (
        "import sys, numpy as np\nfrom genius.model import Model\nfrom genius.data.records import Item\n"
        f"vectors = np.random.default_rng(1).normal(size=(2000, {WIDTH}))\n"
        "items = [Item(str(n), vector=vector) for n, vector in enumerate(vectors)]\n"
        "Model.fit(items, encoder='precomputed', out=sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", fit, str(folder / "model")], check=True)
    seconds, sizes = [], []
    commit = index_build.IndexBuild.commit

    def watched(build: Any, *arguments: Any) -> None:
        sizes.append(len(build))
        seconds.append(timed(lambda: commit(build, *arguments)))

    index_build.IndexBuild.commit = watched  # type: ignore[assignment, method-assign]
    model = Model.open(folder / "model")
    with connected("auto"):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        options = ClusterOptions(workers=2, chunk_items=rows // 10)
        whole = timed(lambda: index_on_cluster(read(source), model, folder / "index", options))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = (folder / "index" / "catalogue.sqlite").stat().st_size
    million = 1e6 * sum(seconds) / rows
    print(
        f"{rows:,} rows in {whole:.0f} s: driver {before:,.0f} MB before and {peak:,.0f} MB at its peak; "
        f"a commit of {rows // 10:,} items {np.median(seconds):.2f} s (the last {seconds[-1]:.2f} s), "
        f"{million:.1f} s per million; catalogue {size / rows:.0f} bytes an item"
    )


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    speeds = commands.add_parser("speed")
    speeds.add_argument("--items", type=int, default=20_000)
    speeds.add_argument("--rounds", type=int, default=3)
    drivers = commands.add_parser("driver")
    drivers.add_argument("--rows", type=int, action="append", required=True)
    chosen = parser.parse_args()
    quiet()
    print(f"{platform.machine()}, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}")
    if chosen.command == "speed":
        with tempfile.TemporaryDirectory() as folder:
            speed(Path(folder), chosen.items, chosen.rounds)
        return
    for rows in chosen.rows:
        if len(chosen.rows) > 1:  # each in a process of its own, as a peak never falls
            subprocess.run([sys.executable, __file__, "driver", "--rows", str(rows)], check=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            driver(Path(folder), rows)


if __name__ == "__main__":
    main()
