"""`genius train --ray`: the training loop for several processes, on the machines of a Ray cluster.

Ray Train starts the processes and lets them find each other, as torchrun does on one machine; the loop is
that of `genius.train`, with the gradients of one process. Its own checkpoints are what an interrupted run
resumes from: if a worker or a machine is lost, all workers are started again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from genius.cluster.connection import Layout, connected, lay_out, node_resources
from genius.errors import GeniusError, require

log = logging.getLogger(__name__)

RESTARTS = 10
"""How often workers are started again after one was lost."""


def train_on_cluster(
    address: str, run: Callable[[], Any], storage: Path, *, workers: int = 0, gpus_per_worker: float = 0.0
) -> None:
    """Have all workers call `run`, which trains and writes; they are one process group of torch.

    `storage` is a folder that all machines share, for Ray's notes. By default there is one worker per GPU, or
    one per machine. Raises GeniusError if the training fails.
    """
    with connected(address) as ray:
        nodes = node_resources(ray)
        layout = lay_out(nodes, workers or (0 if gpus_per_worker else len(nodes)), gpus_per_worker)
        run_together(run, layout, storage)


def run_together(run: Callable[[], Any], layout: Layout, storage: Path) -> None:
    """The same on the cluster that this process is connected to."""
    ray = require("ray", "ray", "training on a cluster")
    for attempt in range(1 + RESTARTS):
        try:
            _fit(run, layout, storage, f"attempt-{attempt}")
        except ray.train.TrainingFailedError as error:
            causes = list(_causes(error))
            ours = [cause for cause in causes if isinstance(cause, GeniusError)]
            if ours:
                raise ours[0] from None
            if attempt == RESTARTS or not any(map(_is_a_loss, causes)):
                raise
            log.warning("a worker was lost: all are started again, and resume from the last checkpoint")
        else:
            return


def _fit(run: Callable[[], Any], layout: Layout, storage: Path, name: str) -> None:
    train = require("ray.train", "ray", "training on a cluster")
    torch_train = require("ray.train.torch", "ray", "training on a cluster")

    def work() -> None:
        run()

    resources = {"CPU": float(layout.cores)} | ({"GPU": layout.gpus} if layout.gpus else {})
    torch_train.TorchTrainer(
        work,
        # A stage may train on the processor or on GPUs, so both kinds of tensors need a backend.
        torch_config=torch_train.TorchConfig(backend="cpu:gloo,cuda:nccl" if layout.gpus else "gloo"),
        scaling_config=train.ScalingConfig(
            num_workers=layout.workers, use_gpu=bool(layout.gpus), resources_per_worker=resources
        ),
        run_config=train.RunConfig(name=name, storage_path=str(storage)),
    ).fit()


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The errors inside an error of Ray: of its workers, and what they were raised from."""
    seen = [error]
    for inner in seen:
        yield inner
        workers = getattr(inner, "worker_failures", {}).values()
        for cause in (inner.__cause__, inner.__context__, getattr(inner, "cause", None), *workers):
            if isinstance(cause, BaseException) and cause not in seen:
                seen.append(cause)


def _is_a_loss(error: BaseException) -> bool:
    """Whether a worker is gone, and did not raise anything itself."""
    ray = require("ray", "ray", "training on a cluster")
    return isinstance(error, ray.exceptions.RayActorError | ray.exceptions.NodeDiedError)
