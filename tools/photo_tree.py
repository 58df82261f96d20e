"""Make the tree that `recipes/photo.toml` trains on, from captioned photos, emoji, fashion and groceries.

    python -m tools.photo_tree OUT --photos COCO --products MINIBEIR --emoji EMOJI [--free CAPTIONS]

COCO, MINIBEIR and EMOJI are M-BEIR trees; of MINIBEIR only fashion and groceries are taken, so that Flickr8k
stays a test of transfer. The photos get two tasks more, from a caption to another one and to the photo with
another one; every caption asks a second time with some of its words left out; and every task has the general
instructions that a search uses where the user gives none. With --free, only those photos are trained on whose
licence allows any use with attribution; CAPTIONS is the list of photos (captions.jsonl.xz) that says so.
Images are linked, not copied.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import lzma
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from genius import atomic
from genius.data.instructions import generic
from genius.data.mbeir import SPLITS, UNION, Split, Tree
from genius.data.mbeir_writer import write_tree
from genius.data.records import ImageFile, Item, Modality, Query
from genius.data.tasks import TASK_MODALITIES, Task

PRODUCTS = ("fashion", "grocery")
FREE_LICENCES = (4, 5, 7)
"""COCO's numbers of CC BY, CC BY-SA and Flickr Commons."""
CAPTION_PROMPTS = {
    1: ("Find another sentence about the same scene.", "Which other caption could this photo have?"),
    2: (
        "Find the captioned photo that shows this scene.",
        "Which captioned photo fits this sentence?",
    ),
}
LEFT_OUT = 0.35
"""Share of a caption's words that its second query lacks: people ask in fewer words than captions have."""
FEWEST_WORDS = 3
Queries = dict[tuple[Split, Task], list[Query]]
Pools = dict[str, list[Item]]


def main() -> None:
    """Write the tree that the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    for name in ("photos", "products", "emoji"):
        parser.add_argument(f"--{name}", type=Path, required=True, help="an M-BEIR tree")
    parser.add_argument("--free", type=Path, metavar="CAPTIONS", help="train on freely licensed photos only")
    options = parser.parse_args()
    photos = Tree(options.photos, instructed=False)
    sources = (
        photos,
        Tree(options.products, instructed=False, datasets=PRODUCTS),
        Tree(options.emoji, instructed=False),
    )
    pools: Pools = {}
    queries: Queries = {}
    for tree in sources:
        pools |= {name: list(tree.pool(name)) for name in tree.pools if name != UNION}
        for split in SPLITS:
            queries |= {(split, task): list(tree.queries(split, task)) for task in tree.tasks(split)}
    add_caption_tasks(pools, queries)
    add_shortened_captions(queries)
    if options.free:
        keep_photos(pools, queries, freely_licensed(options.free))
    with atomic.write_folder(options.out) as folder:
        write_tree(folder, pools=pools, queries=queries, instructions=all_instructions(sources, queries))
        link_images(folder, itertools.chain(*pools.values(), *queries.values()))
    for (split, task), rows in queries.items():
        print(f"{split:5} {task!s:16} {len(rows):7,} queries")


def add_caption_tasks(pools: Pools, queries: Queries) -> None:
    """Give the photos two tasks more: from a caption to others of the photo, and to the photo with one."""
    captions_by_id = {item.id: item for item in pools["coco_task3"]}
    to_captions, to_pair = Task("coco", 1), Task("coco", 2)
    for split in SPLITS:
        photos = queries[split, Task("coco", 3)]
        targets: dict[str, Item] = {}
        pairs: list[Item] = []
        queries[split, to_captions], queries[split, to_pair] = [], []
        for photo in photos:
            captions = [captions_by_id[caption] for caption in photo.positives]
            wanted, used = captions[:3], captions[3:]
            pair = Item(photo.id.replace(":", ":9"), captions[0].text, photo.image)
            targets |= {caption.id: caption for caption in wanted}
            pairs.append(pair)
            ids = tuple(caption.id for caption in wanted)
            queries[split, to_captions] += [_query(to_captions, caption, ids) for caption in used]
            queries[split, to_pair] += [_query(to_pair, caption, (pair.id,)) for caption in captions[1:3]]
        pools[f"coco_task1_{split}"] = list(targets.values())
        pools[f"coco_task2_{split}"] = pairs


def add_shortened_captions(queries: Queries) -> None:
    """Let every training caption ask for its photo a second time, with some of its words left out."""
    captions = queries["train", Task("coco", 0)]
    captions += [
        dataclasses.replace(query, id=f"{dataset}:7{int(number):06}", text=shortened(query.text or "", row))
        for row, query in enumerate(captions)
        for dataset, _, number in [query.id.partition(":")]
    ]


def shortened(text: str, seed: int) -> str:
    """A text without some of its words, drawn by the seed; the others keep their order."""
    words = text.split()
    random = np.random.default_rng(seed)
    kept = np.flatnonzero(random.random(len(words)) >= LEFT_OUT)
    if len(kept) < FEWEST_WORDS:
        kept = np.sort(random.permutation(len(words))[:FEWEST_WORDS])
    return " ".join(words[place] for place in kept)


def _query(task: Task, caption: Item, positives: tuple[str, ...]) -> Query:
    return Query(
        id=caption.id.replace(":", f":8{task.number}"),
        text=caption.text,
        positives=positives,
        want=TASK_MODALITIES[task.number][1],
        task=task.number,
        dataset=task.dataset,
    )


def freely_licensed(captions: Path) -> set[str]:
    """The paths of the photos whose licence allows any use with attribution."""
    with lzma.open(captions, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return {f"mbeir_images/{row['file']}" for row in rows if row.get("photo_licence_id") in FREE_LICENCES}


def keep_photos(pools: Pools, queries: Queries, photos: set[str]) -> None:
    """Leave out the training queries that ask with or for other photos, or for what is said about them."""
    kept = {item.id for item in pools["coco_task0"] if _path(item) in photos}
    kept |= {item.id for item in pools["coco_task2_train"] if _path(item) in photos}
    for photo in queries["train", Task("coco", 3)]:
        if _path(photo) in photos:
            kept.update(photo.positives)
    for (split, task), rows in queries.items():
        if split == "train" and task.dataset == "coco":
            rows[:] = [query for query in rows if kept.issuperset(query.positives)]


def all_instructions(
    trees: Iterable[Tree], queries: Queries
) -> dict[tuple[str, int, Modality, Modality], tuple[str, ...]]:
    """The prompts of all tasks, each with the general one for its modalities."""
    known = {key: prompts for tree in trees for key, prompts in tree.instructions.by_key.items()}
    instructions = {}
    for (_, task), rows in queries.items():
        modalities = TASK_MODALITIES[task.number]
        prompts = known.get((task.dataset, *modalities), CAPTION_PROMPTS.get(task.number, ()))
        number = int(rows[0].id.partition(":")[0])
        instructions[task.dataset, number, *modalities] = (*prompts, generic(*modalities))
    return instructions


def link_images(folder: Path, records: Iterable[Item | Query]) -> None:
    """Link the images of all records into the tree."""
    for image in {record.image for record in records if isinstance(record.image, ImageFile)}:
        target = folder / image.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            os.link(Path(image.root, image.path), target)


def _path(record: Item | Query) -> str:
    return record.image.path if isinstance(record.image, ImageFile) else ""


if __name__ == "__main__":
    main()
