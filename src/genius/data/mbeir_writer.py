"""Writing a corpus as an M-BEIR tree that `Tree` reads back exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from genius.data.mbeir import SPLITS, UNION, Split
from genius.data.records import ImageFile, ImageSource, Item, Modality, Query
from genius.data.tasks import Task
from genius.errors import InputError

INSTRUCTION_HEADER = ("query_modality", "cand_modality", "dataset_name", "dataset_id")


def write_tree(
    folder: Path,
    *,
    pools: Mapping[str, Sequence[Item]],
    queries: Mapping[tuple[Split, Task], Sequence[Query]],
    instructions: Mapping[tuple[str, int, Modality, Modality], Sequence[str]],
) -> None:
    """Write an M-BEIR tree: pools by name, queries with their judgements, and prompts.

    Prompts are given by a data set's name and number and the modalities of query and target. The union pool
    of each split holds the items of all pools once. Raises InputError for an image that is no file.
    """
    for name, items in pools.items():
        _write_lines(folder / f"cand_pool/local/mbeir_{name}_cand_pool.jsonl", map(_candidate_row, items))
    union = {item.id: item for items in pools.values() for item in items}
    for split in SPLITS:
        path = folder / f"cand_pool/global/mbeir_{UNION}_{split}_cand_pool.jsonl"
        _write_lines(path, map(_candidate_row, union.values()))
    for (split, task), task_queries in queries.items():
        _write_lines(folder / f"query/{split}/mbeir_{task}_{split}.jsonl", map(_query_row, task_queries))
        judgements = (
            f"{query.id} 0 {did} 1 {task.number}\n".encode()
            for query in task_queries
            for did in query.positives
        )
        _write(folder / f"qrels/{split}/mbeir_{task}_{split}_qrels.txt", judgements)
    _write(folder / "instructions/query_instructions.tsv", _instruction_lines(instructions))


def _candidate_row(item: Item) -> dict[str, Any]:
    return {
        "did": item.id,
        "txt": item.text,
        "img_path": _image_path(item.image, item.id),
        "modality": item.modality.mbeir,
        "src_content": item.metadata.get("src_content"),
    }


def _query_row(query: Query) -> dict[str, Any]:
    return {
        "qid": query.id,
        "query_txt": query.text,
        "query_img_path": _image_path(query.image, query.id),
        "query_modality": query.modality.mbeir,
        "query_src_content": None,
        "pos_cand_list": query.positives,
        "neg_cand_list": query.negatives,
        "task_id": query.task,
    }


def _image_path(image: ImageSource | None, record_id: str) -> str | None:
    if image is None or isinstance(image, ImageFile):
        return image.path if image else None
    raise InputError(f"the image of {record_id!r} is no file below the tree")


def _instruction_lines(
    instructions: Mapping[tuple[str, int, Modality, Modality], Sequence[str]],
) -> Iterable[bytes]:
    widest = max((len(prompts) for prompts in instructions.values()), default=0)
    header = (*INSTRUCTION_HEADER, *(f"prompt_{number}" for number in range(1, widest + 1)))
    yield "\t".join(header).encode() + b"\n"
    for (dataset, number, query, target), prompts in instructions.items():
        yield "\t".join((query.mbeir, target.mbeir, dataset, str(number), *prompts)).encode() + b"\n"


def _write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    _write(path, (orjson.dumps(row) + b"\n" for row in rows))


def _write(path: Path, lines: Iterable[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.writelines(lines)
