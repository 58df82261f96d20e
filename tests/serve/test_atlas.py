"""Cells and labels over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from genius import Index
from genius.errors import InputError
from genius.serve.atlas import format_prefix, parse_prefix


def test_codes_are_the_cells_of_the_index(client: TestClient, served: Path) -> None:
    with Index.open(served) as index:
        todo: list[tuple[int | None, ...]] = [(), (None,)]
        while todo:
            prefix = todo.pop()
            cell = index.cell(prefix, items=4)
            shown = client.get(
                f"/codes/{format_prefix(prefix)}", params={"samples": 4, "children": 200}
            ).json()
            assert shown["prefix"] == format_prefix(prefix)
            assert (shown["depth"], shown["levels"], shown["count"]) == (len(prefix), 4, cell.count)
            assert [(child["code"], child["count"]) for child in shown["children"]] == list(cell.children)
            assert [item["id"] for item in shown["items"]] == [item.id for item in cell.items]
            todo += [(*prefix, code) for code, _ in cell.children][:3]
    assert client.get("/codes").json() == client.get("/codes/").json()
    second = client.get("/codes", params={"start": 1, "children": 1}).json()
    assert second["children"] == client.get("/codes").json()["children"][1:2]


def test_the_numbers_of_items_of_a_cell_and_of_its_children_are_independent(client: TestClient) -> None:
    def numbers(**parameters: int) -> tuple[int, set[int]]:
        shown = client.get("/codes", params=parameters).json()
        return len(shown["items"]), {len(child["items"]) for child in shown["children"]}

    assert numbers(samples=7, child_samples=2) == (7, {2})
    assert numbers(samples=0, child_samples=3) == (0, {3})
    assert numbers(samples=5, child_samples=0) == (5, {0})
    assert numbers(samples=5) == (5, {5})
    assert client.get("/codes", params={"child_samples": 25}).status_code == 422


def test_labels_are_words_of_the_texts_under_a_prefix(client: TestClient) -> None:
    cells = client.get("/codes/1").json()["children"]
    labelled = [cell for cell in cells if cell["label"]]
    assert labelled
    for cell in labelled:
        under = client.get(f"/codes/{cell['prefix']}?samples=24").json()
        texts = " ".join(item["text"] for item in under["items"]).lower()
        assert any(word in texts for word in cell["label"].split(", "))


def test_images_without_texts_of_the_same_code_are_labelled_by_the_most_similar_texts(
    client: TestClient,
) -> None:
    for cell in client.get("/codes/0").json()["children"]:
        prefix = cell["prefix"]
        while len(prefix.split("-")) < 4:  # to the last level: there no text has the same code
            prefix = client.get(f"/codes/{prefix}").json()["children"][0]["prefix"]
        assert client.get(f"/codes/{prefix}").json()["label"], prefix


@pytest.mark.parametrize("text", ["9", "0-99", "0-1-2-3-4", "*-*", "-1", "a", "0-", "٣", "0" * 300])
def test_invalid_prefixes_are_refused(client: TestClient, text: str) -> None:
    answer = client.get(f"/codes/{text}")
    assert answer.status_code == 400
    assert answer.json()["error"]["kind"] == "input"
    if text not in ("9", "0-99", "0-1-2-3-4"):
        with pytest.raises(InputError):
            parse_prefix(text)
