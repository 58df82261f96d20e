from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import orjson
import pytest

from genius import atomic, storage
from genius import storage as manifest
from genius.errors import DamagedError, DiskError, InputError, MismatchError


def make(path: Path, content: bytes = b"hello", kind: str = "features", format: int = 1) -> storage.Artifact:
    made_from = {"encoder": "abc"}
    with storage.create(
        path, kind=kind, format=format, settings={"size": (3, 4)}, made_from=made_from
    ) as draft:
        (draft.folder / "a.bin").write_bytes(content)
        (draft.folder / "inner").mkdir()
        (draft.folder / "inner/b.bin").write_bytes(b"b" * 10)
        draft.counts["rows"] = 2
    return storage.open(path)


def test_what_is_written_is_what_is_opened(tmp_path: Path) -> None:
    artifact = make(tmp_path / "x/artifact")
    assert artifact.file("a.bin").read_bytes() == b"hello"
    assert artifact.manifest.settings == {"size": [3, 4]}
    assert artifact.manifest.counts == {"rows": 2}
    assert artifact.manifest.made_from == {"encoder": "abc"}
    assert sorted(artifact.manifest.files) == ["a.bin", "inner/b.bin"]
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["artifact"]


def test_the_current_folder_may_be_the_artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(tmp_path / "artifact")
    monkeypatch.chdir(tmp_path / "artifact")
    assert storage.open(".").fingerprint == made.fingerprint
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError):
        storage.open("")


def test_the_fingerprint_is_of_the_content(tmp_path: Path) -> None:
    assert make(tmp_path / "a").fingerprint == make(tmp_path / "b").fingerprint
    assert make(tmp_path / "a").fingerprint != make(tmp_path / "c", b"other").fingerprint


def test_replacing(tmp_path: Path) -> None:
    old = make(tmp_path / "a")
    new = make(tmp_path / "a", b"new content")
    assert new.file("a.bin").read_bytes() == b"new content"
    with pytest.raises(DamagedError, match="was replaced while it was open; open it again"):
        old.file("a.bin")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_replacing_where_the_file_system_can_not_swap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "a")
    monkeypatch.setattr(atomic, "_AT_FDCWD", -100)
    monkeypatch.setattr(atomic, "_RENAME_EXCHANGE", 1 << 20)  # a flag that the kernel answers with EINVAL
    assert make(tmp_path / "a", b"new").file("a.bin").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_replacement_cut_off_between_two_renames_is_undone(tmp_path: Path) -> None:
    make(tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / ".a.replaced")
    assert storage.open(tmp_path / "a").file("a.bin").read_bytes() == b"hello"


def test_a_draft_that_fails_leaves_the_old_artifact(tmp_path: Path) -> None:
    make(tmp_path / "a")
    with pytest.raises(ZeroDivisionError), storage.create(tmp_path / "a", kind="features", format=1) as draft:
        (draft.folder / "a.bin").write_bytes(b"half")
        raise ZeroDivisionError
    assert storage.open(tmp_path / "a").file("a.bin").read_bytes() == b"hello"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_later_stage_takes_files_over(tmp_path: Path) -> None:
    old = make(tmp_path / "a")
    with storage.create(tmp_path / "a", kind="features", format=1) as draft:
        draft.reuse(old, "a.bin", "inner/b.bin")
        (draft.folder / "c.bin").write_bytes(b"c")
    new = storage.open(tmp_path / "a", verify=True)
    assert sorted(new.manifest.files) == ["a.bin", "c.bin", "inner/b.bin"]
    assert new.file("a.bin").read_bytes() == b"hello"


def test_what_is_no_artifact_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    make(tmp_path / "a")  # an empty folder may become one
    with pytest.raises(InputError, match=r"a: is an artifact of kind 'features', so it is not overwritten"):
        make(tmp_path / "a", kind="model")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/1.jpg").write_bytes(b"precious")
    with pytest.raises(InputError, match=r"photos: is no artifact of genius, so it is not overwritten"):
        make(tmp_path / "photos")
    assert (tmp_path / "photos/1.jpg").read_bytes() == b"precious"


def test_another_kind_or_format(tmp_path: Path) -> None:
    make(tmp_path / "a", format=2)
    with pytest.raises(
        MismatchError, match=r"a holds features, but model is needed here: give the path of model"
    ):
        storage.open(tmp_path / "a", kind="model")
    with pytest.raises(
        MismatchError, match=r"has format 2 of features \(made by genius .* reads format 1: update genius"
    ):
        storage.open(tmp_path / "a", kind="features", format=1)
    with pytest.raises(MismatchError, match=r"reads format 3: make it again"):
        storage.open(tmp_path / "a", kind="features", format=3)


def test_nothing_or_something_else_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a: there is nothing here"):
        storage.open(tmp_path / "a")
    with pytest.raises(InputError, match=r"is no artifact of genius: it has no manifest.json"):
        storage.open(tmp_path)


@pytest.mark.parametrize("position", [0, 2, 4])
def test_a_flipped_byte(tmp_path: Path, position: int) -> None:
    make(tmp_path / "a")
    content = bytearray(b"hello")
    content[position] ^= 1
    (tmp_path / "a/a.bin").write_bytes(content)
    with pytest.raises(
        DamagedError, match=r"a/a.bin is damaged: its checksum is not the one that was written"
    ):
        storage.open(tmp_path / "a")


def test_a_file_that_is_cut_short_or_gone(tmp_path: Path) -> None:
    make(tmp_path / "a")
    (tmp_path / "a/a.bin").write_bytes(b"hell")
    with pytest.raises(DamagedError, match=r"a/a.bin is damaged: 4 bytes instead of 5; make it again"):
        storage.open(tmp_path / "a")
    (tmp_path / "a/a.bin").unlink()
    with pytest.raises(DamagedError, match=r"a/a.bin is gone"):
        storage.open(tmp_path / "a")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"kind": "features"}'])
def test_a_manifest_that_is_none(tmp_path: Path, content: bytes) -> None:
    make(tmp_path / "a")
    (tmp_path / "a/manifest.json").write_bytes(content)
    with pytest.raises(DamagedError, match=r"manifest.json is not a manifest of genius"):
        storage.open(tmp_path / "a")


def test_every_flipped_bit_of_a_manifest_is_noticed(tmp_path: Path) -> None:
    with storage.create(tmp_path / "a", kind="test", format=1, settings={"rate": 0.1}) as draft:
        (draft.folder / "file").write_bytes(b"content")
    content = (tmp_path / "a" / "manifest.json").read_bytes()
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedError):
            storage.Manifest.parse(bytes(flipped), tmp_path)
    without = {name: value for name, value in orjson.loads(content).items() if name != "checksum"}
    assert storage.Manifest.parse(orjson.dumps(without), tmp_path).kind == "test"  # of an older release


@pytest.mark.parametrize("name", ["9" * 300, "a\0b"])
def test_a_manifest_of_a_file_that_can_not_exist(tmp_path: Path, name: str) -> None:
    folder = make(tmp_path / "a").path
    with pytest.raises(DamagedError, match="names a file that can't exist"):
        storage.check_file(folder / name, storage.FileRecord(5, "0" * 64), verify=False)


def test_an_altered_manifest(tmp_path: Path) -> None:
    make(tmp_path / "a")
    file = tmp_path / "a/manifest.json"
    fields = json.loads(file.read_bytes())
    fields["made_from"]["encoder"] = "another"
    file.write_text(json.dumps(fields))
    with pytest.raises(DamagedError, match="was altered: its fingerprint does not fit"):
        storage.open(tmp_path / "a")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_a_failing_disk_is_one_sentence_and_the_old_artifact_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    make(tmp_path / "a", b"old")

    def failing(path: Path) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(atomic, "sync", failing)
        with pytest.raises(DiskError, match=os.strerror(number)):
            make(tmp_path / "a", b"new")
    assert storage.open(tmp_path / "a").file("a.bin").read_bytes() == b"old"
    with monkeypatch.context() as patch:
        patch.setattr(storage, "check_file", lambda *given: failing(tmp_path))
        with pytest.raises(DiskError, match=r"could not be opened"):
            storage.open(tmp_path / "a")


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (4,), (2, 3, 4)])
def test_arrays_are_written_as_numpy_writes_them(tmp_path: Path, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(np.float16)
    with storage.create(tmp_path / "a", kind="test", format=1) as draft:
        draft.write_array("array.npy", array.T)
    np.save(tmp_path / "expected.npy", np.ascontiguousarray(array.T))
    assert (tmp_path / "a/array.npy").read_bytes() == (tmp_path / "expected.npy").read_bytes()


def test_large_files_are_sampled_on_open_and_checked_whole_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "FULL_CHECK_BYTES", 1000)
    monkeypatch.setattr(manifest, "BLOCK_BYTES", 4)
    content = bytes(range(256)) * 16
    make(tmp_path / "a", content)
    between = bytearray(content)
    between[30] ^= 1  # no sampled block covers it
    (tmp_path / "a/a.bin").write_bytes(between)
    storage.open(tmp_path / "a")
    with pytest.raises(DamagedError, match=r"a.bin is damaged"):
        storage.open(tmp_path / "a", verify=True)
    for position in (0, 3, 4095, 4092):
        sampled = bytearray(content)
        sampled[position] ^= 1
        (tmp_path / "a/a.bin").write_bytes(sampled)
        with pytest.raises(DamagedError, match=r"a.bin is damaged"):
            storage.open(tmp_path / "a")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x/y.txt"
    with atomic.write_file(path) as file:
        file.write(b"old")
    with pytest.raises(ZeroDivisionError), atomic.write_file(path) as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    assert [file.name for file in path.parent.iterdir()] == ["y.txt"]


def test_a_living_writer_s_draft_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".a.part-dead").mkdir()
    with storage.create(tmp_path / "a", kind="features", format=1) as first:
        assert not (tmp_path / ".a.part-dead").exists()
        with storage.create(tmp_path / "a", kind="features", format=1) as second:
            (second.folder / "x").write_bytes(b"second")
        (first.folder / "x").write_bytes(b"first")
    assert storage.open(tmp_path / "a").file("x").read_bytes() == b"first"
