"""Builds an index on a cluster and kills itself at some news of its workers; test_ray_index starts it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from genius.cluster.connection import connected
from tests.cluster.ray_builds import ChaoticWorkers, build_on


def main(address: str, home: Path, out: Path, moment: int) -> None:
    with connected(address) as ray:
        build_on(ray, home, out, lambda workers: ChaoticWorkers.at(workers, {moment: kill_self}))


def kill_self(workers: ChaoticWorkers) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
