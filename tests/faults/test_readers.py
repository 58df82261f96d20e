"""Readers while another process writes: every answer is of one version, and versions never go back."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from genius.index.inspect import describe
from tests.faults.changing_writer import states
from tests.index.made_up_index import open_made_up


def test_every_answer_belongs_to_one_version(tmp_path: Path) -> None:
    path, expected = tmp_path / "index", states()
    readers = [open_made_up(path) for _ in range(3)]
    command = [sys.executable, "-m", "tests.faults.changing_writer", str(path)]
    writer = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    seen: list[list[int]] = [[], [], []]
    errors: list[BaseException] = []

    def read(number: int) -> None:
        try:
            while writer.poll() is None:
                hits = readers[number].search("text", k=99, filter={"no": None} if number else None)
                state = {hit.item.id: hit.item.text for hit in hits}
                assert len(state) == len(hits)
                seen[number].append(expected.index(state, seen[number][-1] if seen[number] else 0))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(len(readers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert writer.wait() == 0
    assert not errors
    assert len({state for states in seen for state in states}) > 3  # they did read while it wrote
    for reader in readers:
        assert {hit.item.id: hit.item.text for hit in reader.search("text", k=99)} == expected[-1]
        reader.close()
    describe(path, verify=True)


def test_an_index_can_be_inspected_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "index"
    open_made_up(path).close()
    command = [sys.executable, "-m", "tests.faults.changing_writer", str(path)]
    writer = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    with writer:
        while writer.poll() is None:
            describe(path, verify=True)
            open_made_up(path).close()  # opens all segments anew
    assert writer.returncode == 0
