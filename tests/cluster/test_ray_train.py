"""Training on a real cluster: the curve of one process."""

from __future__ import annotations

import functools
import logging
from pathlib import Path
from typing import Any

import pytest

from genius.cluster.connection import Layout
from genius.cluster.ray_train import run_together
from genius.errors import InputError
from tests.train.processes import losses

torch = pytest.importorskip("torch")


def train(folder: Path, broken: Path | None = None) -> None:
    """Train a small stage; the first time, the second process is killed on its way if `broken` is a place to
    remember it."""
    import os
    import signal

    from genius.train import distributed, loop
    from tests.train import quadratic

    distributed.init()
    torch.set_num_threads(1)
    if broken is not None and not broken.exists() and distributed.rank() == 1:
        real = distributed.sum_gradients

        def killing(parameters: Any) -> None:
            if (folder / "log.jsonl").exists() and len(losses(folder)) > 10:
                broken.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            real(parameters)

        distributed.sum_gradients = killing
    stage = quadratic.Quadratic()
    # What is dropped out of a batch is drawn anew in each process.
    stage.network = torch.nn.Sequential(
        *(part for part in stage.network.children() if not isinstance(part, torch.nn.Dropout))
    )
    loop.train(stage, quadratic.SETTINGS, folder, seed=quadratic.SEED)


def train_and_tell(folder: Path) -> None:
    """Train a small stage, and say so as each process of a real training would."""
    from genius.progress import tell

    train(folder)
    tell("it is trained")
    logging.getLogger("genius.train.run").info("written to %s", folder.name)


def test_workers_of_a_cluster_take_the_steps_of_one_process(
    ray: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path / "alone")
    run_together(functools.partial(train_and_tell, tmp_path / "together"), Layout(2, 1), tmp_path / "ray")
    # What one of them says is told here, once.
    said = capfd.readouterr().err.splitlines()
    assert said.count("it is trained") == 1 and said.count("written to together") == 1
    assert losses(tmp_path / "together") == pytest.approx(losses(tmp_path / "alone"), rel=1e-3)


@pytest.mark.long
def test_a_lost_worker_is_started_again_and_the_curve_is_the_same(ray: Any, tmp_path: Path) -> None:
    train(tmp_path / "alone")
    together = functools.partial(train, tmp_path / "together", tmp_path / "broken")
    run_together(together, Layout(2, 1), tmp_path / "ray")
    assert (tmp_path / "broken").exists()
    assert losses(tmp_path / "together") == pytest.approx(losses(tmp_path / "alone"), rel=1e-3)


def refuse() -> None:
    """Find fault with the user's data."""
    raise InputError("the tree has no queries")


def test_what_is_wrong_with_the_data_is_the_same_sentence(ray: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the tree has no queries"):
        run_together(refuse, Layout(1, 1), tmp_path / "ray")
