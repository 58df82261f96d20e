"""A small M-BEIR tree with the names of the one on the hub: all sixteen tasks of its ten data sets.

Like there, a data set's training queries are in one file, COCO's pools differ by split, and the answers to
its training queries are in the union pool of that split alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from genius.data.records import Modality
from genius.data.tasks import TASK_MODALITIES
from tests.miniature import COLOURS, write_lines

DATASETS = {
    "visualnews": (0, (0, 3)),
    "fashion200k": (1, (0, 3)),
    "webqa": (2, (1, 2)),
    "edis": (3, (2,)),
    "nights": (4, (4,)),
    "oven": (5, (6, 8)),
    "infoseek": (6, (6, 8)),
    "fashioniq": (7, (7,)),
    "cirr": (8, (7,)),
    "mscoco": (9, (0, 3)),
}
"""The number of each data set, and its tasks."""
UNPUBLISHED = {"flickr30k": (10, (0,))}
"""One that the paper's tables on M-BEIR do not have."""
SPLITS = ("train", "val", "test")
ITEMS, QUERIES = len(COLOURS), 4
REPEATED = ("webqa", "edis", "nights", "fashioniq", "cirr")
"""The data sets that M-BEIR's own mix of training queries repeats."""


def write_hub_tree(root: Path, datasets: Sequence[str] = tuple(DATASETS), *, repeats: int = 3) -> Path:
    """Write the tree below `root`, with these data sets."""
    known = DATASETS | UNPUBLISHED
    unions: dict[str, dict[str, dict[str, Any]]] = {split: {} for split in SPLITS}
    mix: list[dict[str, Any]] = []
    prompts = ["query_modality\tcand_modality\tdataset_name\tdataset_id\tprompt_1\tprompt_2"]
    for dataset in datasets:
        number, tasks = known[dataset]
        _write_images(root, dataset)
        training: list[dict[str, Any]] = []
        for task in tasks:
            _write_pools(root, dataset, number, task, unions)
            query, target = (_written(modality) for modality in TASK_MODALITIES[task])
            prompts.append(f"{query}\t{target}\t{dataset}\t{number}\tFind task {task}.\tPrompt {task}.")
            for split in SPLITS:
                rows = _queries(dataset, number, task, split)
                _write_judgements(root, f"{dataset}_task{task}", split, rows)
                if split == "train":
                    training += rows
                else:
                    write_lines(root / f"query/{split}/mbeir_{dataset}_task{task}_{split}.jsonl", rows)
        write_lines(root / f"query/train/mbeir_{dataset}_train.jsonl", training)
        mix += training * (repeats if dataset in REPEATED else 1)
    for split, union in unions.items():
        write_lines(root / f"cand_pool/global/mbeir_union_{split}_cand_pool.jsonl", list(union.values()))
    write_lines(root / "query/union_train/mbeir_union_up_train.jsonl", mix)
    (root / "instructions").mkdir()
    (root / "instructions/query_instructions.tsv").write_text("\n".join(prompts) + "\n")
    return root


def _written(modality: Modality) -> str:
    return {Modality.IMAGE: "image", Modality.TEXT: "text", Modality.PAIR: "image,text"}[modality]


def _image(dataset: str, colour: int) -> str:
    return f"mbeir_images/{dataset}_images/{colour}.jpg"


def _write_images(root: Path, dataset: str) -> None:
    (root / f"mbeir_images/{dataset}_images").mkdir(parents=True)
    for number, colour in enumerate(COLOURS):
        image = Image.new("RGB", (24, 24), colour)
        image.paste(_own_colour(dataset), (0, 0, 24, 8))
        image.save(root / _image(dataset, number))


def _own_colour(dataset: str) -> str:
    """What tells the data sets' images and texts apart."""
    return COLOURS[(DATASETS | UNPUBLISHED)[dataset][0]]


def _first_item(dataset: str, task: int, split: str) -> int:
    own = SPLITS.index(split) if dataset == "mscoco" else 2  # the others have one pool for all splits
    return 1 + 1000 * task + 100 * own


def _write_pools(
    root: Path, dataset: str, number: int, task: int, unions: dict[str, dict[str, dict[str, Any]]]
) -> None:
    for split in SPLITS:
        first, target = _first_item(dataset, task, split), TASK_MODALITIES[task][1]
        rows = [_content(dataset, "", place, target) | {"src_content": None} for place in range(ITEMS)]
        for place, row in enumerate(rows):
            row["did"] = f"{number}:{first + place}"
        if dataset != "mscoco" or split != "train":
            own = f"_{split}" if dataset == "mscoco" else ""
            write_lines(root / f"cand_pool/local/mbeir_{dataset}_task{task}{own}_cand_pool.jsonl", rows)
        unions[split] |= {row["did"]: row for row in rows}


def _content(dataset: str, prefix: str, place: int, modality: Modality) -> dict[str, Any]:
    """Text, image and modality, under the names that they have in queries or in candidates."""
    text = f"A {COLOURS[place]} square, the {_own_colour(dataset)} one."
    return {
        f"{prefix}txt": None if modality is Modality.IMAGE else text,
        f"{prefix}img_path": None if modality is Modality.TEXT else _image(dataset, place),
        f"{prefix}modality": _written(modality),
    }


def _queries(dataset: str, number: int, task: int, split: str) -> list[dict[str, Any]]:
    first = _first_item(dataset, task, split)
    start = 1 + 1000 * task + 100 * SPLITS.index(split)
    return [
        {
            "qid": f"{number}:{start + place}",
            **_content(dataset, "query_", place, TASK_MODALITIES[task][0]),
            "query_src_content": None,
            "pos_cand_list": [f"{number}:{first + place}"],
            "neg_cand_list": [],
            "task_id": task,
        }
        for place in range(QUERIES)
    ]


def _write_judgements(root: Path, task: str, split: str, rows: Sequence[dict[str, Any]]) -> None:
    path = root / f"qrels/{split}/mbeir_{task}_{split}_qrels.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{row['qid']} 0 {did} 1 {row['task_id']}\n" for row in rows for did in row["pos_cand_list"]]
    path.write_text("".join(lines))
