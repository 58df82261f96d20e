"""A folder of images and/or texts, with captions in sidecar files or in one table."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from genius.data.collection import Collection, Located, Report
from genius.data.exif import read_exif
from genius.data.file_kinds import is_image, is_text, unread_kind
from genius.data.records import ImageFile, Item, Scalar
from genius.data.tables import CSV_ENDINGS, JSONL_ENDINGS, table
from genius.errors import InputError

CAPTION_NAMES = ("captions", "metadata")
LEAVING_LINK = (
    "is a link that leaves the folder, and only what is in it is read: copy the files, or name the folder "
    "that the link points to as a source of its own"
)

Caption = tuple[str | None, dict[str, Scalar]]


class Folder(Collection):
    """The images and texts below a folder; an item's id is its path, relative and with forward slashes.

    `photo.txt` beside `photo.jpg` is the image's caption. A CSV or JSONL file in the folder (called
    captions or metadata, or the only one that names images) gives captions and metadata by the images' paths;
    the captions of several rows for one image are joined by line breaks. Any other text file is an item of
    its own. With `exif`, metadata also has what the camera wrote into a photo, unless the table says
    something else.

    Given `files` (relative paths), it is these files of the folder alone.
    """

    kind = "folder"

    def __init__(
        self, path: Path, *, strict: bool = False, exif: bool = True, files: Iterable[str] | None = None
    ) -> None:
        super().__init__(path, strict=strict)
        self.exif = exif
        self.files = None if files is None else frozenset(files)
        wanted = [PurePosixPath(file) for file in self.files or ()]
        self._stems = {str(file.with_suffix("")) for file in wanted}
        self._parents = {str(parent) for file in wanted for parent in file.parents}
        # Beside a few files, a table may be anything.
        self._any_table = files is None
        self._other_tables: list[str] = []

    def without_exif(self) -> Folder:
        """The same items, to be looked through: without what cameras wrote into images, and unheard."""
        return Folder(self.path, strict=self.strict, exif=False, files=self.files)

    @property
    def notes(self) -> list[str]:
        """What was skipped in the latest pass: kinds of files, and tables that are no captions."""
        others = [
            f"{name} was left out: its rows name no images, as those of captions do"
            for name in self._other_tables
        ]
        return [*super().notes, *others]

    def restricted(self, files: Iterable[str]) -> Folder:
        """The items of some files of this folder, as they are among all of them."""
        twin = Folder(self.path, strict=self.strict, exif=self.exif, files=files)
        twin._any_table, twin.may_be_empty = self._any_table, self.may_be_empty
        return twin

    def _located_items(self, report: Report) -> Iterator[Located]:
        captions, table_path = self._captions(report)
        for file, siblings in self._item_files(report):
            path = file.relative_to(self.path).as_posix()
            try:
                if is_image(file.name):
                    caption = captions.pop(path, (None, {}))
                    yield file, None, self._image_item(file, path, siblings, caption)
                else:
                    yield file, None, _text_item(path, file)
            except InputError as error:
                report(error.at(file))
        for path in captions if self.files is None else ():
            report(InputError(f"image {path!r} is not in the folder", path=table_path))

    def item_paths(self) -> Iterator[str]:
        """The paths of the files that are items, in order; nothing is read of them."""
        for file, _ in self._item_files(lambda error: None):
            yield file.relative_to(self.path).as_posix()

    def _item_files(self, report: Report) -> Iterator[tuple[Path, frozenset[str]]]:
        """The files that are items, in order, each with the names of the files beside it."""
        for folder, names in self._walk(self.path, report):
            siblings = frozenset(names)
            image_stems = {Path(name).stem for name in names if is_image(name)}
            for name in names:
                file = folder / name
                if self.files is not None and file.relative_to(self.path).as_posix() not in self.files:
                    continue
                if is_image(name):
                    yield file, siblings
                elif is_text(name):
                    if not (name.endswith(".txt") and Path(name).stem in image_stems):
                        yield file, siblings
                elif kind := unread_kind(name):
                    self.skipped[kind] += 1

    def _image_item(self, file: Path, path: str, siblings: frozenset[str], caption: Caption) -> Item:
        sidecar = f"{file.stem}.txt"
        own = _read_text(file.with_name(sidecar)) if sidecar in siblings else None
        text, metadata = caption
        if self.exif:
            metadata = {**read_exif(file), **metadata}
        return Item(path, _join_captions(own, text), ImageFile(str(self.path), path), metadata)

    def _walk(self, folder: Path, report: Report) -> Iterator[tuple[Path, list[str]]]:
        """Every folder with the names of its files, sorted so that two passes agree, without hidden ones."""
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            report(InputError(f"cannot be read: {error.strerror or error}", path=folder))
            return
        files, folders = [], []
        for entry in entries:
            if entry.name.startswith(".") or not self._leads_to_files(entry):
                continue
            if _undecodable(entry.name):
                report(InputError(f"the name {entry.name!r} is not UTF-8: rename it", path=folder))
            elif entry.is_symlink() and not self._stays_inside(entry):
                report(InputError(LEAVING_LINK, path=entry.path))
            elif entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
            elif entry.is_file():
                files.append(entry.name)
        yield folder, files
        for inner in folders:
            yield from self._walk(inner, report)

    def _leads_to_files(self, entry: os.DirEntry[str]) -> bool:
        """Whether a file is wanted or may be a caption of one, and whether a folder has one below it."""
        if self.files is None:
            return True
        path = Path(entry.path).relative_to(self.path)
        if entry.is_dir():
            return path.as_posix() in self._parents
        return path.with_suffix("").as_posix() in self._stems

    def _stays_inside(self, entry: os.DirEntry[str]) -> bool:
        return Path(entry.path).resolve().is_relative_to(self.path.resolve())

    def _captions(self, report: Report) -> tuple[dict[str, Caption], Path]:
        """Captions and metadata by image path, and the table's path; none without a table."""
        path = self._caption_table()
        captions: dict[str, Caption] = {}
        if path is None:
            return captions, self.path
        reader = table(path, root=self.path)
        assert reader is not None
        for file, line, item in reader._located_items(report):
            if not isinstance(item.image, ImageFile):
                report(InputError("names no image", path=file, line=line))
                continue
            text, metadata = captions.get(item.image.path, (None, {}))
            caption = _join_captions(text, item.text)
            captions[item.image.path] = (caption, {**metadata, **item.metadata})
        return captions, path

    def _caption_table(self) -> Path | None:
        """The table of captions: one that is called so, or the only one whose rows name images."""
        self._other_tables = []
        tables = [
            p for p in sorted(self.path.iterdir()) if p.name.lower().endswith(JSONL_ENDINGS + CSV_ENDINGS)
        ]
        named = [p for p in tables if p.name.split(".")[0].lower() in CAPTION_NAMES]
        chosen = named
        if not named and self._any_table:
            chosen = [path for path in tables if self._names_images(path)]
            self._other_tables = [path.name for path in tables if path not in chosen]
        if len(chosen) > 1 and self.files is not None and not named:
            return None  # the folder as a whole can't have been read, so none of them has captions
        if len(chosen) > 1:
            names = ", ".join(p.name for p in chosen)
            raise InputError(
                f"has several tables ({names}): name the one with the captions captions.csv", path=self.path
            )
        return chosen[0] if chosen else None

    def _names_images(self, path: Path) -> bool:
        """Whether the first row of a table names an image, as a table of captions does."""
        reader = table(path, root=self.path)
        assert reader is not None
        try:
            _, _, first = next(reader._located_items(lambda error: None), (None, None, None))
        except InputError:
            return False
        return first is not None and isinstance(first.image, ImageFile)


def _join_captions(*captions: str | None) -> str | None:
    return "\n".join(caption for caption in captions if caption) or None


def _undecodable(name: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in name)


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8-sig").strip() or None
    except UnicodeDecodeError:
        raise InputError(f"{path.name} is not UTF-8: save it as UTF-8") from None
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {error.strerror or error}") from error


def _text_item(path: str, file: Path) -> Item:
    text = _read_text(file)
    if text is None:
        raise InputError("is an empty text")
    return Item(path, text)
