"""Options that commands which read a collection share, and what they print about what could not be read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from genius.data.collection import Collection, Failures, Report
    from genius.data.tables import TableCollection
    from genius.errors import InputError
    from genius.index.index import Index

SHOWN = 5
"""How many failures are printed."""

Root = Annotated[
    Path | None,
    typer.Option(help="The folder of a table's images, if not beside it; / allows any absolute path."),
]
Strict = Annotated[bool, typer.Option(help="Stop at the first item that can't be read.")]
IdColumn = Annotated[str | None, typer.Option(help="The column of a table that is the id.")]
TextColumn = Annotated[
    list[str] | None, typer.Option(help="A column of a table to search in; repeatable.", show_default=False)
]
ImageColumn = Annotated[str | None, typer.Option(help="The column of a table that names the image.")]
Exif = Annotated[bool, typer.Option(help="Keep date, place and camera of photos in a folder as metadata.")]
VectorsFile = Annotated[
    Path | None,
    typer.Option(
        help="A file of the items' own vectors with their ids, or a folder of UniIR's or GENIUS's files, for "
        "a model that takes vectors."
    ),
]
FailureFile = Annotated[
    Path | None, typer.Option("--failures", help="Write all that could not be read to this file.")
]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Work on the machines of a Ray cluster: its HOST:PORT, or auto for one on this machine, "
        "which is started if none runs.",
    ),
]
GpusPerWorker = Annotated[
    float, typer.Option(help="With --ray: the GPUs of each worker, on which the model then runs.")
]


@dataclass(frozen=True)
class ReadOptions:
    """How sources are read, by the options of a command."""

    root: Path | None = None
    strict: bool = False
    id_column: str | None = None
    text_columns: Sequence[str] | None = None
    image_column: str | None = None
    exif: bool = True
    vectors: Path | None = None

    def read(self, source: Path) -> Collection:
        """The collection at `source`."""
        from genius.data.read import read
        from genius.encode.feature_pools import open_vectors

        return read(
            source,
            root=self.root,
            columns=self._columns,
            exif=self.exif,
            strict=self.strict,
            vectors=None if self.vectors is None else open_vectors(self.vectors),
        )

    def read_all(self, sources: Sequence[Path]) -> list[Collection]:
        """The collections at `sources`; single files in one folder are one collection."""
        from genius.data.folder import Folder

        collections: list[Collection] = []
        files: dict[Path, list[str]] = {}
        for source in sources:
            collection = self.read(source)
            if source.is_file() and isinstance(collection, Folder):
                files.setdefault(source.parent, []).append(source.name)
            else:
                collections.append(collection)
        single = [
            Folder(path, files=names, exif=self.exif, strict=self.strict) for path, names in files.items()
        ]
        return [*collections, *single]

    def read_table(self, path: Path) -> TableCollection:
        """The table at `path`."""
        from genius.data.read import read_table

        return read_table(path, root=self.root, columns=self._columns, strict=self.strict)

    @property
    def _columns(self) -> dict[str, Any]:
        return {"id": self.id_column, "text": self.text_columns, "image": self.image_column}


@contextlib.contextmanager
def failure_file(path: Path | None) -> Iterator[Report | None]:
    """A function that writes failures to a file, a line each; None if no file is wanted."""
    if path is None:
        yield None
        return
    from genius import atomic

    with atomic.write_file(path) as file:

        def write(error: InputError) -> None:
            file.write(f"{' '.join(str(error).split())}\n".encode(errors="backslashreplace"))

        yield write


def show_failures(
    failures: Sequence[Failures],
    what: str = "could not be read",
    *,
    has_option: bool = False,
    listed_in: Path | None = None,
) -> int:
    """Print how many lines or files failed, the first errors, and where all of them are; returns how many.

    `has_option` says that the command has the option --failures, and `listed_in` that it was used.
    """
    count = sum(part.count for part in failures)
    if not count:
        return 0
    typer.secho(f"{count:,} {what}:", fg="yellow", err=True)
    for error in [error for part in failures for error in part.first][:SHOWN]:
        typer.echo(f"  {error}", err=True)
    if listed_in is not None:
        typer.echo(f"  all {count:,} are in {listed_in}", err=True)
    elif count > SHOWN:
        way_out = "; --failures FILE writes all of them to a file" if has_option else ""
        typer.echo(f"  … and {count - SHOWN:,} more{way_out}", err=True)
    return count


def show_notes(notes: Sequence[str]) -> None:
    """Print what the reader should know, on standard error."""
    for note in notes:
        typer.secho(f"note: {note}", fg="yellow", err=True)


def root_hint(collection: Collection, failures: Failures) -> str | None:
    """Where the images of a table were looked for, if they were not there, and where they may be."""
    from genius.data.records import ImageFile
    from genius.data.tables import TableCollection
    from genius.errors import ItemError

    if not isinstance(collection, TableCollection):
        return None
    files = [error.file for error in failures.first if isinstance(error, ItemError) and error.file]
    missing = next((file for file in files if not file.exists()), None)
    if missing is None:
        return None
    hint = f"the images of {collection.path.name} were looked for below {collection.root}, as {missing}"
    item = next((item for item in collection.without_exif() if isinstance(item.image, ImageFile)), None)
    assert item is not None and isinstance(item.image, ImageFile)
    for folder in _folders_near(collection.path):
        if (folder / item.image.path).is_file():
            return f"{hint}; {item.image.path} is in {folder}: try --root {folder}"
    return f"{hint}: name their folder with --root"


def _folders_near(path: Path, most: int = 1000) -> Iterator[Path]:
    """The folder of a file, those in it, and the one above it."""
    import itertools

    folder = path.absolute().parent
    yield folder
    yield from (inner for inner in itertools.islice(sorted(folder.iterdir()), most) if inner.is_dir())
    yield folder.parent


def finish(index: Index, failed: int, usable: int, done: str) -> None:
    """Measure what the confidences of a filled index are told by, so that no search waits for it.

    Exits with 1 if more items failed than not, and raises GeniusError (nothing was `done`) if all did.
    """
    from genius.errors import GeniusError

    if usable:
        index.calibrate()
    if failed > usable:
        if not usable:
            raise GeniusError(f"nothing was {done}: none of {failed:,} items could be read")
        raise typer.Exit(1)
