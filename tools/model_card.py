"""Write docs/photo-model.md, the model card of `photo`.

    python -m tools.model_card --captions PHOTOS.jsonl.xz --figures FIGURES … [--free-figures FREE]

FIGURES are what `benchmarks/photo.py --final --json` prints of the model that ships, and of others by the
same recipe with other seeds; FREE of one trained on the freely licensed photos alone. Those of the model that
ships are in research/photo. Without FREE, the page says that this has not been measured.
"""

from __future__ import annotations

import argparse
import json
import lzma
import statistics
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from genius import storage
from genius.display import Table
from genius.model import DEFAULT, SHIPPED
from tools.photo_tree import FREE_LICENCES

TEMPLATE = Path(__file__).with_suffix(".md")
PAGE = Path(__file__).parents[1] / "docs" / "photo-model.md"
LICENCES = {
    1: "CC BY-NC-SA 2.0",
    2: "CC BY-NC 2.0",
    3: "CC BY-NC-ND 2.0",
    4: "CC BY 2.0",
    5: "CC BY-SA 2.0",
    6: "CC BY-ND 2.0",
    7: "Flickr Commons, no known restrictions",
    8: "US Government work",
}
TASKS = {
    "coco_task0": "caption → photo, COCO",
    "coco_task3": "photo → caption, COCO",
    "flickr8k_task0": "caption → photo, Flickr8k (never seen)",
    "flickr8k_task3": "photo → caption, Flickr8k (never seen)",
    "grocery_task4": "photo → photo of the same product, groceries",
    "fashion_task4": "photo → photo of a sister product, fashion",
    "mean of fashion and grocery": "all nine tasks over products",
    "mean of emoji": "all tasks over emoji",
}
SYSTEMS = {"dense": "exact search", "default": "codes alone", "default+rerank": "codes, re-ranked"}


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--figures", type=Path, nargs="+", required=True)
    parser.add_argument("--free-figures", type=Path)
    options = parser.parse_args()
    with lzma.open(options.captions, "rt", encoding="utf-8") as lines:
        photos = [row for row in map(json.loads, lines) if row["split"] == "train"]
    manifest = storage.read_manifest(SHIPPED / DEFAULT)
    # As in a wheel, whose files are compressed.
    size = sum(len(zlib.compress(file.read_bytes())) for file in (SHIPPED / DEFAULT).iterdir()) / 1e6
    free = sum(photo.get("photo_licence_id") in FREE_LICENCES for photo in photos)
    page = TEMPLATE.read_text(encoding="utf-8").format(
        size=f"{size:.1f}",
        width=manifest.settings["width"],
        parameters=f"{manifest.counts['parameters'] / 1e6:.1f}",
        codes=" × ".join(map(str, manifest.settings["quantizer"]["sizes"])),
        photos=f"{len(photos):,}",
        captions=f"{sum(len(photo['captions']) for photo in photos):,}",
        licences=_licence_table(photos).markdown().strip(),
        free=f"{free:,}",
        trainings=_trainings(len(options.figures)),
        figures=_figure_table(_read(*options.figures)).markdown().strip(),
        free_figures=_free_figures(options.free_figures, free),
    )
    PAGE.write_text(page, encoding="utf-8")


def _free_figures(path: Path | None, photos: int) -> str:
    """What the same recipe reaches on so many freely licensed photos."""
    if path is None:
        return f"The same recipe on the {photos:,} freely licensed photos alone has not been measured yet."
    table = _figure_table(_read(path), SHORT).markdown().strip()
    return f"The same recipe, trained on the {photos:,} freely licensed photos only:\n\n{table}"


SHORT = ("coco_task0", "coco_task3", "flickr8k_task0", "flickr8k_task3")


def _licence_table(photos: Iterable[Mapping[str, Any]]) -> Table:
    counts = Counter(photo.get("photo_licence_id") for photo in photos)
    table = Table(["licence of the photo", "photos"])
    for number, name in LICENCES.items():
        if counts[number]:
            table.add(name, f"{counts[number]:,}")
    table.add("not recorded", f"{counts[None]:,}")
    return table


def _trainings(count: int) -> str:
    if count == 1:
        return "one training"
    return f"the mean of {count} trainings with different seeds, and their range; the first of them ships"


def _read(*paths: Path) -> dict[tuple[str, str], list[list[float]]]:
    """The hit rates of each task and system, a list for each seed."""
    figures: defaultdict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for line in (line for path in paths for line in path.read_text(encoding="utf-8").splitlines()):
        row = json.loads(line)
        figures[row["task"], row["system"]].append([row[f"hit@{k}"] for k in (1, 5, 10)])
    return figures


def _figure_table(
    figures: Mapping[tuple[str, str], list[list[float]]], tasks: Iterable[str] = tuple(TASKS)
) -> Table:
    """Hit rates in percent, the mean of the seeds with their range where there are several."""
    table = Table(["task", "search", "@1", "@5", "@10"])
    for task in tasks:
        for system, name in SYSTEMS.items():
            if seeds := figures.get((task, system)):
                table.add(TASKS[task], name, *(_cell(values) for values in zip(*seeds, strict=True)))
    return table


def _cell(values: Iterable[float]) -> str:
    percent = [100 * value for value in values]
    mean = f"{statistics.mean(percent):.1f}"
    return mean if len(percent) == 1 else f"{mean} ({min(percent):.1f} to {max(percent):.1f})"


if __name__ == "__main__":
    main()
