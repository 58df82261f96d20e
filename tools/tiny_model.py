"""Train a tiny model in a moment, to try an installation with: `python -m tools.tiny_model FOLDER`.

The model is in FOLDER/model. Its towers are random, so it is good for nothing but trying.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.coded import train_coded, write_home
from tests.miniature import write_miniature


def main(folder: Path) -> None:
    """Write the model below `folder`."""
    folder.mkdir(parents=True)
    tree = write_miniature(folder / "tree")
    print(train_coded(write_home(folder), tree, "model").path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
