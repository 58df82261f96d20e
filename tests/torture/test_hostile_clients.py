"""A share of the scenarios over HTTP, against services of the test suite's own index."""

from __future__ import annotations

from pathlib import Path

import pytest
from torture import requests
from torture.service import PATIENT, SHORT, server_errors

from tests.serving import Running, own_cache, own_index, running, served

__all__ = ["own_cache", "own_index", "running", "served"]


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


@pytest.mark.slow
def test_odd_requests(running: Running) -> None:
    open_port = port_of(running(limits=SHORT, read_only=True))
    trial = requests.clients_trial(
        open_port, port_of(running(limits=SHORT, read_only=True, token=requests.TOKEN)), 50
    )
    for seed in (1, 2):
        outcome = trial(seed)
        assert outcome.failures == []
        assert outcome.count == 50
    assert server_errors(open_port)[1] == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Corrupt EXIF data", "ignore:Truncated File Read", "ignore::Warning:PIL")
def test_hostile_images(running: Running, own_index: Path) -> None:
    trial = requests.images_trial(port_of(running(own_index, limits=PATIENT)))
    for seed in (1, 2):
        outcome = trial(seed)
        assert outcome.failures == []
        assert outcome.count == 10
