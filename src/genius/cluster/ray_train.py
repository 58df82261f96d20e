"""`genius train --ray`: the training loop for several processes, on the machines of a Ray cluster.

Ray Train starts the processes and lets them find each other, as torchrun does on one machine; the loop is
that of `genius.train`, with the gradients of one process. Its own checkpoints are what an interrupted run
resumes from: if a worker or a machine is lost, all workers are started again.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from genius.cluster.connection import Layout, connected, lay_out, node_resources
from genius.errors import GeniusError, require
from genius.progress import hand_over, quiet, tell

log = logging.getLogger(__name__)

RESTARTS = 10
"""How often workers are started again after one was lost."""
SHOW_SECONDS = 1.0
"""How soon what the first worker says is shown."""
SENT_SECONDS = 5.0
"""How long a worker waits at its end until all that it said was sent."""


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

    def work(settings: Mapping[str, Any]) -> None:
        ray, sent = require("ray", "ray", "training on a cluster"), list[Any]()
        if train.get_context().get_world_rank() == 0:
            hand_over(lambda line: sent.append(settings["lines"].add.remote(line)))
        else:
            quiet()
        try:
            run()
        finally:
            if sent:
                ray.wait(sent, num_returns=len(sent), timeout=SENT_SECONDS)

    resources = {"CPU": float(layout.cores)} | ({"GPU": layout.gpus} if layout.gpus else {})
    with _shown_lines() as lines:
        torch_train.TorchTrainer(
            work,
            train_loop_config={"lines": lines},
            # A stage may train on the processor or on GPUs, so both kinds of tensors need a backend.
            torch_config=torch_train.TorchConfig(backend="cpu:gloo,cuda:nccl" if layout.gpus else "gloo"),
            scaling_config=train.ScalingConfig(
                num_workers=layout.workers, use_gpu=bool(layout.gpus), resources_per_worker=resources
            ),
            run_config=train.RunConfig(name=name, storage_path=str(storage)),
        ).fit()


class _Lines:
    """An actor that keeps lines until somebody takes them."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        """Keep one more."""
        self._lines.append(line)

    def take(self) -> list[str]:
        """All that were not taken yet."""
        taken, self._lines = self._lines, []
        return taken


@contextlib.contextmanager
def _shown_lines() -> Iterator[Any]:
    """Within, an actor whose lines are told by this process."""
    ray = require("ray", "ray", "training on a cluster")
    lines = ray.remote(_Lines).options(num_cpus=0, max_restarts=-1).remote()
    stop = threading.Event()

    def show() -> None:
        for line in ray.get(lines.take.remote()):
            tell(line)

    def keep_showing() -> None:
        while not stop.wait(SHOW_SECONDS):
            with contextlib.suppress(ray.exceptions.RayError):  # its machine was lost; it starts on another
                show()

    showing = threading.Thread(target=keep_showing, name="showing lines")
    showing.start()
    try:
        yield lines
    finally:
        stop.set()
        showing.join()
        with contextlib.suppress(ray.exceptions.RayError):
            show()
        ray.kill(lines)


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
