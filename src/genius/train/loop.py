"""The one training loop, for all stages.

A stage provides its network, the loss of a step and a validation. The loop does the rest: AdamW, warm-up and
cosine, gradient clipping and accumulation, a moving average of the weights, validation, the best checkpoint,
early stopping, a log, and resuming after a kill. Everything random in a step comes from the seed and the
step's number, so a resumed run takes exactly the steps of one that was not interrupted.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch

from genius import progress
from genius.errors import GeniusError
from genius.train import checkpoint, distributed
from genius.train.journal import Journal
from genius.train.pace import Pace


@dataclass(frozen=True)
class LoopSettings:
    """How the network of a stage is trained."""

    steps: int = 1000
    learning_rate: float = 1e-3
    weight_decay: float = 0.05
    warm_up: int = 100
    """Steps in which the learning rate rises."""
    final_rate: float = 0.0
    """Share of the learning rate that is left at the end of the cosine."""
    betas: tuple[float, ...] = (0.9, 0.98)
    epsilon: float = 1e-8
    """Added to AdamW's denominator."""
    clip: float = 1.0
    """Largest norm of a gradient; 0 is off."""
    accumulate: int = 1
    """Batches whose gradients are added up for one step."""
    average: float = 0.998
    """Decay of the moving average of the weights, which is what is validated and kept; 0 is off."""
    validate_first: bool = False
    """Whether the weights that training starts from are validated, too: then it never makes them worse."""
    validate_every: int = 250
    patience: int = 0
    """Validations without a better result after which training stops; 0 is never."""
    save_every: int = 250
    """Steps between the checkpoints that a killed run resumes from."""


class Stage(Protocol):
    """What the loop needs to know of a stage."""

    name: str
    network: torch.nn.Module

    def loss(self, step: int, part: int) -> torch.Tensor:
        """This process's share of the loss of batch `part` of a step; the processes' shares add up."""

    def validate(self) -> dict[str, float]:
        """How good the network is; `score` decides, higher is better."""


@runtime_checkable
class ObservedStage(Protocol):
    """A stage that has more to log at a validation than its scores."""

    def curves(self) -> dict[str, float]:
        """Numbers by name, for the log alone."""


@dataclass
class LoopState:
    """How far a run is."""

    step: int = 0
    best: float | None = None
    best_step: int = 0
    stale: int = 0
    """Validations since the best one."""
    seconds: float = 0.0
    scores: dict[str, float] = field(default_factory=dict)


def train(
    stage: Stage,
    settings: LoopSettings,
    folder: Path,
    *,
    seed: int,
    rates: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Train a stage with checkpoints in `folder`; leaves the network with its best weights.

    `rates` are learning rates other than the settings', for parameters whose names have these prefixes.
    Returns the validation scores of the best weights. Called again after a kill it resumes; called again
    after the end it only loads the result. Raises GeniusError if the loss is not finite.
    """
    prepare_torch(seed)
    optimizer = _optimizer(stage.network, settings, rates or {})
    average = {name: value.detach().clone() for name, value in stage.network.state_dict().items()}
    state = LoopState(**checkpoint.load(folder / "last", stage.network, average, optimizer))
    started = time.monotonic() - state.seconds
    with (
        flush_denormals(),
        contextlib.closing(Journal(folder, state.step)) as journal,
        progress.bar(f"training {stage.name}", total=settings.steps, unit="steps", start=state.step) as bar,
    ):
        pace = Pace(stage.name, settings.steps, settings.validate_every, bar.say)
        if settings.validate_first and state.step == 0:
            _validate(stage, average, state, folder, journal)
        while state.step < settings.steps and not (settings.patience and state.stale >= settings.patience):
            rate = learning_rate(settings, state.step)
            loss = _take_step(stage, settings, optimizer, state.step, rate, seed)
            _update_average(average, stage.network, settings.average, state.step)
            state.step += 1
            state.seconds = time.monotonic() - started
            journal.write(step=state.step, loss=loss, learning_rate=rate, seconds=round(state.seconds, 2))
            bar.advance()
            pace.step(state.step)
            last = state.step == settings.steps
            if last or state.step % settings.validate_every == 0:
                _validate(stage, average, state, folder, journal)
                pace.validation(state.step)
            if last or state.step % settings.save_every == 0:
                checkpoint.save(folder / "last", stage.network, average, optimizer, asdict(state))
    best = checkpoint.load(folder / "best", stage.network)
    return dict(best["scores"])


def prepare_torch(seed: int) -> None:
    """Seed torch, and start its worker threads while denormal numbers are flushed."""
    torch.manual_seed(seed)
    with flush_denormals():
        torch.ones(torch.get_num_threads() << 16).add_(1)  # large enough to start all of them


@contextlib.contextmanager
def flush_denormals() -> Iterator[None]:
    """Treat numbers below 1e-38 as zero: in this thread meanwhile, in threads started meanwhile for good.

    A sharp softmax leaves many of them, and many processors multiply them two hundred times slower. They are
    restored after training, since other code may rely on them.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def learning_rate(settings: LoopSettings, step: int) -> float:
    """The rate of a step: a linear warm-up times half a cosine."""
    warm_up = min(1.0, (step + 1) / max(1, settings.warm_up))
    cosine = 0.5 * (1 + math.cos(math.pi * step / settings.steps))
    return settings.learning_rate * warm_up * (settings.final_rate + (1 - settings.final_rate) * cosine)


def _optimizer(
    network: torch.nn.Module, settings: LoopSettings, rates: Mapping[str, float]
) -> torch.optim.AdamW:
    """AdamW, with no weight decay for vectors (biases, norms); `rate_factor` scales a group's rate."""
    by_rate: dict[float, list[torch.nn.Parameter]] = {settings.learning_rate: []}
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            own = [rate for prefix, rate in rates.items() if name.startswith(prefix)]
            by_rate.setdefault(own[0] if own else settings.learning_rate, []).append(parameter)
    groups: list[dict[str, Any]] = []
    for rate, trained in by_rate.items():
        factor = rate / settings.learning_rate
        matrices, vectors = [p for p in trained if p.ndim > 1], [p for p in trained if p.ndim <= 1]
        groups.append({"params": matrices, "weight_decay": settings.weight_decay, "rate_factor": factor})
        groups.append({"params": vectors, "weight_decay": 0.0, "rate_factor": factor})
    beta1, beta2 = settings.betas
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(beta1, beta2), eps=settings.epsilon)


def _take_step(
    stage: Stage, settings: LoopSettings, optimizer: torch.optim.AdamW, step: int, rate: float, seed: int
) -> float:
    """One step of the optimizer; returns the mean loss of its batches."""
    stage.network.train()
    optimizer.zero_grad(set_to_none=True)
    total = 0.0
    for part in range(settings.accumulate):
        # Dropout, too, is a function of the step alone.
        torch.manual_seed((seed * 1_000_003 + step) * 64 + part * 8 + distributed.rank())
        loss = stage.loss(step, part) / settings.accumulate
        loss.backward()  # type: ignore[no-untyped-call]
        total += distributed.sum_value(loss.detach())
    if not math.isfinite(total):
        raise GeniusError(
            f"training {stage.name} broke down at step {step + 1}: the loss is {total}; "
            f"{_cause_of_breakdown(stage.network, step)}"
        )
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    distributed.sum_gradients(parameters)
    if settings.clip:
        torch.nn.utils.clip_grad_norm_(parameters, settings.clip)
    for group in optimizer.param_groups:
        group["lr"] = rate * group["rate_factor"]
    optimizer.step()
    return total


def _cause_of_breakdown(network: torch.nn.Module, step: int) -> str:
    """Why the loss of a step is not finite, and what to do: the learning rate can do it after one step."""
    if step > 0:
        return "lower the learning rate or clip gradients"
    broken = [name for name, value in network.state_dict().items() if not value.isfinite().all()]
    if broken:
        return f"{broken[0]} was not finite before training, which is a bug: please report it with the recipe"
    return "no weight had changed yet, so look at the features (encode again) and the temperature (raise it)"


def _update_average(
    average: dict[str, torch.Tensor], network: torch.nn.Module, decay: float, step: int
) -> None:
    """Move the average towards the weights, faster in the first steps; without decay it is the weights."""
    share = 1 - min(decay, (step + 1) / (step + 10)) if decay else 1.0
    for name, value in network.state_dict().items():
        if value.is_floating_point():
            average[name].lerp_(value, share)
        else:
            average[name].copy_(value)


def _validate(
    stage: Stage,
    average: dict[str, torch.Tensor],
    state: LoopState,
    folder: Path,
    journal: Journal,
) -> None:
    """Validate the averaged weights, and save them if they are the best so far."""
    current = {name: value.clone() for name, value in stage.network.state_dict().items()}
    stage.network.load_state_dict(average)
    stage.network.eval()
    with torch.no_grad():
        state.scores = stage.validate()
        curves = stage.curves() if isinstance(stage, ObservedStage) else {}
    scores = {f"val_{name}": value for name, value in state.scores.items()}
    journal.write(step=state.step, **scores, **curves)
    if state.best is None or state.scores["score"] > state.best:
        state.best, state.best_step, state.stale = state.scores["score"], state.step, 0
        checkpoint.save(folder / "best", stage.network, {}, None, asdict(state))
    else:
        state.stale += 1
    stage.network.load_state_dict(current)
