from __future__ import annotations

import json
import logging
import shutil
from collections import Counter
from pathlib import Path

import pytest

from genius.data.mbeir import SPLITS, UNION, Tree
from genius.data.records import Modality
from genius.data.tasks import Task
from genius.errors import InputError
from tests.miniature import COLOURS, MISSING, TASKS, write_lines


def test_tasks_come_in_the_order_of_the_result_tables(miniature: Path) -> None:
    expected = ["mscoco_task0", "webqa_task1", "webqa_task2", "mscoco_task3", "oven_task6", "oven_task8"]
    expected += ["webqa_task4", "oven_task7"]  # not in M-BEIR's own tables: behind
    for split in SPLITS:
        assert [str(task) for task in Tree(miniature).tasks(split)] == expected


def test_a_task_knows_its_modalities_and_rank() -> None:
    assert (Task("cirr", 7).query, Task("cirr", 7).target) == (Modality.PAIR, Modality.IMAGE)
    assert [
        Task(name, task).cutoff for name, task in (("fashioniq", 7), ("fashion200k", 0), ("cirr", 7))
    ] == [10, 10, 5]


@pytest.mark.parametrize("row", TASKS, ids=lambda row: f"{row[1]}_task{row[2]}")
def test_queries_of_a_task(miniature: Path, row: tuple[int, str, int, str, str]) -> None:
    dataset_id, dataset, number, query_modality, target = row
    tree = Tree(miniature)
    for split in SPLITS:
        queries = list(tree.queries(split, Task(dataset, number)))
        assert len(queries) == 4
        for place, query in enumerate(queries):
            assert query.modality is Modality.parse(query_modality)
            assert query.want is Modality.parse(target)
            assert query.dataset == dataset
            assert (
                query.positives[0] == f"{dataset_id}:{ {'image': 1, 'text': 101}.get(target, 201) + place }"
            )
            assert len(query.negatives) == (place == 2)


def test_all_queries_of_a_split(miniature: Path) -> None:
    tree = Tree(miniature)
    assert Counter(query.task for query in tree.queries("train")) == dict.fromkeys(
        (0, 1, 2, 3, 4, 6, 7, 8), 4
    )
    assert len(list(tree.queries("train", upsampled=True))) == 32 + 5


def test_pools(miniature: Path) -> None:
    tree = Tree(miniature)
    assert Counter(item.modality for item in tree.pool(Task("webqa", 2))) == {Modality.PAIR: len(COLOURS)}
    assert len(list(tree.pool(Task("mscoco", 0)))) == len(COLOURS) + 2  # found under its `_test` name
    union = Counter(item.modality for item in tree)
    assert union == {Modality.IMAGE: 3 * 14, Modality.TEXT: 3 * 12, Modality.PAIR: 2 * 12}
    assert [item.id for item in tree] == [item.id for item in tree.pool("union")]


def test_without_a_union_pool_the_items_are_those_of_the_local_ones(own_miniature: Path) -> None:
    expected = {item.id for item in Tree(own_miniature)}
    shutil.rmtree(own_miniature / "cand_pool/global")
    ids = [item.id for item in Tree(own_miniature)]
    assert len(ids) == len(set(ids))
    assert set(ids) == expected
    Tree(own_miniature).check("test")


def test_any_subset_of_data_sets_will_do(own_miniature: Path) -> None:
    for path in own_miniature.rglob("*oven*"):
        path.unlink()
    assert {task.dataset for task in Tree(own_miniature).tasks("test")} == {"mscoco", "webqa"}


def test_an_image_that_is_missing_on_disk_is_an_error_only_when_it_is_read(miniature: Path) -> None:
    item = next(item for item in Tree(miniature) if item.id == "9:90")
    assert item.image is not None
    with pytest.raises(InputError, match="cannot read image: No such file"):
        item.image.read()
    assert item.image.name == MISSING


def test_instructions_are_chosen_by_id_and_seed(miniature: Path) -> None:
    tree = Tree(miniature)
    first = {query.id: query.instruction for query in tree.queries("test")}
    assert first == {query.id: query.instruction for query in Tree(miniature).queries("test")}
    other = {query.id: query.instruction for query in Tree(miniature, seed=1).queries("test")}
    assert first != other
    assert len(set(first.values())) > len(TASKS)  # not always the first prompt
    assert all(query.instruction is None for query in Tree(miniature, instructed=False).queries("test"))


def test_a_generic_instruction_where_the_table_has_none(
    miniature: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "genius"):
        queries = list(Tree(miniature).queries("test", Task("oven", 7)))
    assert {query.instruction for query in queries} == {"Find a picture that matches this picture and text."}
    assert [record.message for record in caplog.records] == [
        "no instruction for oven, pair → image: using a generic one"
    ]


def test_judgements_keep_what_is_relevant(miniature: Path) -> None:
    tree = Tree(miniature)
    for task in tree.tasks("test"):
        expected = {query.id: list(query.positives) for query in tree.queries("test", task)}
        assert tree.judgements("test", task) == expected


def test_check_passes_a_sound_tree(miniature: Path) -> None:
    for split in SPLITS:
        Tree(miniature).check(split)


def test_positives_that_no_pool_holds(own_miniature: Path) -> None:
    path = own_miniature / "query/test/mbeir_webqa_task1_test.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[2]["pos_cand_list"] = ["2:777"]
    write_lines(path, rows)
    with pytest.raises(InputError, match=r"positive '2:777' of test query '2:2013' is not in the union pool"):
        Tree(own_miniature).check("test")


def test_a_qrels_line_with_four_columns(own_miniature: Path) -> None:
    path = own_miniature / "qrels/test/mbeir_webqa_task1_test_qrels.txt"
    path.write_text(path.read_text() + "2:2011 0 2:101 1\n")
    with pytest.raises(InputError, match=r"_qrels.txt, line 6: expected five columns .* found 4"):
        Tree(own_miniature).judgements("test", Task("webqa", 1))


BAD_CANDIDATES = {
    "field 'did' should be an id, but is None": {"txt": "a", "modality": "text"},
    "unknown modality 'video': expected image, text or pair": {"did": "2:1", "txt": "a", "modality": "video"},
    "item '2:1' has neither text nor image": {"did": "2:1", "txt": "", "img_path": None, "modality": "text"},
    "field 'txt' should be text or null, but is 7": {"did": "2:1", "txt": 7, "modality": "text"},
    "path '../x.jpg' leaves the folder": {"did": "2:1", "img_path": "../x.jpg", "modality": "image"},
    "id '2:102' was used before": {"did": "2:102", "txt": "again", "modality": "text"},
}


@pytest.mark.parametrize(("message", "row"), BAD_CANDIDATES.items(), ids=BAD_CANDIDATES)
def test_a_bad_candidate_stops_the_reading_with_its_line(
    own_miniature: Path, message: str, row: object
) -> None:
    path = own_miniature / "cand_pool/local/mbeir_webqa_task1_cand_pool.jsonl"
    path.write_text(path.read_text() + json.dumps(row) + "\n")
    with pytest.raises(InputError) as caught:
        list(Tree(own_miniature).pool(Task("webqa", 1)))
    assert f"{path}, line 13: {message}" in str(caught.value)


BAD_QUERIES = {
    "field 'qid' should be an id, but is 7": {"qid": 7},
    "has the unknown task 9": {"task_id": 9},
    "unknown modality 'sound'": {"query_modality": "sound"},
    "has neither text nor image": {"query_txt": None},
    "field 'pos_cand_list' should be a list of ids, but is [1]": {"pos_cand_list": [1]},
    "field 'neg_cand_list' should be a list of ids, but is '2:1'": {"neg_cand_list": "2:1"},
}


@pytest.mark.parametrize(("message", "change"), BAD_QUERIES.items(), ids=BAD_QUERIES)
def test_a_bad_query_is_named_with_its_line(
    own_miniature: Path, message: str, change: dict[str, object]
) -> None:
    path = own_miniature / "query/val/mbeir_webqa_task1_val.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[3] |= change
    write_lines(path, rows)
    with pytest.raises(InputError) as caught:
        list(Tree(own_miniature).queries("val"))
    assert str(caught.value).startswith(f"{path}, line 4: ")
    assert message in str(caught.value)


def test_questions_that_have_no_answer_here(miniature: Path, tmp_path: Path) -> None:
    tree = Tree(miniature)
    with pytest.raises(
        InputError, match=r"has no pool 'cirr_task7' for test; there are: mscoco_task0_test, "
    ):
        tree.pool(Task("cirr", 7))
    with pytest.raises(InputError, match=r"has no val queries for cirr_task7; there are: mscoco_task0, "):
        list(tree.queries("val", Task("cirr", 7)))
    with pytest.raises(InputError, match="is no M-BEIR tree"):
        Tree(tmp_path)


def test_a_broken_instruction_table(own_miniature: Path) -> None:
    path = own_miniature / "instructions/query_instructions.tsv"
    path.write_text("header\ntext\timage\tmscoco\t9\n")
    with pytest.raises(InputError, match=r"query_instructions.tsv, line 2: expected at least five columns"):
        list(Tree(own_miniature).queries("test"))


def dataset_numbers(ids: set[str]) -> set[str]:
    return {id.partition(":")[0] for id in ids}


def test_a_view_shows_its_data_sets_only(miniature: Path) -> None:
    whole, view = Tree(miniature), Tree(miniature).only("oven")
    assert view.datasets == ("oven",)
    for split in SPLITS:
        assert view.tasks(split) == [task for task in whole.tasks(split) if task.dataset == "oven"]
        expected = [query for query in whole.queries(split) if query.dataset == "oven"]
        assert [q.id for q in view.queries(split)] == [q.id for q in expected]
        assert [q.instruction for q in view.queries(split)] == [q.instruction for q in expected]
    local = {item.id for name in view.pools if name != UNION for item in view.pool(name)}
    assert view.pools == ["oven_task6", "oven_task7", "oven_task8", UNION]
    assert {item.id for item in view.pool(UNION, "val")} == {item.id for item in view} == local
    assert {item.id for item in view.items("train")} == local
    assert dataset_numbers(local) == {"5"}
    view.check("test")  # one positive is in another data set, which the whole tree has
    with pytest.raises(InputError, match="has no pool 'webqa_task1'"):
        view.pool("webqa_task1")
    with pytest.raises(InputError, match="has no test queries for webqa_task1"):
        list(view.queries("test", Task("webqa", 1)))


def test_the_upsampled_mix_of_a_view_holds_its_own_queries_only(miniature: Path) -> None:
    whole, view = Tree(miniature), Tree(miniature).without("oven")
    own_ids = {query.id for query in view.queries("train")}
    expected = [q.id for q in whole.queries("train", upsampled=True) if q.id in own_ids]
    assert [q.id for q in view.queries("train", upsampled=True)] == expected
    assert 0 < len(expected) < len(list(whole.queries("train", upsampled=True)))


def test_a_view_and_the_view_without_it_make_the_whole(miniature: Path) -> None:
    whole = Tree(miniature)
    view, rest = whole.only("webqa", "mscoco"), whole.without("webqa", "mscoco")
    assert rest.datasets == ("oven",)
    assert {item.id for item in view} | {item.id for item in rest} == {item.id for item in whole}
    assert not {item.id for item in view} & {item.id for item in rest}
    assert view.only().datasets == ()
    assert view.without("oven").datasets == view.datasets  # a view of a view is one of the whole


def test_unknown_data_sets_are_named(miniature: Path) -> None:
    with pytest.raises(InputError, match="has no data set 'ovn'; there are: mscoco, oven, webqa"):
        Tree(miniature).only("ovn")
    with pytest.raises(InputError, match="has no data set 'ovn'"):
        Tree(miniature).without("ovn")
    with pytest.raises(InputError, match="has no data set besides mscoco, oven, webqa"):
        Tree(miniature).without("mscoco", "oven", "webqa")
