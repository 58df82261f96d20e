"""An index from the command line: made, shown, searched, damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")


from genius.encode import pipeline
from genius.errors import DamagedError, InputError
from tests.commands import run
from tests.pictures import write_square


@pytest.fixture(autouse=True)
def own_cache(coded_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "default_cache", lambda: coded_home / "cache")


@pytest.fixture(scope="module")
def index(
    coded_model: Path, coded_home: Path, miniature: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    path = tmp_path_factory.mktemp("command") / "index"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "default_cache", lambda: coded_home / "cache")
        shown = run("index", miniature, "-m", coded_model, "-o", path, "--workers", "1")
        assert "99 items; 99 added now, 0 replaced, 0 known before" in " ".join(shown.stdout.split())
        assert "3 could not be read:" in shown.stderr
        again = run("index", miniature, "-m", coded_model, "-o", path, "--workers", "1")
        assert "0 added now, 0 replaced, 99 known before" in " ".join(again.stdout.split())
    return path


def hits(*arguments: str | Path) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = json.loads(run("search", *arguments, "--json").stdout)["hits"]
    return shown


def ids(hits: list[dict[str, Any]]) -> list[str]:
    return [hit["item"]["id"] for hit in hits]


def modalities(hits: list[dict[str, Any]]) -> set[str]:
    return {hit["item"]["modality"] for hit in hits}


def test_search_by_text_image_and_both(index: Path, tmp_path: Path) -> None:
    images = hits(index, "the red one", "--only", "image", "-k", "5")
    assert [hit["rank"] for hit in images] == [1, 2, 3, 4, 5]
    assert modalities(images) == {"image"}
    assert modalities(hits(index, "the red one", "--want", "image", "-k", "99")) == {"image", "pair"}
    assert {len(hit["code"]) for hit in images} == {4}
    image = write_square(tmp_path / "red.jpg")
    assert len(hits(index, "--image", image)) == 10
    assert len(hits(index, "the same", "--image", image, "-k", "3", "--beam", "1")) == 3
    texts = hits(index, "red", "--instruction", "Find a text that matches this text.", "-k", "99")
    assert modalities(texts) == {"text", "pair"}
    plain = hits(index, "red", "--plain")
    assert [hit["score"] for hit in plain] == sorted((hit["score"] for hit in plain), reverse=True)
    published = hits(index, "red", "--mode", "paper")
    assert published[0]["score"] == pytest.approx(sum(published[0]["log_probabilities"]), abs=1e-5)


def test_explanations_for_people(index: Path) -> None:
    texts = hits(index, "a red square", "--want", "text", "-k", "2")
    path = run("search", index, "a red square", "--want", "text", "-k", "1", "--explain").stdout
    rows = [line.split() for line in path.splitlines()]
    assert rows[0][:3] == ["1.", texts[0]["item"]["id"], f"({texts[0]['item']['modality']}),"]
    levels = zip(texts[0]["code"], texts[0]["prefix_counts"], strict=True)
    for level, (code, count) in enumerate(levels, 1):
        assert [row[:2] + row[-1:] for row in rows].count([str(level), str(code), str(count)]) == 1
    assert "note: the text is longer" in run("search", index, "red " * 500).stderr


def test_show_and_verify(index: Path, coded_model: Path) -> None:
    shown = run("show", index, "--verify").stdout
    for part in ("index of 99 items", "yes, every byte", str(coded_model)[:20], "3 × 16 × 16 × 16"):
        assert part in shown
    facts = json.loads(run("show", index, "--json").stdout)
    assert (facts["items"], facts["modalities"]) == (99, {"image": 39, "text": 36, "pair": 24})


def test_bad_input(index: Path, coded_model: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown modality 'video'"):
        run("search", index, "red", "--want", "video")
    with pytest.raises(InputError, match="there is nothing here"):
        run("search", tmp_path / "nowhere", "red")
    with pytest.raises(InputError, match="there is nothing here"):
        run("index", tmp_path / "nowhere", "-m", coded_model, "-o", tmp_path / "made")
    assert not (tmp_path / "made").exists()
    (tmp_path / "items.jsonl").write_text('{"id": "a", "text": "red"}\n{"id": "b", "image": "gone.jpg"}\n')
    with pytest.raises(InputError, match="item 'b'"):
        run(
            "index",
            tmp_path / "items.jsonl",
            "-m",
            coded_model,
            "-o",
            tmp_path / "made",
            "--strict",
            "--workers",
            "1",
        )


def test_several_workers_make_the_same_index(
    index: Path, coded_model: Path, miniature: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "default_cache", lambda: tmp_path / "cache")  # (all is encoded again)
    run("index", miniature, "-m", coded_model, "-o", tmp_path / "made", "--workers", "2")
    single, several = hits(index, "red", "-k", "99"), hits(tmp_path / "made", "red", "-k", "99")
    assert set(ids(single)) == set(ids(several))
    assert [hit["score"] for hit in single] == pytest.approx([hit["score"] for hit in several], abs=0.02)


@pytest.mark.parametrize("kept", ["fp16", "none"])
def test_an_index_may_keep_less_of_its_items(
    kept: str, index: Path, coded_model: Path, miniature: Path, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    run("index", miniature, "-m", coded_model, "-o", made, "--workers", "1", "--embeddings", kept)
    assert kept in run("show", made).stdout
    usual, ranked = hits(index, "red", "-k", "99"), hits(made, "red", "-k", "99")
    assert set(ids(ranked)) == set(ids(usual))
    if kept == "fp16":
        assert [hit["score"] for hit in ranked] == pytest.approx([hit["score"] for hit in usual], abs=1e-3)
    best = ids(ranked)[0]
    near = hits(made, "--near", best, "-k", "3")
    assert len(near) == 3 and best not in ids(near)
    run("remove", made, best)
    run("compact", made)
    assert ids(hits(made, "red", "-k", "98")) == ids(ranked)[1:]
    with pytest.raises(InputError, match=f"keeps {kept}"):
        run("index", miniature, "-m", coded_model, "-o", made, "--embeddings", "int8")


def test_a_damaged_index_is_refused(index: Path) -> None:
    file = index / "segments/00000001/hi.npy"
    whole = file.read_bytes()
    try:
        file.write_bytes(whole[:-1] + b"X")
        for command in (("show", index), ("search", index, "red")):
            with pytest.raises(DamagedError, match=r"hi\.npy is damaged"):
                run(*command)
    finally:
        file.write_bytes(whole)


@pytest.fixture
def changing(coded_model: Path, tmp_path: Path) -> Path:
    """An index of four texts, free to be changed."""
    rows = [
        {"id": "1", "text": "A red square.", "brand": "acme", "price": 10},
        {"id": "2", "text": "A blue square.", "brand": "acme", "price": 60},
        {"id": "3", "text": "A red circle.", "brand": "other", "price": 20, "size": {"width": 3}},
        {"id": "4", "text": "A green circle.", "code": "42"},
    ]
    source = tmp_path / "items.jsonl"
    source.write_text("\n".join(map(json.dumps, rows)))
    run("index", source, "-m", coded_model, "-o", tmp_path / "index", "--workers", "1")
    return tmp_path / "index"


def test_add_remove_compact(changing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "more.jsonl").write_text('{"id": "5", "text": "A pair."}\n{"id": "1", "text": "Changed."}\n')
    added = run("add", changing, tmp_path / "more.jsonl", "--replace").stdout
    assert "5 items; 1 added now, 1 replaced, 0 known before" in " ".join(added.split())
    assert {hit["item"]["id"]: hit["item"]["text"] for hit in hits(changing, "changed")}["1"] == "Changed."
    removed = run("remove", changing, "2", "2", "nobody", code=1)
    assert "1 removed, 4 items left" in removed.stdout
    assert removed.stderr == "1 not in the index: 'nobody'\n"
    (tmp_path / "gone.txt").write_text("3\n\n4\n")
    assert "2 removed, 2 items left" in run("remove", changing, "--from", tmp_path / "gone.txt").stdout
    assert "1 removed, 1 item left" in run("remove", changing, "--from", "-", given="5\n").stdout
    assert ids(hits(changing, "red")) == ["1"]
    assert "1 item; " in run("compact", changing).stdout
    assert "yes, every byte" in run("show", changing, "--verify").stdout
    with pytest.raises(InputError, match="no ids: name some"):
        run("remove", changing)
    with pytest.raises(InputError, match="cannot read"):
        run("remove", changing, "--from", tmp_path / "nothing.txt")
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(InputError, match="no text in UTF-8"):
        run("remove", changing, "--from", tmp_path / "bytes")
    with pytest.raises(InputError, match="there is nothing here"):
        run("add", changing, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["red", "--where", "brand=acme"], {"1", "2"}),
        (["red", "--where", "brand=acme", "--where", "price<50"], {"1"}),
        (["red", "--where", "brand in acme,other", "--exclude", "2"], {"1", "3"}),
        (["red", "--where", "size.width=3"], {"3"}),
        (["red", "--where", "code=42"], {"4"}),
        (["red", "--where", "brand!=acme"], {"3", "4"}),
        (["--near", "1"], {"2", "3", "4"}),
        (["--near", "1", "--where", "price>=20", "--exclude", "3"], {"2"}),
        (["--near", "1", "--want", "image"], set()),
    ],
)
def test_searches_among_some(changing: Path, arguments: list[str], expected: set[str]) -> None:
    assert set(ids(hits(changing, *arguments))) == expected


def test_conditions_that_nothing_fulfils(changing: Path) -> None:
    with pytest.raises(InputError, match="is no condition"):
        run("search", changing, "red", "--where", "brand")
    assert (
        "nothing in the index fulfils this filter" in run("search", changing, "red", "--where", "a=b").stderr
    )
