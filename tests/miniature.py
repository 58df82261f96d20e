"""A miniature M-BEIR tree, written line by line as the benchmark's own files are, with their quirks.

All eight tasks over three data sets; a null text, an empty string, a missing field, both spellings of the
pair modality, positives as objects, a positive from a twin data set, equal content under two ids, an image
that is missing on disk.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image

COLOURS = (
    "red",
    "green",
    "blue",
    "yellow",
    "purple",
    "orange",
    "pink",
    "brown",
    "black",
    "white",
    "grey",
    "cyan",
)
MISSING = "mbeir_images/squares/gone.jpg"

# data set's number and name, task, query and target modality
TASKS = (
    (9, "mscoco", 0, "text", "image"),
    (2, "webqa", 1, "text", "text"),
    (2, "webqa", 2, "text", "image,text"),
    (9, "mscoco", 3, "image", "text"),
    (2, "webqa", 4, "image", "image"),
    (5, "oven", 6, "image,text", "text"),
    (5, "oven", 7, "image,text", "image"),
    (5, "oven", 8, "image,text", "image,text"),
)
_FIRST_DID = {"image": 1, "text": 101, "image,text": 201}


def write_miniature(root: Path) -> Path:
    """Write the tree below `root`."""
    for number, colour in enumerate(COLOURS):
        file = root / image_path(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (24, 24), colour).save(file)
    union: dict[str, dict[str, Any]] = {}
    for dataset_id, dataset, task, _, target in TASKS:
        pool = _pool(dataset_id, target)
        name = f"mbeir_{dataset}_task{task}{'_test' if dataset == 'mscoco' else ''}_cand_pool.jsonl"
        write_lines(root / "cand_pool/local" / name, pool)
        union |= {row["did"]: row for row in pool}
    for split in ("train", "val", "test"):
        write_lines(root / f"cand_pool/global/mbeir_union_{split}_cand_pool.jsonl", list(union.values()))
    _write_queries(root)
    _write_instructions(root)
    return root


def image_path(number: int) -> str:
    return f"mbeir_images/squares/{number}.jpg"


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _pool(dataset_id: int, target: str) -> list[dict[str, Any]]:
    rows = []
    for number, colour in enumerate(COLOURS):
        row: dict[str, Any] = {"did": f"{dataset_id}:{_FIRST_DID[target] + number}"}
        row["txt"] = f"A {colour} square." if "text" in target else None
        row["img_path"] = image_path(number) if "image" in target else ""
        row["modality"] = "text,image" if target == "image,text" and number == 0 else target
        if number % 2:
            row["src_content"] = None
        rows.append(row)
    if target == "image":
        rows.append({"did": f"{dataset_id}:90", "txt": "", "img_path": MISSING, "modality": "image"})
        rows.append({"did": f"{dataset_id}:91", "txt": None, "img_path": image_path(0), "modality": "image"})
    return rows


def _write_queries(root: Path) -> None:
    train: dict[str, list[dict[str, Any]]] = {}
    for dataset_id, dataset, task, query, target in TASKS:
        for start, split in ((0, "train"), (1000, "val"), (2000, "test")):
            rows = [_query(dataset_id, task, query, target, number, start) for number in range(4)]
            if split == "train":  # M-BEIR keeps a data set's training queries together
                train.setdefault(dataset, []).extend(rows)
            else:
                write_lines(root / f"query/{split}/mbeir_{dataset}_task{task}_{split}.jsonl", rows)
            judged = [
                f"{row['qid']} 0 {did} 1 {task}\n" for row in rows for did in _plain(row["pos_cand_list"])
            ]
            judged.append(f"{rows[0]['qid']} 0 {dataset_id}:{_FIRST_DID[target] + 9} 0 {task}\n")
            path = root / f"qrels/{split}/mbeir_{dataset}_task{task}_{split}_qrels.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(judged))
    for dataset, rows in train.items():
        write_lines(root / f"query/train/mbeir_{dataset}_train.jsonl", rows)
    union = [row for rows in train.values() for row in rows]
    write_lines(root / "query/union_train/mbeir_union_up_train.jsonl", union + union[:5])


def _query(dataset_id: int, task: int, query: str, target: str, number: int, start: int) -> dict[str, Any]:
    first = _FIRST_DID[target]
    positives: list[Any] = [f"{dataset_id}:{first + number}"]
    if task == 6 and number == 1:
        positives.append(f"2:{first + number}")  # OVEN and its twin share entries
    if task == 8:
        positives = [{"did": did} for did in positives]  # as the data card writes them
    return {
        "qid": f"{dataset_id}:{start + task * 10 + number + 1}",
        "query_txt": f"The {COLOURS[number]} one" if "text" in query else None,
        "query_img_path": image_path(number) if "image" in query else None,
        "query_modality": query,
        "query_src_content": None,
        "pos_cand_list": positives,
        "neg_cand_list": [f"{dataset_id}:{first + number + 1}"] if number == 2 else [],
        "task_id": task,
    }


def _plain(positives: list[Any]) -> list[str]:
    return [entry["did"] if isinstance(entry, dict) else entry for entry in positives]


def _write_instructions(root: Path) -> None:
    lines = [
        "query_modality\tcand_modality\tdataset_name\tdataset_id\tprompt_1\tprompt_2\tprompt_3\tprompt_4"
    ]
    for dataset_id, dataset, task, query, target in TASKS:
        if task != 7:  # one key has no prompt
            prompts = [f"Prompt {n} of {dataset} {task}." for n in (1, 2, 3)]
            lines.append("\t".join([query, target, dataset, str(dataset_id), *prompts, ""]))
    path = root / "instructions/query_instructions.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
