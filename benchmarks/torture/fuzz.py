"""Fuzzing of our own parsers: whatever bytes they get, they give records or an error of ours.

With atheris installed, most trials have it search for new paths through the code (`coverage_fuzzer`); the
others, and all without it, mutate inputs here. Either way a seed has the same inputs again.
"""

from __future__ import annotations

import importlib.util
import os
import random
import re
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

from torture.parsers import PARSERS, Parser
from torture.scenario import Outcome, Scenario, Trial, scratch

MUTATED = 2_000
"""Inputs of a trial of our own mutations."""
EXECUTIONS = 20_000
"""Of a trial of atheris."""
OWN = 16
"""One of so many trials has our own mutations."""
GROWTH_KB = 256 << 10
"""Of memory, by which a trial may raise the most that this process ever had."""


def mutated(dice: random.Random, corpus: list[bytes], words: tuple[bytes, ...]) -> bytes:
    """An input that was changed in one place or several."""
    content = bytearray(dice.choice(corpus))
    for _ in range(dice.choice([1, 1, 2, 4, 16])):
        place, kind = dice.randrange(len(content) + 1), dice.randrange(8)
        size = dice.choice([1, 1, 2, 4, 8, 64])
        if kind == 0 and place < len(content):
            content[place] ^= 1 << dice.randrange(8)
        elif kind == 1:
            content[place : place + size] = dice.randbytes(size)
        elif kind == 2:
            del content[place : place + size]
        elif kind == 3:
            content[place:place] = dice.randbytes(size)
        elif kind == 4:
            other = dice.choice(corpus)
            start = dice.randrange(len(other) + 1)
            content[place : place + size] = other[start : start + dice.randint(1, 200)]
        elif kind == 5:
            content[place : place + dice.randint(0, 8)] = dice.choice(
                words or (b"0", b"-1", b"99999999999999999999")
            )
        elif kind == 6:
            number = dice.choice(
                [0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1]
            )
            content[place : place + 8] = number.to_bytes(8, dice.choice(["little", "big"]))[
                : dice.choice([1, 2, 4, 8])
            ]
        else:
            del content[place:]
    return bytes(content)


def prepare(folder: Path, parser: Parser) -> Trial:
    """A trial gives the parser some mutated inputs."""
    corpus = parser.inputs()
    for content in parser.corpus():
        parser.parse(content, scratch(folder))
    searching = importlib.util.find_spec("atheris") is not None

    def trial(seed: int) -> Outcome:
        if searching and seed % OWN:
            return _search(parser, seed, scratch(folder))
        dice, outcome = random.Random(seed), Outcome()
        place, before = scratch(folder), _peak()
        for number in range(MUTATED):
            content = mutated(dice, corpus, parser.words)
            outcome.count += 1
            try:
                outcome.seen["read" if parser.accepts(content, place) else "refused"] += 1
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
                outcome.failures.append(f"execution {number}: {said[:200]}: {content[:300]!r}")
                break
        grown = _peak() - before
        outcome.expect(grown < GROWTH_KB, f"some input took {grown >> 10} MB")
        return outcome

    return trial


def _peak() -> int:
    """The most memory that this process has had, in KB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _search(parser: Parser, seed: int, folder: Path) -> Outcome:
    """Have atheris search from the corpus on, in a process that may die alone."""
    command = [sys.executable, "-W", "ignore", "-m", "torture.coverage_fuzzer", parser.name, str(folder)]
    command += [f"-seed={seed}", f"-runs={EXECUTIONS}"]
    environment = os.environ | {"LD_PRELOAD": ""}
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", env=environment, check=False
    )
    outcome = Outcome()
    executed = re.search(r"stat::number_of_executed_units: *(\d+)", done.stderr)
    outcome.count = int(executed[1]) if executed else 0
    outcome.seen["searches for new paths"] += 1
    peak = re.search(r"stat::peak_rss_mb: *(\d+)", done.stderr)
    outcome.seen["largest memory of a search, MB"] = int(peak[1]) if peak else 0
    if done.returncode:
        inputs = [path.read_bytes() for path in (folder / "found").iterdir()]
        said = re.findall(r"^\S*(?:Error|Exception|ERROR).*$", done.stderr, re.MULTILINE) or [
            done.stderr[-300:]
        ]
        outcome.failures.append(f"{said[0][:300]}: {inputs[0][:300] if inputs else b'no input'!r}")
    return outcome


def scenario(parser: Parser) -> Scenario:
    """The scenario of a parser."""
    return Scenario(
        name=f"fuzz-{parser.name}",
        promise=f"Mutated {parser.name.replace('-', ' ')}: records or an error of ours; no crash, no hang.",
        unit="executions",
        goal=10_000_000,
        field="SQLite: 500 million mutations a day, of its own files",
        prepare=partial(prepare, parser=parser),
        seconds=300,
        needs=parser.needs,
        share=1,
        enough=1800.0,
    )


SCENARIOS = tuple(scenario(parser) for parser in PARSERS)
