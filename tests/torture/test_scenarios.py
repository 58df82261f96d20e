"""A small share of each scenario of benchmarks/torture; `make torture` runs the rest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from torture import shim
from torture.programme import SCENARIOS
from torture.supervisor import Tally, Worker, missing, scratch_folder

from genius.index import writer


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """One for all scenarios, which saves starting it again and again."""
    with scratch_folder() as folder, Worker(folder, shimmed=not shim.missing()) as worker:
        yield worker


def test_scenarios_leave_the_process_of_other_tests_as_it_is() -> None:
    assert writer.FULL_BLOCK == 1 << 17


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, scenario in SCENARIOS.items() if scenario.share])
def test_a_share_of(name: str, worker: Worker) -> None:
    scenario = SCENARIOS[name]
    if why := missing(scenario):
        pytest.skip(why)
    tally = Tally()
    for seed in range(scenario.share):
        tally.add(worker.run(scenario, seed))
    assert tally.failures == []
    assert tally.count > 0
