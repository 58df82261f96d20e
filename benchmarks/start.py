"""The time that `import genius` and `genius --help` take: medians of runs in turns.

    python benchmarks/start.py [--rounds 9]

Exits 1 if either takes 0.3 s or more.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from figures import median_seconds
from options import script_parser

BAR_SECONDS = 0.3
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import genius": [sys.executable, "-c", "import genius"],
    "genius --help": [sys.executable, "-c", "from genius.cli import main; main()", "--help"],
}


def main() -> int:
    """Measure and print; the exit code says whether the bar was held."""
    parser = script_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    works = {
        name: partial(subprocess.run, command, check=True, stdout=subprocess.DEVNULL)
        for name, command in COMMANDS.items()
    }
    medians = median_seconds(works, rounds)
    for name, value in medians.items():
        print(f"{name:16} {value:.3f} s")
    return int(max(medians.values()) >= BAR_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
