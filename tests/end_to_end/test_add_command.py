"""What goes into an index by `genius index`, `add` and `update`, and what these say about what does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

from PIL import ExifTags, Image
from typer.testing import CliRunner

from genius.cli import app
from genius.encode import pipeline
from genius.errors import GeniusError, InputError
from genius.index.index import Index
from tests.commands import run
from tests.pictures import encoded, write_square


@pytest.fixture(autouse=True)
def own_cache(coded_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "default_cache", lambda: coded_home / "cache")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name, colour in (("IMG_1.jpg", "red"), ("IMG_2.jpg", "blue")):
        write_square(tmp_path / "photos" / name, colour)
    return tmp_path / "photos"


@pytest.fixture
def index(coded_model: Path, photos: Path, tmp_path: Path) -> Path:
    run("index", photos, "-m", coded_model, "-o", tmp_path / "index", "--workers", "1")
    return tmp_path / "index"


def ids(index: Path) -> list[str]:
    with Index.open(index) as opened:
        return [item.id for item in opened]


def test_a_second_folder_and_single_photos(index: Path, photos: Path, tmp_path: Path) -> None:
    holiday = write_square(tmp_path / "holiday/IMG_1.jpg", "green").parent
    shown = run("add", index, holiday)
    assert "3 items; 1 added now, 0 replaced" in shown.stdout
    assert f"note: the ids of {holiday} begin with 'holiday/'" in " ".join(shown.stderr.split())
    more = [write_square(photos / name, "yellow") for name in ("IMG_3.jpg", "IMG_4.jpg")]
    alone = write_square(tmp_path / "Downloads/cat.jpg", "pink")
    shown = run("add", index, *more, alone)
    assert "2 added now" in shown.stdout and "1 added now" in shown.stdout
    assert ids(index) == [
        *("IMG_1.jpg", "IMG_2.jpg", "holiday/IMG_1.jpg", "IMG_3.jpg", "IMG_4.jpg", "cat.jpg")
    ]
    for source, count in ((photos, 4), (holiday, 1), (alone, 1)):
        assert f"0 added now, 0 replaced, {count} known before" in run("add", index, source).stdout
    table = " ".join(run("show", index).stdout.split())
    assert f"source {holiday} (folder, ids begin with holiday/)" in table.replace("\n", "")


def test_a_table_with_the_wrong_root(coded_model: Path, tmp_path: Path) -> None:
    for number in range(8):
        write_square(tmp_path / f"shop/pictures/{number}.jpg")
    rows = "".join(f"{number},{number}.jpg,Shoe\n" for number in range(8))
    (tmp_path / "shop/items.csv").write_text(f"sku,photo,title\n{rows}")
    arguments = ("index", tmp_path / "shop/items.csv", "-m", coded_model, "-o", tmp_path / "index")
    with pytest.raises(GeniusError, match="nothing was added: none of 8 items could be read") as caught:
        run(*arguments, "--workers", "1")
    assert caught.value.exit_code == 1
    runner = CliRunner(env={"COLUMNS": "200"})
    shown = runner.invoke(app, list(map(str, (*arguments, "--failures", tmp_path / "failures.txt"))))
    looked_for, tried = tmp_path / "shop/0.jpg", tmp_path / "shop/pictures"
    assert f"looked for below {tmp_path}/shop, as {looked_for}; 0.jpg is in {tried}: try --root {tried}" in (
        shown.stderr
    )
    assert f"all 8 are in {tmp_path}/failures.txt" in shown.stderr
    assert len((tmp_path / "failures.txt").read_text().splitlines()) == 8
    shown = run(*arguments, "--root", tried, "--workers", "1")
    assert "8 items; 8 added now" in shown.stdout


@pytest.mark.parametrize(("broken", "code"), [(2, 0), (4, 1)])
def test_exit_codes_say_whether_most_could_be_read(
    broken: int, code: int, coded_model: Path, photos: Path, tmp_path: Path
) -> None:
    write_square(photos / "IMG_3.jpg")
    for number in range(broken):
        (photos / f"broken {number}.jpg").write_bytes(b"no image")
    arguments = ("index", photos, "-m", coded_model, "-o", tmp_path / "index", "--workers", "1")
    shown = run(*arguments, code=code)
    assert "3 items; 3 added now" in shown.stdout
    assert f"{broken} could not be read:" in shown.stderr


def test_many_failures_are_all_written_to_a_file(index: Path, tmp_path: Path) -> None:
    rows = [{"id": f"new {n}", "text": "red"} if n % 2 else {"id": f"bad {n}"} for n in range(40)]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))
    shown = run("add", index, tmp_path / "items.jsonl")
    assert "… and 15 more; --failures FILE writes all of them to a file" in shown.stderr
    run("add", index, tmp_path / "items.jsonl", "--failures", tmp_path / "failures.txt")
    lines = (tmp_path / "failures.txt").read_text().splitlines()
    assert len(lines) == 20
    assert all(f"items.jsonl, line {2 * n + 1}: " in line for n, line in enumerate(lines))


def test_what_cameras_wrote_can_be_filtered_by_and_left_out(index: Path, photos: Path) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.DateTime] = "2024:05:01 18:30:07"
    (photos / "IMG_5.jpg").write_bytes(encoded(Image.new("RGB", (9, 9), "red"), "JPEG", exif=exif))
    run("add", index, photos)
    arguments = ("search", index, "red", "--where", "taken>=2024-05-01", "--json")
    assert [hit["item"]["id"] for hit in json.loads(run(*arguments).stdout)["hits"]] == ["IMG_5.jpg"]
    assert "1 replaced, 2 known before" in run("add", index, photos, "--no-exif").stdout
    assert json.loads(run(*arguments).stdout)["hits"] == []


def test_prices_from_a_table(index: Path, tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text("image,price\nIMG_1.jpg,12.5\nIMG_2.jpg,7\nIMG_9.jpg,1\n")
    shown = run("update", index, tmp_path / "prices.csv")
    assert "2 items changed, 0 unchanged" in shown.stdout
    assert "1 could not be changed:\n  item 'IMG_9.jpg': is not in the index: add it" in shown.stderr
    with Index.open(index) as opened:
        assert {item.id: item.metadata["price"] for item in opened} == {"IMG_1.jpg": 12.5, "IMG_2.jpg": 7}
    assert "0 items changed, 2 unchanged" in run("update", index, tmp_path / "prices.csv").stdout
    (tmp_path / "unknown.csv").write_text("id,price\nnobody,1\n")
    assert "'nobody'" in run("update", index, tmp_path / "unknown.csv", code=1).stderr
    with pytest.raises(InputError, match="has no column for an id"):
        (tmp_path / "none.csv").write_text("price\n1\n")
        run("update", index, tmp_path / "none.csv")


def test_unknown_ids_are_named_and_the_others_removed(index: Path) -> None:
    shown = run("remove", index, "IMG_1.jpg", *(f"nobody {n}" for n in range(7)), code=1)
    assert "1 removed, 1 item left" in shown.stdout
    assert "7 not in the index: 'nobody 0', 'nobody 1', 'nobody 2', 'nobody 3', 'nobody 4' …" in shown.stderr
    assert ids(index) == ["IMG_2.jpg"]


def test_a_folder_of_heic_alone(coded_model: Path, tmp_path: Path) -> None:
    (tmp_path / "phone").mkdir()
    for number in range(12):
        (tmp_path / f"phone/{number}.HEIC").write_bytes(b"x")
    with pytest.raises(InputError, match="holds no item; 12 HEIC photos were skipped: after pip install"):
        run("index", tmp_path / "phone", "-m", coded_model, "-o", tmp_path / "index")
    assert not (tmp_path / "index").exists()
