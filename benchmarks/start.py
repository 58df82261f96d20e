"""How long `import genius` and `genius --help` take, as medians.

    python benchmarks/start.py [--rounds 9]

Exits 1 if either takes 0.3 s or more.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

BAR_SECONDS = 0.3
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import genius": [sys.executable, "-c", "import genius"],
    "genius --help": [sys.executable, "-c", "from genius.cli import main; main()", "--help"],
}


def seconds(command: list[str]) -> float:
    """The time of one run."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> int:
    """Measure by turns, print, and say by the exit code whether the bar holds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, command in COMMANDS.items():
            times[name].append(seconds(command))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, value in medians.items():
        print(f"{name:16} {value:.3f} s")
    return int(max(medians.values()) >= BAR_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
