"""Which items are old and which are new: those of two indexes, or those of one before and since a date."""

from __future__ import annotations

import datetime
from dataclasses import replace

import numpy as np
import orjson

from genius.collection.drift import Drift, ItemGroup, find_drift
from genius.errors import InputError, MismatchError
from genius.index.catalogue import Catalogue
from genius.index.snapshot import Snapshot

VersionOfIndex = tuple[Snapshot, Catalogue]
"""A version of an index, and the catalogue, which must be reading that version."""


def drift_between(
    old: VersionOfIndex, new: VersionOfIndex, since: str | datetime.date | None = None, by: str | None = None
) -> Drift:
    """How the items of one index differ from those of an older one. Raises MismatchError for two models."""
    if since is not None or by is not None:
        raise InputError("two indexes are compared as they are: a date divides the items of one")
    models = [snapshot.model.fingerprint for snapshot, _ in (old, new)]
    if models[0] != models[1]:
        paths = [catalogue.path.parent for _, catalogue in (old, new)]
        raise MismatchError(
            f"{paths[0]} and {paths[1]} were made by two models, whose codes can't be compared: make one of "
            "them again with the model of the other"
        )
    return find_drift(old[0].model, ItemGroup.of(*old), ItemGroup.of(*new))


def drift_since(
    snapshot: Snapshot, catalogue: Catalogue, since: str | datetime.date | None, by: str | None = None
) -> Drift:
    """How the items of an index since a date differ from those before it."""
    if since is None:
        raise InputError("compare with what? Give a second index, or a date with since")
    moment = read_date(since)
    everything = ItemGroup.of(snapshot, catalogue)
    keys = everything.members.item_keys
    if by is None:
        is_new, dated = _added_since(catalogue, keys, moment), np.ones(len(keys), bool)
    else:
        is_new, dated = _dated_since(catalogue, keys, moment, by)
    for which, count in (("since", int(is_new.sum())), ("before", int((dated & ~is_new).sum()))):
        if not count:
            verb = "was added" if by is None else f"has a date under {by!r}"
            raise InputError(f"no item {verb} {which} {since}: choose another date")
    drift = find_drift(snapshot.model, everything.selected(dated & ~is_new), everything.selected(is_new))
    undated = int((~dated).sum())
    if not undated:
        return drift
    note = f"{undated:,} items have no date under {by!r}, and are left out"
    return replace(drift, notes=(note, *drift.notes))


def read_date(given: str | datetime.date) -> datetime.datetime:
    """A date, or a moment, in the local time zone if it names none. Raises InputError."""
    if isinstance(given, datetime.datetime):
        return given.astimezone()
    if isinstance(given, datetime.date):
        return datetime.datetime.combine(given, datetime.time()).astimezone()
    try:
        return datetime.datetime.fromisoformat(given.strip()).astimezone()
    except (ValueError, OverflowError, AttributeError):
        raise InputError(f"{given!r} is no date: write it as 2026-03-01 or 2026-03-01T14:30") from None


def _added_since(catalogue: Catalogue, item_keys: np.ndarray, moment: datetime.datetime) -> np.ndarray:
    """Which items were added at that moment or later. Raises InputError if that was not recorded."""
    additions = catalogue.additions()
    firsts = np.array([key for key, _ in additions], np.int64)
    late = np.array([at >= moment for _, at in additions], bool)
    places = np.searchsorted(firsts, item_keys, side="right") - 1
    unknown = places < 0
    if unknown.any() and (not additions or additions[0][1] > moment):
        until = f" before {additions[0][1].isoformat(timespec='minutes')}" if additions else ""
        raise InputError(
            f"when {int(unknown.sum()):,} of the items were added{until} was not recorded by the genius that "
            "added them: choose a later date, or a metadata key that has their dates (by, --by)",
            path=catalogue.path.parent,
        )
    return np.asarray(~unknown & (late[places] if len(late) else False))


def _dated_since(
    catalogue: Catalogue, item_keys: np.ndarray, moment: datetime.datetime, by: str
) -> tuple[np.ndarray, np.ndarray]:
    """Which items have such a date under a metadata key, and which have any date there."""
    dates: dict[int, bool] = {}
    for key, entry in catalogue.walk():
        value = orjson.loads(entry.metadata).get(by)
        if isinstance(value, str):
            try:
                dates[key] = read_date(value) >= moment
            except InputError:
                continue
    dated = np.array([key in dates for key in item_keys.tolist()], bool)
    return np.array([dates.get(key, False) for key in item_keys.tolist()], bool), dated
