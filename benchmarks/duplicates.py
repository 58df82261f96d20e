"""Duplicates: planted copies of photos, found again by kind; and the time for made-up items beside faiss.

    python benchmarks/duplicates.py PHOTOS [--photos 2000] [--copies 60] [-m photo] [--items 20000] [--json]

Of a folder of photos some are copied: scaled to 60 %, encoded again, cropped by 5 %, turned with the EXIF tag
that sets them upright, brighter by 30 %. Of others there is a burst: three windows of 80 % that lie beside
each other, turned a little. A burst is no copy. Precision and recall are of pairs: at the level `same`, and
beside it at `near`, by embeddings of a cosine of 0.95 alone.

Made-up items are clustered vectors of which a tenth are noisy copies. faiss compares all of them with all
(range search over a flat index), for a sample of queries from which the time for all is extrapolated. The
ratio is of processor time, and the peak of memory is that of the whole process before faiss begins.
"""

from __future__ import annotations

import random
import resource
import tempfile
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
from figures import print_figures
from options import add_json, script_parser
from PIL import Image, ImageEnhance

from genius.collection.duplicates import Duplicates
from genius.collection.members import Members
from genius.collection.near_links import near_links
from genius.fit.kmeans import kmeans, nearest_centres
from genius.index.index import Index

BURST = 3
UPRIGHT = 0x0112
FLOOR = 0.9
FAISS_QUERIES = 1000
CODES, CODED = 2048, 64
"""Codes a level of made-up items, and dimensions of what is coded."""


def resized(image: Image.Image, draw: random.Random, path: Path) -> None:
    """Scaled to 60 %."""
    size = (image.width * 6 // 10, image.height * 6 // 10)
    image.resize(size, Image.Resampling.LANCZOS).save(path, quality=90)


def encoded(image: Image.Image, draw: random.Random, path: Path) -> None:
    """As a JPEG of low quality, or as a PNG."""
    if draw.random() < 0.5:
        image.save(path.with_suffix(".png"))
    else:
        image.save(path, quality=45)


def cropped(image: Image.Image, draw: random.Random, path: Path) -> None:
    """Without a twentieth of each side's length, somewhere."""
    width, height = round(0.95 * image.width), round(0.95 * image.height)
    left, top = draw.randint(0, image.width - width), draw.randint(0, image.height - height)
    image.crop((left, top, left + width, top + height)).save(path, quality=90)


def turned(image: Image.Image, draw: random.Random, path: Path) -> None:
    """Stored on its side, with the tag that sets it upright."""
    exif = Image.Exif()
    exif[UPRIGHT] = 6
    image.transpose(Image.Transpose.ROTATE_90).save(path, exif=exif, quality=90)


def brighter(image: Image.Image, draw: random.Random, path: Path) -> None:
    """By 30 %."""
    ImageEnhance.Brightness(image).enhance(1.3).save(path, quality=90)


KINDS: dict[str, Callable[[Image.Image, random.Random, Path], None]] = {
    "resized": resized,
    "encoded": encoded,
    "cropped": cropped,
    "turned": turned,
    "brighter": brighter,
}


def plant(photos: Path, out: Path, count: int, copies: int) -> None:
    """Write photos, copies of some, and bursts instead of others; a copy is named by photo and kind."""
    draw = random.Random(0)
    chosen = draw.sample(sorted(photos.rglob("*.jpg")), count)
    for number, path in enumerate(chosen):
        with Image.open(path) as opened:
            image = opened.convert("RGB")
        kind = number // copies
        if kind == len(KINDS):
            write_burst(image, draw, out / f"{path.stem}.jpg")
            continue
        (out / f"{path.stem}.jpg").write_bytes(path.read_bytes())
        if kind < len(KINDS):
            name = list(KINDS)[kind]
            KINDS[name](image, draw, out / f"{path.stem}~{name}.jpg")


def write_burst(image: Image.Image, draw: random.Random, path: Path) -> None:
    """Windows of 80 % beside each other, turned a little, in other light."""
    width, height = round(0.8 * image.width), round(0.8 * image.height)
    for shot in range(BURST):
        left, top = (image.width - width) * shot // (BURST - 1), draw.randint(0, image.height - height)
        turned_image = image.rotate(draw.uniform(-2, 2), resample=Image.Resampling.BICUBIC)
        window = turned_image.crop((left, top, left + width, top + height))
        lit = ImageEnhance.Brightness(window).enhance(draw.uniform(0.9, 1.1))
        lit.save(path.with_stem(f"{path.stem}~burst{shot}"), quality=85)


def pair_figures(duplicates: Duplicates, planted: dict[str, set[frozenset[str]]]) -> dict[str, float]:
    """Precision of pairs, and recall by kind."""
    paired = {
        frozenset(pair)
        for group in duplicates.groups
        for pair in combinations([item.id for item in group.items], 2)
    }
    right = set().union(*planted.values())
    figures = {"pairs": float(len(paired)), "precision": round(len(paired & right) / max(1, len(paired)), 4)}
    for kind, pairs in planted.items():
        figures[f"recall_{kind}"] = round(len(paired & pairs) / max(1, len(pairs)), 4)
    return figures


def measure_planted(photos: Path, count: int, copies: int, model: str) -> dict[str, float]:
    """Precision and recall on planted copies, by pixels and by embeddings alone."""
    with tempfile.TemporaryDirectory(prefix="genius-bench-") as folder:
        source = Path(folder, "photos")
        source.mkdir()
        plant(photos, source, count, copies)
        planted: dict[str, set[frozenset[str]]] = {kind: set() for kind in KINDS}
        for path in source.iterdir():
            stem, _, kind = path.stem.partition("~")
            if kind in planted:
                planted[kind].add(frozenset({f"{stem}.jpg", path.name}))
        with Index.create(Path(folder, "index"), model) as index:
            index.add(source)
            start = time.perf_counter()
            same = index.duplicates()
            seconds = time.perf_counter() - start
            figures = {"items": float(len(index)), "seconds": round(seconds, 2)}
        figures |= {f"same_{name}": value for name, value in pair_figures(same, planted).items()}
        return figures | {
            f"near_{name}": value for name, value in pair_figures(same.at(0.95), planted).items()
        }


def made_up(count: int, width: int) -> tuple[Members, np.ndarray]:
    """Clustered vectors in the order of codes that fit them, and which pairs are copies [pairs, 2]."""
    draw = np.random.default_rng(0)
    centres = draw.normal(size=(64, 1, width)) + 0.7 * draw.normal(size=(64, 16, width))
    basis = draw.normal(size=(64, width)) / 8
    centres = centres.reshape(-1, width)
    rows = np.empty((count, width), np.int8)
    for start in range(0, count, 1 << 16):
        size = min(1 << 16, count - start)
        vectors = centres[draw.integers(0, len(centres), size)] + 0.7 * draw.normal(size=(size, 64)) @ basis
        vectors += 0.25 * draw.normal(size=vectors.shape)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        rows[start : start + size] = np.rint(np.clip(vectors * 500, -127, 127))
    originals, copies = np.split(draw.permutation(count)[: count // 10 * 2], 2)
    noise = draw.uniform(0.05, 0.45, (len(copies), 1)) * rows[:1000].std()
    rows[copies] = np.clip(
        np.rint(rows[originals] + noise * draw.normal(size=(len(copies), width))), -127, 127
    )
    codes = _codes(rows, draw)
    order = np.lexsort(codes.T[::-1])
    place = np.argsort(order)
    members = Members(order, np.zeros(count, np.uint8), codes[order], 0, rows[order])
    return members, np.stack([place[originals], place[copies]], axis=1)


def _codes(rows: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Two levels of codes of a random projection, which is faster to code; fitted to a sample."""
    directions = draw.normal(size=(rows.shape[1], CODED)).astype(np.float32)
    sample = rows[draw.choice(len(rows), min(len(rows), 16 * CODES), replace=False)] @ directions
    books = []
    for _ in range(2):
        book, _ = kmeans(sample, min(CODES, len(sample) // 4), iterations=3, random=draw)
        sample = sample - book[nearest_centres(sample, book)[0]]
        books.append(book)
    codes = np.empty((len(rows), 2), np.uint16)
    for start in range(0, len(rows), 1 << 14):
        left = rows[start : start + (1 << 14)] @ directions
        for level, book in enumerate(books):
            own = nearest_centres(left, book)[0]
            codes[start : start + len(left), level] = own
            left = left - book[own]
    return codes


def measure_speed(count: int, width: int) -> dict[str, float]:
    """The time and recall of near links, beside a range search by faiss."""
    import faiss

    members, copies = made_up(count, width)
    near_links(members.selected(np.arange(min(count, 2000))), FLOOR)  # compiles the loops
    start, used = time.perf_counter(), time.process_time()
    links = near_links(members, FLOOR)
    ours, used = time.perf_counter() - start, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    vectors = members.vectors(np.unique(copies))
    cosines = np.einsum("ij,ij->i", *(members.vectors(copies[:, side]) for side in (0, 1)))
    near = {frozenset(pair) for pair in copies[cosines >= FLOOR].tolist()}
    reached = _reached(links.pairs, len(members))
    recall = float(np.mean([reached[min(pair)] == reached[max(pair)] for pair in near]))
    flat = faiss.IndexFlatIP(width)
    for start_row in range(0, count, 1 << 16):
        flat.add(members.vectors(slice(start_row, start_row + (1 << 16))))
    queries = vectors[:FAISS_QUERIES]
    start, faiss_used = time.perf_counter(), time.process_time()
    flat.range_search(queries, FLOOR)
    theirs, faiss_used = (
        taken * count / len(queries)
        for taken in (time.perf_counter() - start, time.process_time() - faiss_used)
    )
    return {
        "made_up_items": float(count),
        "links": float(len(links)),
        "recall_of_copies": round(recall, 4),
        "peak_gb": round(peak, 2),
        "seconds": round(ours, 2),
        "processor_seconds": round(used, 2),
        "faiss_seconds_extrapolated": round(theirs, 2),
        "ratio_to_faiss": round(used / faiss_used, 4),
    }


def _reached(pairs: np.ndarray, count: int) -> np.ndarray:
    """The first row that each row hangs together with."""
    from genius.collection import kernels

    parents = np.arange(count)
    kernels.link_all(np.ascontiguousarray(pairs), parents)
    return kernels.representatives(parents)


def main() -> None:
    """Plant, find, time, print."""
    parser = script_parser(__doc__)
    parser.add_argument("photos", type=Path, nargs="?", help="a folder of photos; without it, time alone")
    parser.add_argument("--photos", dest="count", type=int, default=2000, help="how many; default: 2,000")
    parser.add_argument("--copies", type=int, default=60, help="of each kind; default: 60")
    parser.add_argument("-m", "--model", default="photo", help="default: photo")
    parser.add_argument("--items", type=int, default=20_000, help="made-up items; default: 20,000")
    parser.add_argument("--width", type=int, default=452, help="of their vectors; default: 452")
    add_json(parser)
    options = parser.parse_args()
    figures: dict[str, float] = {}
    if options.photos is not None:
        figures |= measure_planted(options.photos, options.count, options.copies, options.model)
    figures |= measure_speed(options.items, options.width)
    print_figures(figures, as_json=options.json)


if __name__ == "__main__":
    main()
