"""How shards are asked, with replicas that die, keep silent and come back, and without Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from genius import __version__
from genius.cluster import ray_shards
from genius.cluster.ray_shards import TRIES, RayShards, ShardReplica, application_name
from genius.cluster.shard_router import Gathered
from genius.errors import DamagedError, GeniusError, InputError, MismatchError, ShardError

FOLDERS = [Path("index/shard-00"), Path("index/shard-01")]


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class GetTimeoutError(RayError, TimeoutError):
    pass


class RayServeException(Exception):
    pass


RAY = SimpleNamespace(
    exceptions=SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError, GetTimeoutError=GetTimeoutError)
)


class FakeHandle:
    """Answers as it is told to, question by question; then always the same."""

    def __init__(self) -> None:
        self.outcomes: list[Any] = []
        self.questions: list[tuple[Any, ...]] = []
        self.ask = SimpleNamespace(remote=self._remote)

    def _remote(self, *question: Any) -> Any:
        self.questions.append(question)
        outcome = self.outcomes.pop(0) if self.outcomes else ("fine", None)
        return SimpleNamespace(result=lambda timeout_s: self._result(outcome))

    def _result(self, outcome: Any) -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@pytest.fixture
def handles(monkeypatch: pytest.MonkeyPatch) -> list[FakeHandle]:
    by_name = {application_name(folder): FakeHandle() for folder in FOLDERS}
    serve = SimpleNamespace(get_app_handle=by_name.__getitem__)
    monkeypatch.setattr(ray_shards, "_serve", lambda: serve)
    monkeypatch.setattr(
        ray_shards, "require", lambda *names: SimpleNamespace(RayServeException=RayServeException)
    )
    return list(by_name.values())


@pytest.fixture
def shards(handles: list[FakeHandle]) -> Iterator[RayShards]:
    with closing(RayShards(RAY, FOLDERS, on_missing="partial")) as opened:
        yield opened


def test_all_shards_get_the_same_question(shards: RayShards, handles: list[FakeHandle]) -> None:
    handles[1].outcomes = [("other", None)]
    assert shards.ask("answer", 1, 2) == Gathered(["fine", "other"])
    assert [handle.questions for handle in handles] == [[("answer", 1, 2)]] * 2
    assert shards.ask_one(1, "answer") == "fine" and len(shards) == 2


def test_a_replica_that_dies_costs_another_try(shards: RayShards, handles: list[FakeHandle]) -> None:
    handles[0].outcomes = [RayError("died")] * (TRIES - 1)
    assert shards.ask("answer") == Gathered(["fine", "fine"])
    assert len(handles[0].questions) == TRIES
    handles[0].outcomes = [RayError("died")] * TRIES
    assert shards.ask("answer") == Gathered(["fine"], ("shard-00",))


@pytest.mark.parametrize("silence", [TimeoutError(), GetTimeoutError(), RayServeException("gone")])
def test_nobody_waits_twice_for_a_shard_that_is_silent(
    shards: RayShards, handles: list[FakeHandle], silence: Exception
) -> None:
    missing = Gathered(["fine"], ("shard-01",))
    handles[1].outcomes = [silence, TimeoutError()]  # the second one is asked in the background
    assert shards.ask("answer") == missing
    assert shards.ask("answer") == missing and len(handles[1].questions) == 2
    with pytest.raises(ShardError, match=r"1 of 2 shards did not answer \(shard-01\)"):
        shards.ask_one(1, "encode_item")
    shards._probes[1] = 0.0, SimpleNamespace(result=lambda timeout_s: ("fine", None))
    assert shards.ask("answer") == Gathered(["fine", "fine"])


def test_a_question_in_the_background_that_fails_is_sent_again(
    shards: RayShards, handles: list[FakeHandle]
) -> None:
    handles[1].outcomes = [TimeoutError(), RayError("died")]
    for _ in range(2):
        assert shards.ask("answer").missing == ("shard-01",)
    assert shards.ask("answer") == Gathered(["fine", "fine"])


def test_errors_of_the_search_are_raised_and_those_of_a_shard_make_it_missing(
    shards: RayShards, handles: list[FakeHandle]
) -> None:
    handles[0].outcomes = [(None, InputError("no such key"))]
    with pytest.raises(InputError, match="no such key"):
        shards.ask("answer")
    handles[0].outcomes = [(None, GeniusError("a segment is damaged (on h)"))]
    assert shards.ask("answer") == Gathered(["fine"], ("shard-00",))
    handles[0].outcomes = [RayTaskError("a bug")]
    with pytest.raises(RayTaskError):
        shards.ask("answer")


def test_all_that_should_answer_do_or_none(handles: list[FakeHandle]) -> None:
    with closing(RayShards(RAY, FOLDERS, on_missing="error")) as strict:
        handles[0].outcomes = [TimeoutError(), TimeoutError()]
        with pytest.raises(ShardError, match=r"1 of 2 shards did not answer \(shard-00\): try again"):
            strict.ask("answer")
        assert strict.ask("answer", on_missing="partial").missing == ("shard-00",)
    with closing(RayShards(RAY, FOLDERS, on_missing="partial")) as lenient:
        for handle in handles:
            handle.outcomes = [TimeoutError(), TimeoutError()]
        with pytest.raises(ShardError, match="2 of 2 shards did not answer"):
            lenient.ask("answer")
        with pytest.raises(ShardError, match="2 of 2 shards did not answer"):
            lenient.ask("answer", on_missing="error")


def test_shards_that_run_already_are_compared(shards: RayShards, handles: list[FakeHandle]) -> None:
    about = {"genius": __version__, "model": "m", "path": str(FOLDERS[0])}
    other = {**about, "path": str(FOLDERS[1]), "genius": "0.0.1"}
    handles[0].outcomes, handles[1].outcomes = [(about, None)], [(other, None)]
    with pytest.raises(MismatchError, match=r"shard-01 is served with the genius 0.0.1, and this is"):
        shards.check("m")
    handles[0].outcomes = [(None, GeniusError("there is no model (on h)"))]
    with pytest.raises(GeniusError, match="there is no model"):
        shards.check("m")


def test_a_replica_answers_with_its_errors(tmp_path: Path) -> None:
    replica = ShardReplica(tmp_path / "nowhere", "photo")
    replica.check_health()  # it is asked, and says what is wrong
    value, error = asyncio.run(replica.ask("about"))
    assert value is None and isinstance(error, InputError) and "there is nothing here" in str(error)
    (tmp_path / "nowhere").mkdir()
    (tmp_path / "nowhere" / "catalogue.sqlite").write_bytes(b"damaged")
    _, error = asyncio.run(replica.ask("about"))
    assert type(error) is GeniusError and not isinstance(error, DamagedError) and "(on " in str(error)
