"""`genius sync`: an index that stays in step with a folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genius.cli.collection import print_json
from genius.cli.examples import examples
from genius.cli.source import Exif, FailureFile, failure_file, show_failures, show_notes
from genius.display import numbered

if TYPE_CHECKING:
    from genius.errors import GeniusError
    from genius.index.index import Index
    from genius.index.sync import FolderWatch, Synced
    from genius.index.sync_plan import SyncPlan

SHOWN = 20
"""How many items of each kind a terminal shows; a pipe gets all of them."""
EVERY = 5.0
"""Seconds between two looks at a folder that is watched."""


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(
        epilog=examples(
            "genius sync index/ photos/ --dry-run",
            "genius sync index/ photos/ --yes",
            "genius sync index/ photos/ --yes --watch",
        )
    )(sync)


def sync(
    index: Annotated[Path, typer.Argument(help="The index to change.")],
    folder: Annotated[Path, typer.Argument(help="The folder of images and texts that it follows.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove what is gone without asking.")] = False,
    all_gone: Annotated[
        bool,
        typer.Option(
            "--all-gone", help="Remove what is gone even if it is more than half of the folder's items."
        ),
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep at it until Ctrl-C; nothing is removed without --yes.")
    ] = False,
    every: Annotated[
        float, typer.Option(help="Seconds between two looks at the folder, with --watch.")
    ] = EVERY,
    workers: Annotated[int, typer.Option(help="The number of processes; 0 is one per core.")] = 1,
    exif: Exif = True,
    failures: FailureFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object instead; with --watch one for each change.")
    ] = False,
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="The index's model, if it was moved.")
    ] = None,
) -> None:
    """Bring INDEX in step with FOLDER: add what is new, update what changed, follow what was moved or
    renamed, and remove what is gone.

    A moved file is recognised by its content: its item is not encoded again, and keeps what genius update
    gave it. Removing asks first, unless you say --yes; without a terminal and --yes nothing is removed.
    Items of other sources stay as they are.
    """
    from genius.errors import InputError
    from genius.index.index import Index
    from genius.index.sync import FolderWatch
    from genius.index.sync_plan import plan_to_dict
    from genius.progress import log_to_terminal
    from genius.runtime import cores

    log_to_terminal()
    if watch and dry_run:
        raise InputError("--watch and --dry-run exclude each other: a dry run looks once")
    with Index.open(index, model) as target:
        if watch:
            _watch(
                FolderWatch(target, folder, yes, all_gone, exif, workers=workers or cores()), every, as_json
            )
            return
        plan = target.plan_sync(folder, exif=exif)
        if dry_run and as_json:
            print_json(plan_to_dict(plan))
            return
        if dry_run:
            _print_plan(plan)
            show_notes(plan.notes)
            show_failures((plan.failures,))
            return
        remove = yes or (not as_json and _asks(plan, all_gone))
        with failure_file(failures) as listener:
            done = target.sync(
                plan,
                remove=remove,
                all_gone=all_gone,
                exif=exif,
                on_failure=listener,
                workers=workers or cores(),
            )
        _print_report(index, target, done, as_json, listed_in=failures)
        if done.added or done.updated:
            target.calibrate()


def _asks(plan: SyncPlan, all_gone: bool) -> bool:
    """Whether the user says that what is gone may be removed; no without a terminal."""
    if not plan.gone or (plan.mostly_gone and not all_gone) or not sys.stdin.isatty():
        return False
    _print_items("- ", plan.gone, all_of_them=False)
    return typer.confirm(f"{len(plan.gone):,} of {plan.count:,} items are gone. Remove them from the index?")


def _print_plan(plan: SyncPlan) -> None:
    """A line an item: + new, ~ changed, > moved, - gone; then how many."""
    everything = not sys.stdout.isatty()
    _print_items("+ ", plan.new, all_of_them=everything)
    _print_items("~ ", plan.changed, all_of_them=everything)
    _print_items("> ", [f"{move.old} -> {move.new}" for move in plan.moved], all_of_them=everything)
    _print_items("- ", plan.gone, all_of_them=everything)
    repointed = f", {len(plan.repointed):,} in a folder that was moved" if plan.repointed else ""
    typer.echo(
        f"would add {len(plan.new):,}, update {len(plan.changed):,}, move {len(plan.moved):,}{repointed}, "
        f"remove {len(plan.gone):,}; {plan.unchanged:,} unchanged",
        err=True,
    )
    if plan.mostly_gone and plan.gone:
        show_notes(["more than half of the folder's items are gone: only --yes --all-gone removes them"])


def _print_items(mark: str, lines: list[str] | tuple[str, ...], *, all_of_them: bool) -> None:
    for line in lines if all_of_them else lines[:SHOWN]:
        typer.echo(mark + line)
    if len(lines) > SHOWN and not all_of_them:
        typer.echo(f"{mark}… and {len(lines) - SHOWN:,} more")


def _print_report(
    index: Path, target: Index, done: Synced, as_json: bool, *, listed_in: Path | None = None
) -> None:
    from genius.index.sync import synced_to_dict

    if as_json:
        print_json({"items": len(target), **synced_to_dict(done)})
        return
    typer.echo(
        f"{index}: {numbered(len(target), 'item')}; {done.added:,} added, {done.updated:,} updated, "
        f"{done.moved:,} moved, {done.removed:,} removed"
    )
    show_failures((done.failures,), has_option=True, listed_in=listed_in)
    show_notes(done.plan.notes)
    if done.kept and done.why_kept:
        option = "--yes --all-gone" if done.plan.mostly_gone else "--yes"
        gone = "1 item is gone but stays" if done.kept == 1 else f"{done.kept:,} items are gone but stay"
        show_notes([f"{gone}: {done.why_kept} ({option} removes what is gone)"])
    if done.plan.waiting:
        show_notes([f"{len(done.plan.waiting):,} files are still being written to, and wait"])


def _watch(watched: FolderWatch, every: float, as_json: bool) -> None:
    """Bring the index in step until Ctrl-C."""
    from genius.index.sync import watch_folder

    errors = _once(lambda error: typer.secho(f"{error}; trying again", fg="yellow", err=True))
    try:
        for done in watch_folder(watched, every, on_error=errors):
            _print_report(watched.index.path, watched.index, done, as_json)
    except KeyboardInterrupt:
        typer.echo("stopped watching", err=True)


def _once(say: Callable[[GeniusError], None]) -> Callable[[GeniusError], None]:
    """Say each error once in a row: it comes again with every look."""
    last: list[str] = []

    def listener(error: GeniusError) -> None:
        if last != [str(error)]:
            say(error)
        last[:] = [str(error)]

    return listener
