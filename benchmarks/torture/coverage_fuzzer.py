"""Fuzzing by coverage, with atheris: `python -m torture.coverage_fuzzer PARSER FOLDER [libFuzzer's options]`.

The inputs begin with those of the parser; what ends in anything but records or an error of ours is put into
FOLDER/found. With `--keep SECONDS` instead of options it searches for so long, and writes the smallest of
the inputs that take paths of their own into the parser's file in the folder corpus.
"""

from __future__ import annotations

import base64
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from torture.orphans import die_with_parent

INSTRUMENTED = (
    *("genius.encode.checkpoints", "genius.encode.pickled_data", "genius.data", "genius.storage"),
    *("genius.index.filters", "genius.search.codes", "pickle", "zipfile", "tarfile", "csv"),
)
"""Modules whose paths count."""
KEPT_BYTES = 24_000
"""Of inputs that a corpus keeps, the smallest ones."""
SLOW = 5.0
"""Seconds of the processor that no input may take."""


def main(name: str, folder: Path, options: list[str]) -> None:
    """Search. Does not return: libFuzzer ends the process."""
    import atheris

    die_with_parent()
    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        from torture.parsers import PARSERS
    from genius.progress import quiet

    quiet()
    parser = next(each for each in PARSERS if each.name == name)
    corpus, found, place = (_made(folder / part) for part in ("corpus", "found", "place"))
    for number, content in enumerate(parser.inputs()):
        (corpus / f"{number:05}").write_bytes(content)
    words = folder / "words"
    words.write_text("".join(f'"{_escaped(word[:60])}"\n' for word in parser.words))

    def once(content: bytes) -> None:
        began = time.process_time()
        parser.accepts(content, place)
        if time.process_time() - began > SLOW:
            raise TimeoutError("an input that takes long")

    limits = ["-timeout=600", "-rss_limit_mb=2048", "-max_len=8192", "-print_final_stats=1"]
    limits += [f"-artifact_prefix={found}/", *([f"-dict={words}"] if parser.words else []), *options]
    atheris.Setup([sys.argv[0], *limits, str(corpus)], once)
    atheris.Fuzz()


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def keep(name: str, folder: Path, seconds: int) -> None:
    """Search for so long, and write the parser's file of inputs."""
    from torture.parsers import CORPUS, PARSERS

    parser = next(each for each in PARSERS if each.name == name)
    command: list[Any] = [sys.executable, "-W", "ignore", "-m", "torture.coverage_fuzzer", name, folder]
    subprocess.run([*command, f"-max_total_time={seconds}"], check=True)
    own, kept, size = set(parser.corpus()), list[bytes](), 0
    for content in sorted((path.read_bytes() for path in (folder / "corpus").iterdir()), key=len):
        if content not in own and (size := size + len(content)) < KEPT_BYTES:
            kept.append(content)
    _made(CORPUS)
    lines = [base64.b64encode(content).decode() for content in sorted(kept, key=lambda c: (len(c), c))]
    (CORPUS / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), "ascii")


if __name__ == "__main__":
    if sys.argv[3] == "--keep":
        keep(sys.argv[1], Path(sys.argv[2]), int(sys.argv[4]))
    else:
        main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
