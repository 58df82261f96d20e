"""Albums beside k-means: agreement with groups that are known, and how many items move when some are added.

    python benchmarks/albums.py SOURCE --key type [-m photo] [--most 3000] [--json]

SOURCE is a collection whose items have a metadata key with their group: article types, kinds of groceries,
the demo's groups of emoji; or a folder, whose sub-folders are the groups (without --key). As many albums are
made as there are groups. k-means runs over the same embeddings, three times from other starts. Agreement is
the adjusted mutual information with the known groups.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import numpy as np
from figures import print_figures
from options import add_json, script_parser

from genius.collection.albums import Albums
from genius.collection.members import Members
from genius.data.read import read
from genius.data.records import Item
from genius.evaluate.agreement import adjusted_mutual_information
from genius.index.index import Index

ADDED = 0.05
STARTS = 3
MAX_ALBUMS = 300


def group_of(item: Item, key: str | None) -> str:
    """The group that an item is known to be in."""
    return str(item.metadata.get(key)) if key else item.id.rpartition("/")[0]


def groups_by_id(albums: Albums) -> dict[str, int]:
    """The number of each item's album."""
    return {id: number for number, album in enumerate(albums) for id in album.ids}


def moved(before: dict[str, int], after: dict[str, int]) -> float:
    """The share of items that are not where most of their album went."""
    table: dict[int, dict[int, int]] = {}
    for id, number in before.items():
        counts = table.setdefault(number, {})
        counts[after[id]] = counts.get(after[id], 0) + 1
    return 1 - sum(max(counts.values()) for counts in table.values()) / len(before)


def k_means_groups(vectors: np.ndarray, count: int, seed: int) -> np.ndarray:
    """The groups [n] of faiss's k-means over all vectors."""
    import faiss

    rows = np.ascontiguousarray(vectors, np.float32)
    most = len(rows) // count + 1
    fitted = faiss.Kmeans(rows.shape[1], count, niter=30, seed=seed, max_points_per_centroid=most)
    fitted.train(rows)
    return np.asarray(fitted.index.search(rows, 1)[1][:, 0])


def measure(items: list[Item], key: str | None, model: str) -> dict[str, float]:
    """Agreement of albums and of k-means with the known groups, and the share that moves."""
    known = {item.id: group_of(item, key) for item in items}
    count = min(MAX_ALBUMS, len(set(known.values())))
    first = items[: round(len(items) / (1 + ADDED))]
    with (
        tempfile.TemporaryDirectory(prefix="genius-bench-") as folder,
        Index.create(Path(folder, "index"), model) as index,
    ):
        index.add(first)
        before = index.albums(count)
        index.add(items[len(first) :])
        after, like = index.albums(count), index.albums(count, like=before)
        ids = {item.id: place for place, item in enumerate(index)}
        vectors = _vectors(index)
    names = [known[id] for id in ids]
    truth = np.unique(names, return_inverse=True)[1]
    ours = groups_by_id(after)
    starts = [
        adjusted_mutual_information(
            truth,
            k_means_groups(vectors, count, seed),
        )
        for seed in range(STARTS)
    ]
    return {
        "items": float(len(names)),
        "groups": float(count),
        "albums": round(adjusted_mutual_information(truth, np.array([ours[id] for id in ids])), 4),
        "k_means": round(float(np.mean(starts)), 4),
        "moved": round(moved(groups_by_id(before), ours), 4),
        "moved_like": round(moved(groups_by_id(before), groups_by_id(like)), 4),
    }


def _vectors(index: Index) -> np.ndarray:
    """Embeddings in the order in which items were added."""
    with index._reading() as snapshot:
        members = Members.of(snapshot)
    return members.vectors(np.argsort(members.item_keys))


def main() -> None:
    """Read, measure, print."""
    parser = script_parser(__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("--key", help="the metadata key of the groups; without it, folders are")
    parser.add_argument("-m", "--model", default="photo", help="default: photo")
    parser.add_argument("--most", type=int, default=3000, help="items at most; default: 3,000")
    add_json(parser)
    options = parser.parse_args()
    items = list(itertools.islice(read(options.source), options.most))
    np.random.default_rng(0).shuffle(items)
    print_figures(measure(items, options.key, options.model), as_json=options.json)


if __name__ == "__main__":
    main()
