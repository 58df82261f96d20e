from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
import torch

from genius.errors import GeniusError, MismatchError
from genius.train import checkpoint
from genius.train.loop import LoopSettings, learning_rate, train
from tests.train.processes import run_and_kill
from tests.train.quadratic import SEED, SETTINGS, Quadratic, run

ROOT = Path(__file__).parents[2]


def curve(folder: Path) -> dict[int, float]:
    """The loss of every step, by the log."""
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    losses = [line for line in lines if "loss" in line]
    assert [line["step"] for line in losses] == list(range(1, len(losses) + 1))  # every step once
    return {line["step"]: line["loss"] for line in losses}


def test_training_learns_and_leaves_the_best_weights(tmp_path: Path) -> None:
    scores, weights = run(tmp_path)
    losses = curve(tmp_path)
    assert len(losses) == SETTINGS.steps
    assert sum(list(losses.values())[-5:]) < 0.5 * sum(list(losses.values())[:5])
    again = Quadratic()
    again.network.load_state_dict(weights)
    again.network.eval()
    with torch.no_grad():
        assert again.validate() == pytest.approx(scores)


def test_called_again_it_only_loads_the_result(tmp_path: Path) -> None:
    first, weights = run(tmp_path)
    before = (tmp_path / "log.jsonl").read_text()
    second, same = run(tmp_path)
    assert first == second
    assert all(torch.equal(weights[name], same[name]) for name in weights)
    assert (tmp_path / "log.jsonl").read_text() == before


@pytest.mark.long
def test_killed_at_random_steps_it_resumes_with_the_same_curve(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    _, expected = run(tmp_path / "unbroken")
    torch.set_num_threads(threads)
    moments = random.Random(0)
    for _ in range(10):
        goal = moments.randint(1, SETTINGS.steps)
        kill_after(tmp_path / "broken", goal)
    subprocess.run(
        [sys.executable, "-m", "tests.train.quadratic", str(tmp_path / "broken")], check=True, cwd=ROOT
    )
    assert curve(tmp_path / "broken") == curve(tmp_path / "unbroken")
    stage = Quadratic()
    checkpoint.load(tmp_path / "broken/best", stage.network)
    assert all(torch.equal(value, expected[name]) for name, value in stage.network.state_dict().items())


def kill_after(folder: Path, step: int) -> None:
    """Run the program in a process that is killed once its log has reached a step, if it gets there."""
    ended = run_and_kill(
        "tests.train.quadratic", folder, step=step, prepare="import torch; torch.set_num_threads(1)"
    )
    assert ended in (0, -signal.SIGKILL)


@pytest.mark.long
def test_two_processes_take_the_steps_of_one(tmp_path: Path) -> None:
    """(Without dropout, which differs by process.)"""
    code = """
import sys; sys.path.insert(0, '.')
import torch
from pathlib import Path
import tests.train.quadratic as quadratic
from genius.train import distributed
distributed.init()
torch.set_num_threads(1)
original = quadratic.Quadratic.__init__
def without_dropout(self):
    original(self)
    self.network[1].p = 0.0
quadratic.Quadratic.__init__ = without_dropout
quadratic.run(Path(sys.argv[1]))
"""
    script = tmp_path / "script.py"
    script.write_text(code)
    alone, together = tmp_path / "alone", tmp_path / "together"
    subprocess.run([sys.executable, str(script), str(alone)], check=True, cwd=ROOT)
    launcher = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        "29611",
    ]
    subprocess.run(
        [*launcher, str(script), str(together)], check=True, cwd=ROOT, capture_output=True, timeout=120
    )
    expected, losses = curve(alone), curve(together)
    assert losses.keys() == expected.keys()
    assert list(losses.values()) == pytest.approx(list(expected.values()), rel=1e-4)


def test_the_rate_rises_and_falls() -> None:
    settings = LoopSettings(steps=100, warm_up=10, learning_rate=1.0, final_rate=0.1)
    rates = [learning_rate(settings, step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == max(rates)
    assert rates[-1] == pytest.approx(0.1, abs=0.01)
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_some_parameters_learn_at_another_rate(tmp_path: Path) -> None:
    """The first step of AdamW is as long as the rate, whatever the gradient."""
    stage = Quadratic()
    before = {name: value.clone() for name, value in stage.network.named_parameters()}
    settings = LoopSettings(steps=1, learning_rate=1e-3, weight_decay=0, warm_up=0, average=0, clip=0)
    train(stage, settings, tmp_path, seed=SEED, rates={"0.": 5e-2})
    for name, value in stage.network.named_parameters():
        step = (value.detach() - before[name].detach()).abs().max()
        assert float(step) == pytest.approx(5e-2 if name.startswith("0.") else 1e-3, rel=1e-2), name


def test_stopped_before_its_first_validation_it_resumes(tmp_path: Path) -> None:
    class Stopped(Quadratic):
        def loss(self, step: int, part: int) -> torch.Tensor:
            if step == 7:
                raise KeyboardInterrupt
            return super().loss(step, part)

    settings = LoopSettings(steps=12, validate_every=10, save_every=5)
    with pytest.raises(KeyboardInterrupt):
        train(Stopped(), settings, tmp_path / "stopped", seed=SEED)
    train(Quadratic(), settings, tmp_path / "stopped", seed=SEED)
    train(Quadratic(), settings, tmp_path / "unbroken", seed=SEED)
    assert curve(tmp_path / "stopped") == curve(tmp_path / "unbroken")


def test_patience_stops_early(tmp_path: Path) -> None:
    class Hopeless(Quadratic):
        def validate(self) -> dict[str, float]:
            return {"score": 0.0}

    train(Hopeless(), LoopSettings(steps=100, validate_every=5, patience=2), tmp_path, seed=SEED)
    assert len(curve(tmp_path)) == 15  # the first validation is the best, two more are not better


@pytest.mark.parametrize(
    ("broken_from", "cause"),
    [(0, "at step 1: the loss is nan; no weight had changed yet, so look at the features"),
     (3, "at step 4: the loss is nan; lower the learning rate or clip gradients")],
)  # fmt: skip
def test_a_loss_that_breaks_down_is_an_error(broken_from: int, cause: str, tmp_path: Path) -> None:
    class Broken(Quadratic):
        def loss(self, step: int, part: int) -> torch.Tensor:
            return super().loss(step, part) * (float("nan") if step >= broken_from else 1.0)

    with pytest.raises(GeniusError, match=f"training quadratic broke down {cause}"):
        train(Broken(), SETTINGS, tmp_path, seed=SEED)


def test_a_weight_that_is_not_finite_before_training_is_named(tmp_path: Path) -> None:
    stage = Quadratic()
    with torch.no_grad():
        stage.network.get_parameter("2.bias")[1] = float("nan")
    with pytest.raises(GeniusError, match=r"2\.bias was not finite before training, which is a bug"):
        train(stage, SETTINGS, tmp_path, seed=SEED)


def test_a_checkpoint_of_another_network(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(MismatchError, match="belongs to a network of another shape"):
        checkpoint.load(tmp_path / "best", torch.nn.Linear(2, 2))


def test_denormal_numbers_are_zero_in_training_and_nowhere_else(tmp_path: Path) -> None:
    code = """
import torch
from genius.train.loop import flush_denormals, prepare_torch
prepare_torch(0)
def left(): return (torch.full((torch.get_num_threads() << 16,), 1e-30) * 1e-12).count_nonzero().item()
with flush_denormals():
    print(left())
print(torch.set_flush_denormal(True))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    inside, possible = ran.stdout.split()
    if possible == "False":
        pytest.skip("this processor has no such switch")
    assert inside == "0"  # worker threads included
    run(tmp_path / "run")
    assert 2.0**-1074 * 1.0 > 0
