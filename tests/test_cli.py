from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from genius import storage
from tests.pictures import write_square
from tools.cli_reference import command_page

GENIUS = [sys.executable, "-c", "from genius.cli import main; main()"]


def run(*arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would, and expect this exit code."""
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
    shown = subprocess.run(
        [*GENIUS, *map(str, arguments)], capture_output=True, text=True, env=environment, check=False
    )
    assert shown.returncode == code, shown.stderr
    return shown


def test_the_reference_page_is_what_help_says() -> None:
    page = Path(__file__).parents[1] / "docs/cli.md"
    assert page.read_text() == command_page(), "run `make docs`"


def test_version_and_help() -> None:
    from genius import __version__

    assert run("--version").stdout == f"genius {__version__}\n"
    examples = run("outliers", "--help").stdout.split("Examples:")[1].split("\n")
    assert [line.strip() for line in examples if line.strip()] == [
        "genius outliers photos-index/ -n 20",
        "genius outliers shop-index/ --sheet odd.png",
    ]
    assert "and images that can't be read or show nothing." in " ".join(run("outliers", "-h").stdout.split())
    assert "Example: genius show photos/" in " ".join(run("show", "--help").stdout.split())


def test_help_is_short_too_and_the_package_is_a_command() -> None:
    for arguments in ([], ["show"], ["bench"], ["bench", "speed"]):
        assert run(*arguments, "-h").stdout == run(*arguments, "--help").stdout
    module = subprocess.run(
        [sys.executable, "-m", "genius", "--version"], capture_output=True, text=True, check=True
    )
    assert module.stdout == run("--version").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(shell: str) -> None:
    environment = {**os.environ, "_GENIUS_COMPLETE": f"complete_{shell}"}
    words = "genius search --wa"
    environment |= {"COMP_WORDS": words, "COMP_CWORD": "2", "_TYPER_COMPLETE_ARGS": words}
    environment |= {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    shown = subprocess.run(GENIUS, capture_output=True, text=True, env=environment, check=False)
    assert "--want" in shown.stdout


def test_show_a_folder(tmp_path: Path) -> None:
    for name in ("a.jpg", "b/c.png"):
        write_square(tmp_path / "photos" / name)
    (tmp_path / "photos/a.txt").write_text("A red [bold] square.")
    (tmp_path / "photos/leak.jpg").symlink_to("/dev/null")
    shown = run("show", tmp_path / "photos", "--sheet", tmp_path / "out/sheet.png")
    assert "folder of 2 items (1 pair, 1 image)" in shown.stdout
    assert "a.jpg: A red [bold] square.\n" in shown.stdout
    assert "1 could not be read:" in shown.stderr
    assert "leak.jpg: is a link that leaves the folder" in shown.stderr
    assert Image.open(tmp_path / "out/sheet.png").getcolors(2**16) is not None
    assert json.loads(run("show", tmp_path / "photos", "--json").stdout) == {
        "path": str(tmp_path / "photos"),
        "kind": "folder",
        "items": 2,
        "pair": 1,
        "image": 1,
        "failures": 1,
        "skipped": {},
    }
    assert "leak.jpg" in run("show", tmp_path / "photos", "--strict", code=2).stderr


def test_show_finds_what_an_index_would_not_take(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    whole = write_square(folder / "whole.jpg").read_bytes()
    (folder / "cut.jpg").write_bytes(whole[:-30])
    (folder / "words.png").write_text("no image")
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "quotes.txt").write_text('""')
    for number in range(3):
        (folder / f"{number}.heic").write_bytes(b"x")
    shown = run("show", folder, "--failures", tmp_path / "failures.txt")
    assert "folder of 1 item (1 image)" in shown.stdout
    assert "4 could not be read:" in shown.stderr
    assert "note: 3 HEIC photos were skipped: after pip install pillow-heif they are read" in shown.stderr
    listed = (tmp_path / "failures.txt").read_text().splitlines()
    assert [line.split("'")[1] for line in listed] == ["cut.jpg", "empty.jpg", "quotes.txt", "words.png"]
    assert "item 'cut.jpg'" in run("show", folder, "--strict", code=2).stderr
    facts = json.loads(run("show", folder, "--json").stdout)
    assert (facts["failures"], facts["skipped"]) == (4, {"HEIC photos": 3})
    quick = run("show", folder, "--quick")
    assert "folder of 5 items (4 image, 1 text)" in quick.stdout
    assert "could not be read" not in quick.stderr


def test_show_a_table_by_the_columns_that_the_user_names(tmp_path: Path) -> None:
    write_square(tmp_path / "pics/1.jpg")
    (tmp_path / "shop.csv").write_text("ean,bild,notiz\n7,1.jpg,Rot\n")
    assert "has no column for a text or an image" in run("show", tmp_path / "shop.csv", code=2).stderr
    columns = ("--id-column", "ean", "--text-column", "notiz", "--image-column", "bild")
    shown = run("show", tmp_path / "shop.csv", *columns, "--root", tmp_path / "pics")
    assert "CSV of 1 item (1 pair)" in shown.stdout and "7: Rot [1.jpg]" in shown.stdout
    wrong = run("show", tmp_path / "shop.csv", *columns, code=1)
    assert f"try --root {tmp_path}/pics" in wrong.stderr


def test_show_a_tree(miniature: Path) -> None:
    assert "M-BEIR tree of 102 items" in run("show", miniature, "--quick").stdout
    shown = run("show", miniature).stdout
    assert "M-BEIR tree of 99 items" in shown  # as three images are missing
    rows = [line.split() for line in shown.splitlines()]
    assert ["oven_task8", "pair", "pair", "4", "4", "4"] in rows
    assert ["union", "42", "36", "24"] in rows
    facts = json.loads(run("show", miniature, "--json").stdout)
    assert facts["queries"][0] == {
        "task": "mscoco_task0",
        "asks with": "text",
        "for": "image",
        "train": 4,
        "val": 4,
        "test": 4,
    }


def test_show_an_artifact(tmp_path: Path) -> None:
    path = tmp_path / "features"
    with storage.create(path, kind="features", format=1, settings={"encoder": "lite"}) as draft:
        (draft.folder / "rows.bin").write_bytes(b"x" * 2000)
        draft.counts["rows"] = 7
    shown = run("show", path, "--verify").stdout
    for part in ("features, format 1", "yes, every byte", "encoder", "lite", "rows.bin", "2.0 kB"):
        assert part in shown
    assert json.loads(run("show", path, "--json").stdout)["counts"] == {"rows": 7}
    (path / "rows.bin").write_bytes(b"y" * 2000)
    assert "is damaged" in run("show", path, code=1).stderr


def test_show_a_model_in_words(coded_model: Path) -> None:
    shown = run("show", coded_model).stdout
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    for line in ("stages encoder, quantizer", "codes 3 × 16 × 16 × 16", "width of embeddings"):
        assert any(shown_line.startswith(line) for shown_line in lines), line
    assert "{" not in shown and "[" not in shown
    assert "settings all of them: genius show --json" in lines
    assert json.loads(run("show", coded_model, "--json").stdout)["settings"]["recipe"]["encoder"]


def test_an_error_is_one_sentence(tmp_path: Path) -> None:
    shown = run("show", tmp_path / "nowhere", code=2)
    assert shown.stderr == f"error: {tmp_path}/nowhere: there is nothing here\n"
    assert "Traceback" in run("show", tmp_path / "nowhere", "--debug", code=1).stderr
    assert "No such option" in run("show", tmp_path, "--nonsense", code=2).stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a pipe with a name")
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["show"], "stopped\n"),
        (["encode", "-o", "features"], "stopped; run the same command again to go on\n"),
    ],
)
def test_ctrl_c_exits_with_130_and_says_how_to_go_on(tmp_path: Path, command: list[str], said: str) -> None:
    """The command waits for lines of a pipe that nobody writes to, so it is certainly at work."""
    pipe = tmp_path / "endless.jsonl"
    os.mkfifo(pipe)
    code = f"""
import signal; signal.signal(signal.SIGINT, signal.default_int_handler)  # (who runs this may ignore it)
import pathlib, genius.data.tables as tables
tables.open_bytes = lambda path: path.open("rb")  # (a pipe has no size)
import sys; sys.argv = ["genius", *{command!r}, {str(pipe)!r}]
from genius.cli import main; main()
"""
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    with pipe.open("wb") as writer:  # returns when the command has opened its end
        writer.write(b'{"id": "a", "text": "x"}\n')
        writer.flush()
        process.send_signal(signal.SIGINT)
        _, shown = process.communicate(timeout=30)
    assert process.returncode == 130
    assert shown == said


def test_search_and_serve_have_the_library_defaults() -> None:
    """The defaults are repeated in the commands, so that `--help` imports nothing heavy."""
    pytest.importorskip("fastapi")
    from genius.cli import search, serve
    from genius.index.query import SearchOptions
    from genius.serve.config import Limits
    from genius.serve.schemas import SearchRequest

    beams = inspect.signature(search.search).parameters["beam"].default
    request = SearchRequest.model_validate({"text": "red"})
    assert beams == SearchOptions().beam == request.beam
    assert inspect.signature(serve.serve).parameters["batch"].default == Limits().batch
