"""A folder that stays in step: after a sync the index holds what the folder holds, and nothing is lost."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from genius.data.folder import Folder
from genius.data.records import ImageFile, Item
from genius.errors import GeniusError, InputError
from genius.index.catalogue import Catalogue
from genius.index.index import Index
from genius.index.item_encoder import EncodedItems, EncodeItems
from genius.index.sync import FolderWatch, Synced, synced_to_dict, watch_folder
from genius.index.sync_plan import plan_to_dict
from tests.index.made_up_index import MadeUpIndex, encode, open_made_up
from tests.index.older_catalogue import make_older


class CountingIndex(MadeUpIndex):
    """Counts what is encoded."""

    encoded: list[str]

    @contextmanager
    def _item_encoder(self, cache: Path | None, workers: int) -> Iterator[EncodeItems]:
        yield self._encode

    def _encode(self, items: Sequence[Item]) -> EncodedItems:
        self.encoded += [item.id for item in items]
        return encode(items)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[CountingIndex]:
    open_made_up(tmp_path / "index").close()
    with open_made_up(tmp_path / "index") as opened:
        counting = CountingIndex(opened.path, Catalogue(opened.path), opened.model)
        counting.encoded = []
        yield counting
        counting.close()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Four photos and a note. (No image is a real one: nothing here decodes it.)"""
    return write(
        tmp_path / "photos",
        {"a.jpg": "A", "b.jpg": "B", "trip/c.jpg": "C", "trip/d.jpg": "D", "notes/n.md": "N"},
    )


def write(folder: Path, contents: dict[str, str]) -> Path:
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def contents(index: Index, prefix: str = "") -> dict[str, str]:
    """The content of each item's file, or its text, by id; images must be where their ids say."""
    values = {}
    for item in index:
        if isinstance(item.image, ImageFile):
            assert item.id == prefix + item.image.path
        values[item.id] = item.text if item.image is None else item.image.read().decode()
    return {id: value for id, value in values.items() if value is not None}


def figures(synced: Synced) -> tuple[int, int, int, int]:
    return synced.added, synced.updated, synced.moved, synced.removed


def test_a_folder_is_followed(index: CountingIndex, photos: Path) -> None:
    assert figures(index.sync(photos)) == (5, 0, 0, 0)
    assert index.plan_sync(photos).in_step and index.plan_sync(photos).unchanged == 5
    index.update([{"id": "a.jpg", "metadata": {"stars": 5}}, {"id": "notes/n.md", "metadata": {"stars": 1}}])
    code = index.code("a.jpg")
    index.encoded.clear()
    (photos / "a.jpg").rename(photos / "trip/e.jpg")
    (photos / "notes/n.md").rename(photos / "n.txt")
    (photos / "trip").rename(photos / "voyage")
    (photos / "b.jpg").write_text("B2")
    (photos / "voyage/d.jpg").unlink()
    write(photos, {"f.jpg": "F"})
    plan = index.plan_sync(photos)
    assert {(move.old, move.new) for move in plan.moved} == {
        ("a.jpg", "voyage/e.jpg"),
        ("notes/n.md", "n.txt"),
        ("trip/c.jpg", "voyage/c.jpg"),
    }
    assert (plan.new, plan.changed, plan.gone) == (("f.jpg",), ("b.jpg",), ("trip/d.jpg",))
    assert "a.jpg" in index, "a plan changes nothing"
    assert figures(index.sync(photos, remove=True)) == (1, 1, 3, 1)
    assert sorted(index.encoded) == ["b.jpg", "f.jpg"]
    moved, text = index.get("voyage/e.jpg"), index.get("n.txt")
    assert moved is not None and moved.metadata == {"stars": 5} and index.code("voyage/e.jpg") == code
    assert text is not None and text.metadata == {"stars": 1}
    assert contents(index) == {
        "voyage/e.jpg": "A",
        "n.txt": "N",
        "b.jpg": "B2",
        "voyage/c.jpg": "C",
        "f.jpg": "F",
    }
    index._catalogue.check()
    assert index.search("A", k=10)


def test_files_that_change_places(index: CountingIndex, photos: Path) -> None:
    index.sync(photos)
    index.update([{"id": "a.jpg", "metadata": {"who": "A"}}, {"id": "trip/c.jpg", "metadata": {"who": "C"}}])
    index.encoded.clear()
    (photos / "a.jpg").rename(photos / "aside")
    (photos / "b.jpg").rename(photos / "a.jpg")
    (photos / "aside").rename(photos / "b.jpg")
    (photos / "trip/c.jpg").replace(photos / "trip/d.jpg")
    plan = index.plan_sync(photos)
    assert not plan.gone and len(plan.moved) == 3 and len(plan.overwritten) == 1
    assert figures(index.sync(plan)) == (0, 0, 3, 0)
    assert not index.encoded
    assert contents(index) == {"a.jpg": "B", "b.jpg": "A", "trip/d.jpg": "C", "notes/n.md": "N"}
    for id, metadata in {"b.jpg": {"who": "A"}, "a.jpg": {}, "trip/d.jpg": {"who": "C"}}.items():
        item = index.get(id)
        assert item is not None and item.metadata == metadata


def test_what_update_changed_stays_until_the_source_says_something_else(
    index: CountingIndex, photos: Path
) -> None:
    table = photos / "captions.csv"
    table.write_text("image,text,place,year\na.jpg,a dog,Rome,2001\nb.jpg,a cat,Rome,2002\n")
    index.sync(photos)
    index.update([{"id": "a.jpg", "text": "a hound", "metadata": {"place": "Bonn", "stars": 3}}])
    assert index.plan_sync(photos).in_step
    table.write_text("image,text,place,year\na.jpg,a dog,Rome,2011\nb.jpg,a cat,Pisa,2002\n")
    index.encoded.clear()
    assert figures(index.sync(photos)) == (0, 2, 0, 0)
    assert not index.encoded, "metadata needs no encoding"

    def values(id: str) -> tuple[str | None, dict[str, object]]:
        item = index.get(id)
        assert item is not None
        return item.text, dict(item.metadata)

    assert values("a.jpg") == ("a hound", {"place": "Bonn", "stars": 3, "year": 2011})
    assert values("b.jpg") == ("a cat", {"place": "Pisa", "year": 2002})
    (photos / "a.jpg").rename(photos / "z.jpg")
    table.write_text("image,text,place,year\nz.jpg,a wolf,Rome,2012\nb.jpg,a cat,Pisa,2002\n")
    assert figures(index.sync(photos)) == (0, 1, 1, 0)
    assert index.encoded == ["z.jpg"], "for its new text"
    assert values("z.jpg") == ("a wolf", {"place": "Bonn", "stars": 3, "year": 2012})
    assert index.plan_sync(photos).in_step


def test_a_folder_within_a_source_has_the_captions_of_its_table(index: CountingIndex, photos: Path) -> None:
    (photos / "captions.csv").write_text("image,text\ntrip/c.jpg,a cat\ntrip/e.jpg,a dog\na.jpg,a cow\n")
    index.sync(photos)
    assert index.plan_sync(photos / "trip").in_step
    write(photos, {"trip/e.jpg": "E", "b.jpg": "not in this folder"})
    (photos / "trip/d.jpg").write_bytes(b"")  # nothing to be read now
    synced = index.sync(photos / "trip", remove=True)
    assert figures(synced) == (1, 0, 0, 0) and synced.failures.count == 1
    item = index.get("trip/e.jpg")
    assert item is not None and item.text == "a dog" and index.encoded.count("b.jpg") == 1


def test_a_folder_beside_tables_within_a_source_of_single_files(
    index: CountingIndex, photos: Path, tmp_path: Path
) -> None:
    (tmp_path / "single.jpg").write_text("S")
    index.add(Folder(tmp_path, files=["single.jpg"]))
    for name in ("prices.csv", "dates.csv"):  # that folder as a whole could not be read: which has captions?
        (tmp_path / name).write_text("image,text\na.jpg,a caption\n")
    assert figures(index.sync(photos)) == (5, 0, 0, 0)
    captioned = index.get("photos/a.jpg")
    assert contents(index)["photos/a.jpg"] == "A" and captioned is not None and captioned.text is None


def test_a_folder_that_never_was_one_is_no_vanished_one(
    index: CountingIndex, photos: Path, tmp_path: Path
) -> None:
    index.sync(photos)
    for misspelt in (photos / "tripp", tmp_path / "photo"):
        with pytest.raises(InputError, match="there is nothing here, and no item of the index came from"):
            index.plan_sync(misspelt)
    (photos / "trip").rename(tmp_path / "elsewhere")
    assert index.plan_sync(photos / "trip").gone == ("trip/c.jpg", "trip/d.jpg")


def test_plans_and_what_was_done_as_json(index: CountingIndex, photos: Path) -> None:
    index.sync(photos)
    (photos / "a.jpg").rename(photos / "z.jpg")
    (photos / "b.jpg").unlink()
    write(photos, {"new.jpg": "NEW"})
    plan = index.plan_sync(photos)
    fields = plan_to_dict(plan)
    assert fields["new"] == ("new.jpg",) and fields["gone"] == ("b.jpg",) and fields["unchanged"] == 3
    assert fields["moved"] == [{"from": "a.jpg", "to": "z.jpg"}] and not fields["mostly_gone"]
    done = synced_to_dict(index.sync(plan))
    assert (done["added"], done["moved"], done["removed"], done["kept"]) == (1, 1, 0, 1)
    assert done["why_kept"] == "nobody said that they may be removed" and done["failed"] == []


def test_a_run_that_is_stopped_is_continued(
    index: CountingIndex, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.sync(photos)
    (photos / "a.jpg").rename(photos / "z.jpg")
    (photos / "b.jpg").unlink()
    write(photos, {"new.jpg": "new"})

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    # Within the move, while it encodes, and before it removes.
    states = []
    for owner, method in ((Catalogue, "_bury"), (CountingIndex, "_encode"), (Catalogue, "remove")):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(owner, method, stopped)
            index.sync(photos, remove=True)
        states.append({item.id for item in index})
    start = {"a.jpg", "b.jpg", "trip/c.jpg", "trip/d.jpg", "notes/n.md"}
    moved = start - {"a.jpg"} | {"z.jpg"}
    assert states == [start, moved, moved | {"new.jpg"}]
    assert figures(index.sync(photos, remove=True)) == (0, 0, 0, 1)
    assert set(contents(index)) == moved - {"b.jpg"} | {"new.jpg"} and index.encoded.count("z.jpg") == 0


def test_nothing_is_removed_unasked(index: CountingIndex, photos: Path) -> None:
    index.add(photos)
    (photos / "a.jpg").unlink()
    (photos / "notes/n.md").unlink()
    synced = index.sync(photos)
    assert (synced.removed, synced.kept) == (0, 2) and synced.why_kept
    plan = index.plan_sync(photos)
    write(photos, {"a.jpg": "A"})  # it comes back before the plan is carried out
    synced = index.sync(plan, remove=True)
    assert (synced.removed, synced.kept) == (1, 1)
    assert set(contents(index)) == {"a.jpg", "b.jpg", "trip/c.jpg", "trip/d.jpg"}


@pytest.mark.parametrize("how", ["vanished", "empty", "mostly"])
def test_a_folder_that_vanished_empties_nothing(index: CountingIndex, photos: Path, how: str) -> None:
    index.sync(photos)
    away = photos.with_name("unmounted")
    photos.rename(away)
    if how != "vanished":
        photos.mkdir()
    if how == "mostly":
        write(photos, {"a.jpg": "A", "trip/c.jpg": "C"})
    plan = index.plan_sync(photos)
    assert plan.mostly_gone and len(plan.gone) == (3 if how == "mostly" else 5)
    synced = index.sync(photos, remove=True)
    assert synced.removed == 0 and "mounted" in synced.why_kept and len(index) == 5
    assert index.sync(photos, remove=True, all_gone=True).removed == len(plan.gone)


def test_other_sources_stay(index: CountingIndex, photos: Path, tmp_path: Path) -> None:
    holiday = write(tmp_path / "holiday", {"a.jpg": "H", "h.jpg": "H2"})
    index.add([Item("by hand", "a text"), Item("notes/by-hand.md", "a text"), Item("d.md", "D")])
    index.add(holiday)
    assert figures(index.sync(photos)) == (5, 0, 0, 0)
    others = {"by hand": "a text", "notes/by-hand.md": "a text", "d.md": "D", "a.jpg": "H", "h.jpg": "H2"}
    own = {"a.jpg": "A", "b.jpg": "B", "trip/c.jpg": "C", "trip/d.jpg": "D", "notes/n.md": "N"}
    everything = others | {f"photos/{path}": content for path, content in own.items()}

    def stored() -> dict[str, str]:
        return {
            item.id: (item.text or "") if item.image is None else item.image.read().decode() for item in index
        }

    assert stored() == everything
    (holiday / "h.jpg").rename(photos / "h.jpg")  # from one source to another: new here, gone there
    (photos / "a.jpg").unlink()
    assert figures(index.sync(photos, remove=True)) == (1, 0, 0, 1)
    everything = everything | {"photos/h.jpg": "H2"}
    everything.pop("photos/a.jpg")
    assert figures(index.sync(holiday, remove=True)) == (0, 0, 0, 1)
    everything.pop("h.jpg")
    assert stored() == everything
    (photos / "trip/c.jpg").unlink()
    assert index.sync(photos / "trip", remove=True).removed == 1, "a folder within a source"
    assert "photos/trip/c.jpg" not in index and len(index) == len(everything) - 1


def test_ids_of_others_are_not_taken(index: CountingIndex, photos: Path) -> None:
    index.sync(photos)
    index.add([Item("new.md", "somebody's")])
    write(photos, {"new.md": "mine"})
    synced = index.sync(photos, remove=True)
    assert synced.failures.count == 1 and "did not come from this folder" in str(synced.failures.first[0])
    item = index.get("new.md")
    assert item is not None and item.text == "somebody's"


def test_a_folder_that_was_moved_is_the_same_source(index: CountingIndex, photos: Path) -> None:
    index.sync(photos)
    index.update([{"id": "a.jpg", "metadata": {"stars": 5}}])
    index.encoded.clear()
    place = photos.rename(photos.with_name("pictures"))
    (place / "b.jpg").unlink()
    (place / "notes/n.md").unlink()
    plan = index.plan_sync(place)
    assert plan.former == str(photos) and plan.gone == ("b.jpg", "notes/n.md")
    assert index.sync(place, remove=True).removed == 2
    assert contents(index) == {"a.jpg": "A", "trip/c.jpg": "C", "trip/d.jpg": "D"}
    assert not index.encoded and [source["path"] for source in index._catalogue.sources()] == [str(place)]
    item = index.get("a.jpg")
    assert item is not None and item.metadata == {"stars": 5}


def test_what_cannot_be_looked_at_is_not_gone(
    index: CountingIndex, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(photos, {"e.jpg": "E", "f.txt": "F", "g.md": "G"})
    index.sync(photos)
    elsewhere = (photos / "trip").rename(photos.with_name("elsewhere"))
    (photos / "trip").symlink_to(elsewhere)  # a link to a folder elsewhere
    (photos / "a.jpg").unlink()
    (photos / "a.jpg").symlink_to(photos / "nowhere.jpg")
    (photos / "f.txt").write_bytes(b"\xff\xfe broken")  # no UTF-8
    (photos / "e.jpg").write_bytes(b"")
    real = os.scandir

    def scandir(path: Path) -> object:
        if Path(path).name == "notes":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr("genius.index.folder_scan.os.scandir", scandir)
    synced = index.sync(photos, remove=True, all_gone=True)
    assert figures(synced) == (0, 0, 0, 0) and not synced.plan.gone
    assert set(synced.plan.unseen) == {"trip/c.jpg", "trip/d.jpg", "a.jpg", "f.txt", "notes/n.md"}
    said = " ".join(synced.plan.notes)
    assert "link to a folder" in said and "Permission denied" in said and "leads nowhere" in said
    assert len(index) == 8 and synced.failures.count
    (photos / "g.md").unlink()
    assert index.sync(photos, remove=True).removed == 1


def test_an_index_of_an_older_genius(index: CountingIndex, photos: Path) -> None:
    """It has no tables that say where items are from; texts are recognised when they are seen."""
    index.add(photos)
    make_older(index.path)
    assert index.plan_sync(photos).adopted == ("notes/n.md",)
    assert figures(index.sync(photos)) == (0, 0, 0, 0) and index.plan_sync(photos).in_step
    (photos / "notes/n.md").rename(photos / "n.md")
    (photos / "a.jpg").unlink()
    assert figures(index.sync(photos, remove=True)) == (0, 0, 1, 1)
    assert contents(index) == {"b.jpg": "B", "trip/c.jpg": "C", "trip/d.jpg": "D", "n.md": "N"}


def test_bad_input(index: CountingIndex, photos: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is nothing here"):
        index.sync(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is no folder"):
        index.sync(photos / "a.jpg")
    table = write(tmp_path / "tables", {"t.csv": "id,text\n1,one\n", "u.csv": "id,text\n2,two\n"})
    with pytest.raises(InputError, match="is no folder of images"):
        index.sync(table)
    index.add(table)
    with pytest.raises(InputError, match="was added as"):
        index.sync(table)
    with pytest.raises(InputError, match="above 0 seconds"):
        next(watch_folder(FolderWatch(index, photos), 0))


# --- watching


def test_a_watch_waits_for_files_that_are_being_written(index: CountingIndex, photos: Path) -> None:
    watch = FolderWatch(index, photos, remove=True)
    first = watch.round()
    assert first is not None and figures(first) == (5, 0, 0, 0)
    assert watch.round() is not None and watch.round() is None, "nothing has changed"
    write(photos, {"half.jpg": "ha"})
    (photos / "a.jpg").rename(photos / "z.jpg")
    index.encoded.clear()
    second = watch.round()
    assert second is not None and set(second.plan.waiting) == {"half.jpg", "z.jpg"} and len(index) == 5
    assert second.kept == 1 and "written" in second.why_kept, "it may be the file that waits"
    write(photos, {"half.jpg": "half"})
    third = watch.round()
    assert third is not None and figures(third) == (0, 0, 1, 0) and third.plan.waiting == ("half.jpg",)
    fourth = watch.round()
    assert fourth is not None and figures(fourth) == (1, 0, 0, 0)
    assert index.encoded == ["half.jpg"] and contents(index)["half.jpg"] == "half"
    assert watch.round() is None
    index.remove("z.jpg")
    assert figures(watch.round() or Synced(index.plan_sync(photos))) == (1, 0, 0, 0)


def test_a_watch_reads_only_what_changed(
    index: CountingIndex, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = FolderWatch(index, photos)
    for _ in range(3):
        watch.round()
    read: list[str] = []
    real = ImageFile.read

    def noted(image: ImageFile) -> bytes:
        read.append(image.path)
        return real(image)

    monkeypatch.setattr(ImageFile, "read", noted)
    write(photos, {"new.jpg": "new"})
    watch.round()
    assert not read
    watch.round()
    assert set(read) == {"new.jpg"}


def test_a_watch_goes_on(index: CountingIndex, photos: Path) -> None:
    waits: list[float] = []
    errors: list[GeniusError] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            (photos / "b.jpg").unlink()
        if len(waits) == 4:  # a table that can't be read for a moment
            write(photos, {"captions.csv": ""})
        if len(waits) == 6:
            write(photos, {"captions.csv": "image,text\na.jpg,a dog\n"})
        if len(waits) == 10:
            raise KeyboardInterrupt

    reports = []
    with pytest.raises(KeyboardInterrupt):
        for synced in watch_folder(FolderWatch(index, photos), 3.0, wait, errors.append):
            reports += [(*figures(synced), synced.kept)]
    assert waits == [3.0] * 10
    assert reports == [(5, 0, 0, 0, 0), (0, 0, 0, 0, 1), (0, 1, 0, 0, 1)]
    assert errors and "is empty" in str(errors[0])


# --- against a model


@dataclass
class World:
    """A folder and the dictionary that it should be; files are renamed, edited, deleted, copied and added."""

    folder: Path
    random: random.Random
    files: dict[str, str] = field(default_factory=dict)
    made: int = 0

    def path(self) -> str:
        number = self.random.randrange(30)
        return self.random.choice(
            [f"{number}.jpg", f"in/{number}.jpg", f"in/deep/{number}.jpg", f"t{number}.md"]
        )

    def content(self) -> str:
        self.made += 1
        return f"content {self.made}"

    def write(self, path: str, content: str) -> None:
        write(self.folder, {path: content})
        self.files[path] = content

    def step(self) -> None:
        """One change at random; a rename may overwrite a file."""
        known = self.random.choice(sorted(self.files)) if self.files else None
        kind = self.random.choice(["add", "add", "edit", "delete", "rename", "rename", "swap", "copy"])
        if known is None or kind == "add":
            self.write(self.path(), self.content())
        elif kind == "edit":
            self.write(known, self.content())
        elif kind == "delete":
            (self.folder / known).unlink()
            del self.files[known]
        elif kind == "copy":
            target = self.path().rsplit(".", 1)[0] + Path(known).suffix
            self.write(target, self.files[known])
        else:
            others = [path for path in self.files if path.endswith(Path(known).suffix)]
            target = self.random.choice(others) if kind == "swap" else self.path().rsplit(".")[0] + known[-4:]
            target = target if target.endswith(Path(known).suffix) else known
            first, second = self.files.pop(known), self.files.pop(target, None)
            (self.folder / known).unlink()
            self.write(target, first)
            if kind == "swap" and second is not None:
                self.write(known, second)


def expected_encodings(before: dict[str, str], after: dict[str, str]) -> int:
    """How many files can't be items that were elsewhere before."""
    wanted = Counter(content for path, content in after.items() if before.get(path) != content)
    offered = Counter(content for path, content in before.items() if after.get(path) != content)
    return (wanted - offered).total()


@pytest.mark.parametrize("seed", range(4))
def test_a_thousand_steps_against_a_dictionary(index: CountingIndex, tmp_path: Path, seed: int) -> None:
    folder = tmp_path / "world"
    folder.mkdir()
    world = World(folder, random.Random(seed))
    others = {"1.jpg of others": "a text", "in/9.md": "another"}
    index.add([Item(id, text) for id, text in others.items()])
    world.write("first.jpg", "first")
    before: dict[str, str] = {}
    tags: dict[str, str] = {}  # by content
    steps = 0
    while steps < 250:
        for _ in range(world.random.randint(1, 8)):
            world.step()
            steps += 1
        index.encoded.clear()
        synced = index.sync(folder, remove=True, all_gone=True)
        assert synced.failures.count == 0
        stored = contents(index)
        assert {id: stored.pop(id) for id in others} == others
        assert stored == world.files
        assert len(index.encoded) == expected_encodings(before, world.files)
        assert index.plan_sync(folder).in_step
        single = [content for content, count in Counter(world.files.values()).items() if count == 1]
        kept = {content: tag for content, tag in tags.items() if list(before.values()).count(content) == 1}
        metadata = {world.files[item.id]: item.metadata for item in index if item.id in world.files}
        for content in single:
            if content in kept:
                assert metadata[content] == {"tag": kept[content]}
        tags = {content: str(fields["tag"]) for content, fields in metadata.items() if "tag" in fields}
        if world.files:
            tagged = world.random.choice(sorted(world.files))
            tags[world.files[tagged]] = f"tag {steps}"
            index.update([{"id": tagged, "metadata": {"tag": f"tag {steps}"}}])
        before = dict(world.files)
    index._catalogue.check()
