"""Changes an index while test_readers searches it: `python -m tests.faults.changing_writer INDEX`."""

from __future__ import annotations

import sys
from pathlib import Path

from genius.data.records import Item
from tests.index.made_up_index import open_made_up

ROUNDS = 20


def states() -> list[dict[str, str | None]]:
    """What an index holds after each round: texts by id."""
    by_round: list[dict[str, str | None]] = [{}]
    for number in range(ROUNDS):
        state = {**by_round[-1], f"id {number}": f"text {number}"}
        if number % 3 == 2:  # an item is added and another changed, by the same call
            state[f"id {number - 1}"] = f"changed {number}"
        by_round.append(state)
        if number % 5 == 4:
            by_round.append({id: text for id, text in state.items() if int(id.split()[1]) % 4})
    return by_round


def main(path: Path) -> None:
    with open_made_up(path) as index:
        before: dict[str, str | None] = {}
        for state in states()[1:]:
            if gone := before.keys() - state.keys():
                index.remove(gone)
                index.compact()
            else:
                index.add([Item(id, text) for id, text in state.items() if before.get(id) != text])
            before = state


if __name__ == "__main__":
    main(Path(sys.argv[1]))
