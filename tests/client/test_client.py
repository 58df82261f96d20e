"""The client has the methods of an index, and they return the same."""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import genius
from genius import Client, Hit, ImageBytes, ImageFile, Index, Item, Query
from genius.data.images import load
from genius.errors import GeniusError, InputError
from genius.index.query import SearchKeywords
from genius.index.writer import Compacted
from tests.pictures import encoded, square, write_square
from tests.serving import Running


def summary(hits: list[Hit]) -> list[tuple[str, str | None, tuple[int, ...], tuple[int, ...]]]:
    return [(hit.item.id, hit.item.text, hit.code, hit.prefix_counts) for hit in hits]


def test_a_client_has_the_methods_of_an_index() -> None:
    # These methods and parameters only make sense where the index is.
    local = {"create", "open", "reading", "prepare", "prepare_to_add", "page"}
    local |= {"filter_seconds", "searcher", "format", "decoder", "first_codes", "calibrate", "items"}
    local |= {"shard_folders"}
    # No path of the server is ever taken from a request.
    local |= {"split", "export", "recode", "plan_sync", "sync", "drift"}
    local_parameters = {"cache", "workers", "total", "replace", "on_failure", "like", "pairs"}
    names = {name for name in dir(Index) if not name.startswith("_")} - local
    names |= {"__len__", "__contains__", "__iter__", "__enter__", "__exit__"}
    assert {"search", "search_many", "add", "update", "remove", "compact", "version", "cell"} <= names
    for name in names:
        ours, theirs = getattr(Client, name), getattr(Index, name)
        assert isinstance(ours, property) == isinstance(theirs, property), name
        if not isinstance(theirs, property) and name != "__exit__":
            expected = [value for value in parameters_of(theirs) if value[0] not in local_parameters]
            assert parameters_of(ours) == expected, name
    assert genius.Client is Client


def parameters_of(function: Any) -> list[tuple[str, Any, Any]]:
    parameters = inspect.signature(function).parameters.values()
    return [(parameter.name, parameter.kind, parameter.default) for parameter in parameters]


def test_searches_are_those_of_the_index(running: Running, served: Path, tmp_path: Path) -> None:
    queries: list[Query | str] = ["red", "blue", Query(text="green", want=genius.Modality.IMAGE)] * 8
    image = write_square(tmp_path / "red.jpg")
    with Index.open(served) as index, Client(running(read_only=True)) as client:
        assert len(client) == len(index)
        for remote, local in (
            (client.search("the red one", k=5), index.search("the red one", k=5)),
            (
                client.search(text="red", want="pair", beam=5),
                index.search(text="red", want="pair", beam=5),
            ),
            (client.search("red", rerank=False), index.search("red", rerank=False)),
            (client.search("red", want="image", k=30), index.search("red", want="image", k=30)),
            (client.search("red", only=["image", "text"]), index.search("red", only=["image", "text"])),
            (
                client.search(Query(text="red", want=genius.Modality.TEXT), only="image"),
                index.search("red", only="image"),
            ),
            (client.search("red", offset=5, k=5), index.search("red", offset=5, k=5)),
            (client.search("red", sort="-src_content"), index.search("red", sort="-src_content")),
            (client.search(image=image, text="same"), index.search(image=image, text="same")),
            (
                client.search(image=Image.new("RGB", (9, 9), "red")),
                index.search(image=Image.new("RGB", (9, 9), "red")),
            ),
            (
                client.search("red", instruction="Find a text that matches this text."),
                index.search("red", instruction="Find a text that matches this text."),
            ),
        ):
            assert summary(remote) == summary(local)
            assert (remote.mode, remote.decoder, remote.num_candidates) == (
                local.mode,
                local.decoder,
                local.num_candidates,
            )
            assert [hit.score for hit in remote] == pytest.approx([hit.score for hit in local], abs=1e-4)
        many = client.search_many(queries, k=3)
        assert [summary(hits) for hits in many] == [summary(hits) for hits in index.search_many(queries, k=3)]
        assert many[0].reranked and not many[0].plain
        for hit, same in zip(client.search("blue", k=3), index.search("blue", k=3), strict=True):
            assert hit.log_probabilities == pytest.approx(same.log_probabilities, abs=1e-4)
        assert client.search("red " * 500).notes == index.search("red " * 500).notes


def test_browsing_is_that_of_the_index(running: Running, served: Path) -> None:
    with Index.open(served) as index, Client(running(read_only=True)) as client:
        for options in (
            {},
            {"want": "image", "k": 50},
            {"only": "text", "offset": 30},
            {"filter": {"gone": 1}},
        ):
            remote, local = client.browse(**options), index.browse(**options)
            assert summary(remote) == summary(local)
            assert (remote.total, remote.notes) == (local.total, local.notes)
            assert all(math.isnan(hit.score) and math.isnan(hit.cosine) for hit in remote)
        with pytest.raises(InputError, match="without a query, mode means nothing"):
            client.browse(mode="fast")  # type: ignore[call-arg]


def test_items_codes_and_cells_are_those_of_the_index(running: Running, served: Path) -> None:
    with Index.open(served) as index, Client(running(read_only=True)) as client:
        for item in list(index)[::20]:
            remote = client.get(item.id)
            assert remote is not None
            assert (remote.id, remote.text, remote.metadata) == (item.id, item.text, item.metadata)
            assert client.code(item.id) == index.code(item.id)
            assert item.id in client
            assert (remote.image is None) == (item.image is None)
            if remote.image is not None and item.image is not None:
                assert load(remote.image).size == load(item.image).size
        assert client.get("nothing") is None
        assert client.code("nothing") is None
        for prefix in ((), (0,), (None, 3)):
            cell, same = client.cell(prefix, items=3), index.cell(prefix, items=3)
            assert (cell.prefix, cell.count, cell.children) == (same.prefix, same.count, same.children)
            assert [item.id for item in cell.items] == [item.id for item in same.items]


def test_items_are_added_changed_and_removed(running: Running, own_index: Path) -> None:
    with Client(running(own_index)) as client:
        items = [Item(f"a/{n}", f"square {n}", metadata={"n": n}) for n in range(300)]
        items.append(Item("b", image=ImageBytes(square("red"))))
        items.append(Item("bad", "  "))
        report = client.add(items)
        assert (report.added, report.replaced, report.known, report.failures.count) == (301, 0, 0, 1)
        assert len(client) == 301
        added = client.get("a/17")
        assert added is not None
        assert (added.text, added.metadata) == ("square 17", {"n": 17})
        assert client.search(image=square("red"), want="image", k=1)[0].item.id == "b"
        cheap = client.search("square", filter={"n": {"$lt": 3}}, exclude=["a/1"])
        assert {hit.item.id for hit in cheap} == {"a/0", "a/2"}
        assert "a/5" not in [hit.item.id for hit in client.search(near="a/5", k=300)]
        changed = client.update([{"id": "a/3", "metadata": {"n": -1}}, Item("a/4", "circle"), Item("c", "d")])
        assert (changed.replaced, changed.failures.count) == (2, 1)
        assert [item.metadata["n"] for item in map(client.get, ["a/3", "a/4"]) if item] == [-1, 4]
        assert client.remove(["a/17", "nothing", "b"]) == 2
        assert client.remove("a/18") == 1
        assert client.get("a/17") is None
        assert len(client) == 298
        with Index.open(own_index) as index:
            assert client.facets() == index.facets() != ()
        before = client.version
        assert client.compact() == Compacted(2, 1, 4)
        assert client.version == before + 1
        with Index.open(own_index) as index:
            assert [item.id for item in client] == [item.id for item in index]


def test_failures_are_reported_or_raised(running: Running, own_index: Path, tmp_path: Path) -> None:
    bad = [Item("gone", image=ImageFile(str(tmp_path), "gone.png")), Item("none", image=ImageBytes(b"none"))]
    with Client(running(own_index)) as client, Index.open(own_index) as index:
        for target in (client, index):
            report = target.add([*bad, Item(f"good {target}", "red")])
            assert (report.added, report.replaced, report.known, report.failures.count) == (1, 0, 0, 2)
            assert {str(error).partition(":")[0] for error in report.failures.first} == {
                "item 'gone'",
                "item 'none'",
            }
            alone = target.add(bad)
            assert (alone.added, alone.failures.count) == (0, 2)
            for item in bad:
                with pytest.raises(InputError, match=f"^item '{item.id}': "):
                    target.add([Item("more", "more"), item], strict=True)
            with pytest.raises(InputError, match="item 'nobody': is not in the index: add it"):
                target.update([Item("nobody", "red")], strict=True)
            changed = target.update([Item("nobody", "red"), {"id": f"good {target}", "image": b"none"}])
            assert (changed.replaced, changed.failures.count) == (0, 2)
            with pytest.raises(InputError, match="takes items"):
                target.add(["text"])  # type: ignore[list-item]
        assert len(client) == 2


def test_iteration_gives_an_item_that_is_replaced_meanwhile_once(running: Running, own_index: Path) -> None:
    with Client(running(own_index)) as client:
        client.add(Item(str(n), f"text {n}") for n in range(250))
        walk = iter(client)
        first = next(walk)
        client.add([Item("0", "new"), Item("249", "new")])
        items = [first, *walk]
        assert sorted(item.id for item in items) == sorted(map(str, range(250)))
        assert [item.text for item in items if item.id in ("0", "249")] == ["text 0", "new"]


def test_one_id_is_not_a_list_of_letters(running: Running, own_index: Path) -> None:
    with Client(running(own_index)) as client:
        client.add([Item("ab", "red"), Item("a", "red"), Item("b", "red")])
        assert {hit.item.id for hit in client.search("red", exclude="ab")} == {"a", "b"}
        assert {hit.item.id for hit in client.search_many(["red"], exclude="ab")[0]} == {"a", "b"}


def test_errors_are_those_of_an_index(running: Running) -> None:
    url = running(token="right", read_only=True)
    with pytest.raises(GeniusError, match="token"):
        Client(url, "wrong").search("red")
    with Client(url, "right") as client:
        wrong_options: list[SearchKeywords] = [{"k": 0}, {"k": 10**9}, {"beam": 0}]
        for wrong in wrong_options:
            with pytest.raises(InputError):
                client.search("red", **wrong)
        with pytest.raises(InputError, match="unknown modality"):
            client.search("red", want="video")
        with pytest.raises(InputError, match="empty query"):
            client.search()
        with pytest.raises(InputError, match="two"):
            client.search("red", text="blue")
        with pytest.raises(InputError, match="alone"):
            client.search(Query(text="red"), text="blue")
        with pytest.raises(InputError, match="near is a query of its own"):
            client.search("red", near="9:1")
        with pytest.raises(InputError, match=r"damaged|pixels|none of"):
            client.search(image=encoded(Image.new("RGB", (9, 9)), "ICO"))
        with pytest.raises(InputError, match="half a character"):
            client.search("\ud800")
        with pytest.raises(GeniusError, match="only reads"):
            client.add([Item("a", "b")])
        with pytest.raises(InputError, match="levels"):
            client.cell((0, 1, 2, 3, 4))


def test_one_text_is_not_several_queries() -> None:
    with pytest.raises(InputError, match="search_many takes several queries"):
        Client("http://127.0.0.1:1").search_many("cat")
