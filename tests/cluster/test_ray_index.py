"""`genius index --ray` on a real cluster of three nodes: the same index, whatever happens to them."""

from __future__ import annotations

import errno
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from genius.cli import app
from genius.cluster import ray_workers
from genius.cluster.ray_index import ClusterOptions, index_on_cluster
from genius.data.collection import Located, Report
from genius.data.read import read
from genius.data.tables import Jsonl, LocatedRow
from genius.errors import GeniusError, InputError
from genius.model import Model
from tests.cluster.conftest import add_node
from tests.cluster.made_up_build import ITEMS, contents
from tests.cluster.ray_builds import ChaoticWorkers, build_on

Alone = tuple[Path, list[str]]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers_makes_the_index_that_one_process_makes(
    ray: Any, home: Path, alone: Alone, tmp_path: Path, workers: int
) -> None:
    report = build_on(ray, home, tmp_path / "index", workers=workers)
    assert contents(tmp_path / "index") == contents(alone[0])
    assert sorted(map(str, report.failures.first)) == alone[1]  # the poisoned item fails alone


def lose_a_node(cluster: Any) -> None:
    """A node goes with all that is on it, and another one comes."""
    cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
    add_node(cluster)


def kill_driver(cluster: Any, home: Path, out: Path, moment: int) -> bool:
    """Have another process build the index, which kills itself; whether it did."""
    command = [sys.executable, "-m", "tests.cluster.killed_driver", cluster.address, str(home), str(out)]
    ended = subprocess.run([*command, str(moment)], check=False, cwd=Path(__file__).parents[2])
    assert ended.returncode in (0, -9)
    return ended.returncode == -9


def test_a_killed_worker_a_lost_node_and_a_killed_driver_change_nothing(
    cluster: Any, ray: Any, home: Path, alone: Alone, tmp_path: Path
) -> None:
    assert kill_driver(cluster, home, tmp_path / "index", 9)
    mishaps = {5: ChaoticWorkers.end_a_worker, 8: lambda workers: lose_a_node(cluster)}
    report = build_on(ray, home, tmp_path / "index", lambda workers: workers.at(mishaps))
    assert contents(tmp_path / "index") == contents(alone[0])
    assert report.known + report.added == ITEMS - 4


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_random_mishaps_change_nothing(
    cluster: Any, ray: Any, home: Path, alone: Alone, tmp_path: Path, seed: int
) -> None:
    dice, kinds = random.Random(seed), [ChaoticWorkers.end_a_worker, lambda workers: lose_a_node(cluster)]
    if seed % 3 == 0:
        kill_driver(cluster, home, tmp_path / "index", dice.randint(2, 25))
    mishaps = {dice.randint(2, 20): dice.choice(kinds) for _ in range(2)}
    build_on(ray, home, tmp_path / "index", lambda workers: workers.at(mishaps))
    assert contents(tmp_path / "index") == contents(alone[0])


def test_a_chunk_that_ends_every_worker_is_named(
    ray: Any, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_workers, "TRIES", 2)
    mishaps = dict.fromkeys(range(1, 200), ChaoticWorkers.end_a_worker)
    with pytest.raises(GeniusError, match=r"items.jsonl from 0 on ended its worker 2 times"):
        build_on(ray, home, tmp_path / "index", lambda workers: workers.at(mishaps), workers=1)


class FullDisk(Jsonl):
    """A table that can be read where there is room on the disk."""

    def items_of(self, rows: Iterable[LocatedRow], report: Report) -> Iterator[Located]:
        """No items."""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")


def test_what_is_wrong_on_a_machine_is_one_sentence_with_its_name(
    ray: Any, home: Path, tmp_path: Path
) -> None:
    source, model = home / "items.jsonl", Model.open(home / "model")
    with pytest.raises(GeniusError, match=rf"No space left on device.*\(on {socket.gethostname()}\)"):
        index_on_cluster(FullDisk(source), model, tmp_path / "index", ClusterOptions(workers=1))
    with pytest.raises(InputError, match=r"room for \d workers with a core each, and 99 are wanted"):
        index_on_cluster(read(source), model, tmp_path / "other", ClusterOptions(workers=99))
    model.path = tmp_path / "nowhere"  # as on a machine that lacks it
    with pytest.raises(GeniusError, match=rf"there is no model at {model.path} on a worker's machine"):
        index_on_cluster(read(source), model, tmp_path / "third", ClusterOptions(workers=1))


def test_the_command_builds_and_tells(
    cluster: Any, ray: Any, home: Path, alone: Alone, tmp_path: Path
) -> None:
    out = tmp_path / "index"
    command = ["index", str(home / "items.jsonl"), "-m", str(home / "model"), "-o", str(out)]
    ended = CliRunner().invoke(app, [*command, "--ray", cluster.address, "--chunk-items", "600"])
    assert ended.exit_code == 0, ended.output
    assert f"{out}: 1,496 items; 1,496 added now" in ended.output and "next: genius search" in ended.output
    assert "4 could not be read" in ended.output
    assert contents(out) == contents(alone[0])
