"""What more codes an item would find: a second one near the border of a cell, and levels for embeddings.

    python benchmarks/more_codes.py --tree TREE --model MODEL [--queries 300] [--json]
    python benchmarks/more_codes.py --tree TREE --model MODEL --split test --final

Second codes: the share of items that lie nearest to the border between their cell and the next get a code
in that one, too, and are found under either; measured for searches of few beams. Levels for embeddings, for
indexes that keep none: each code gets a second vector, so that the sum of an item's is nearest to its
embedding, and four more levels code what is left; the query's embedding is compared with that sum, with
a weight. Hit rates @5 in percent in the union pool among items of the wanted modality, as `correction.py`
has them; everything below the beams is ranked by codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from figures import print_table
from options import add_sample_size, add_split, add_tree_and_model, check_split, script_parser
from routing import Router, code_scores, scores_in_cells
from union_pool import K, UnionPool

from genius.corpus.queries import TaskQueries
from genius.data.mbeir import Tree
from genius.display import Table
from genius.model import Model
from genius.quantize.code_space import CodeSpace
from genius.quantize.kmeans import kmeans

BEAMS = (1, 2, 3, 10)
SHARES = (0.0, 0.25, 0.5, 1.0)
WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.4)
MORE_LEVELS, MORE_CODES, FITTED, ITERATIONS, PASSES = 4, 4096, 40_000, 8, 2
BLOCK = 4096


def main() -> None:
    """Measure both, and print."""
    parser = script_parser(__doc__)
    add_tree_and_model(parser, "a model with codes")
    add_sample_size(parser, 300)
    add_split(parser)
    options = parser.parse_args()
    split = check_split(parser, options)
    model, tree = Model.open(options.model), Tree(options.tree)
    pool = UnionPool.read(model, tree, split, options.queries)
    seen = pool.seen(tree)
    rows = [*second_code_rows(pool, seen), *embedding_level_rows(pool, seen)]
    table = Table(tuple(rows[0]))
    for row in rows:
        table.add(*row.values())
    print_table(table, rows, as_json=options.json)


# --- second codes


def second_code_rows(pool: UnionPool, seen: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """Hit rates by share of items with two codes, and by beams."""
    second, margins = second_codes(pool.model, pool.coded.vectors, pool.coded.codes)
    router, rows = Router(pool.model), []
    for share in SHARES:
        doubled = (
            margins <= np.quantile(margins[pool.members], share) if share else np.zeros(len(margins), bool)
        )
        for beams in BEAMS:

            def find(task: TaskQueries, doubled: np.ndarray = doubled, beams: int = beams) -> np.ndarray:
                return search_cells(pool, router, task, beams, second, doubled)

            hits = pool.hit_percents(find, seen)
            rows.append({"codes": f"{share:.0%} of items have two", "beams or weight": beams, **hits})
    return rows


def second_codes(model: Model, vectors: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each item the code whose cell is the next nearest, and how much farther that is (squared)."""
    quantizer = model.quantizer
    level, books = quantizer.semantic, quantizer.codebooks
    second, margins = codes.copy(), np.empty(len(codes), np.float32)
    for start in range(0, len(codes), BLOCK):
        block = slice(start, start + BLOCK)
        residuals = vectors[block] - quantizer.reconstruct(codes[block], level)
        distances = _distances(residuals, books[level])
        own = codes[block, level].astype(np.int64)
        rows = np.arange(len(own))
        nearest = distances[rows, own]
        distances[rows, own] = np.inf
        for deeper in range(level, len(books)):
            if deeper > level:
                distances = _distances(residuals, books[deeper])
            chosen = distances.argmin(1)
            if deeper == level:
                margins[block] = distances[rows, chosen] - nearest
            second[block, deeper] = chosen
            residuals = residuals - books[deeper][chosen]
    return second, margins


def _distances(rows: np.ndarray, book: np.ndarray) -> np.ndarray:
    """Squared distances [n, codes], but for the rows' own squared lengths."""
    return np.asarray(np.einsum("kd,kd->k", book, book) - 2 * rows @ book.T, np.float32)


def search_cells(
    pool: UnionPool, router: Router, task: TaskQueries, beams: int, second: np.ndarray, doubled: np.ndarray
) -> np.ndarray:
    """The best items [queries, K] that have a code in the best cells of a query; −1 where there are no more.
    An item with two codes there has the score of the better one."""
    vectors, wanted = pool.coded.queries[task.task], pool.wanted(task)
    both = doubled[wanted]
    items = np.concatenate([np.arange(len(wanted)), np.flatnonzero(both)])
    codes = np.concatenate([pool.coded.codes[wanted], second[wanted[both]]])
    scores = scores_in_cells(pool, router, task, codes, beams)
    best = np.argsort(-scores, axis=1, kind="stable")[:, : 2 * K]  # at most every second is a repetition
    results = np.full((len(vectors), K), -1, np.int64)
    for query, ranked in enumerate(best):
        best_items = [items[row] for row in ranked if np.isfinite(scores[query, row])]
        distinct = list(dict.fromkeys(best_items))[:K]
        results[query, : len(distinct)] = wanted[distinct]
    return results


# --- levels for embeddings


def embedding_level_rows(pool: UnionPool, seen: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """Hit rates by weight of the embeddings' own code, without and with four more levels, and by the
    embeddings themselves."""
    embeddings = np.asarray(pool.coded.embedded.items.embeddings, np.float32)
    shared = embeddings_of_codes(embeddings, pool.coded.codes, pool.model.quantizer.sizes)
    deeper = shared + residual_levels(embeddings - shared)
    bytes_now = _item_bytes(pool.model.quantizer)
    bytes_more = bytes_now + MORE_LEVELS * np.log2(MORE_CODES) / 8
    kinds = {
        f"second vectors of codes, {bytes_now:.2f} bytes": shared,
        f"and {MORE_LEVELS} more levels, {bytes_more:.2f} bytes": deeper,
        "embeddings themselves": embeddings,
    }
    rows = []
    for kind, known in kinds.items():
        for weight in WEIGHTS:

            def find(task: TaskQueries, known: np.ndarray = known, weight: float = weight) -> np.ndarray:
                return search_blended(pool, task, known, weight)

            rows.append({"codes": kind, "beams or weight": weight, **pool.hit_percents(find, seen)})
    return rows


def _item_bytes(space: CodeSpace) -> float:
    return float(sum(np.log2(size) for size in space.sizes[space.semantic :])) / 8


def embeddings_of_codes(embeddings: np.ndarray, codes: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """The sums [items, width] of a vector for each code, fitted to embeddings level by level."""
    parts = [np.zeros_like(embeddings) for _ in sizes]
    total = np.zeros_like(embeddings)
    for _ in range(PASSES):
        for level, size in enumerate(sizes):
            total -= parts[level]
            own = codes[:, level].astype(np.int64)
            counts = np.bincount(own, minlength=size)
            sums = np.zeros((size, embeddings.shape[1]), np.float32)
            np.add.at(sums, own, embeddings - total)
            parts[level] = (sums / (counts[:, None] + 1))[own]  # a code of few items says less
            total += parts[level]
    return total


def residual_levels(residuals: np.ndarray) -> np.ndarray:
    """The residuals [items, width] as that many levels of k-means code them."""
    generator = torch.Generator().manual_seed(0)
    left = torch.from_numpy(np.ascontiguousarray(residuals))
    sample = torch.randperm(len(left), generator=generator)[:FITTED]
    for _ in range(MORE_LEVELS):
        count = min(MORE_CODES, len(sample))
        centres, _ = kmeans(left[sample], count, iterations=ITERATIONS, generator=generator)
        half_norms = 0.5 * centres.square().sum(1)
        blocks = [left[start : start + BLOCK] for start in range(0, len(left), BLOCK)]
        own = torch.cat([(rows @ centres.T - half_norms).argmax(1) for rows in blocks])
        left = left - centres[own]
    return np.asarray(residuals - left.numpy())


def search_blended(pool: UnionPool, task: TaskQueries, known: np.ndarray, weight: float) -> np.ndarray:
    """The best items [queries, K] by codes and, with a weight, by what codes know of embeddings."""
    wanted = pool.wanted(task)
    queries = np.asarray(pool.coded.embedded.queries[task.task].embeddings, np.float32)
    scores = (1 - weight) * code_scores(pool.model, pool.coded.queries[task.task], pool.coded.codes[wanted])
    scores += weight * queries @ known[wanted].T
    return np.asarray(wanted[np.argsort(-scores, axis=1, kind="stable")[:, :K]])


if __name__ == "__main__":
    main()
