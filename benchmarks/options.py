"""Command-line options that several scripts share; not a script itself."""

from __future__ import annotations

import argparse
from pathlib import Path

from genius.data.mbeir import Split

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "recipes" / "minibeir.toml"


def script_parser(docstring: str | None) -> argparse.ArgumentParser:
    """A parser whose help shows the docstring of a script as it is written."""
    return argparse.ArgumentParser(
        description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def add_tree(parser: argparse.ArgumentParser) -> None:
    """The option of scripts that read a benchmark."""
    parser.add_argument("--tree", type=Path, required=True, help="a benchmark in M-BEIR's layout")


def add_tree_and_model(parser: argparse.ArgumentParser, model_help: str = "a trained model") -> None:
    """The options of scripts that measure a trained model on a benchmark."""
    add_tree(parser)
    parser.add_argument("--model", type=Path, required=True, help=model_help)


def add_recipe(parser: argparse.ArgumentParser) -> None:
    """The recipe that a script trains by."""
    parser.add_argument("--recipe", type=Path, default=RECIPE, help="default: recipes/minibeir.toml")


def add_sample_size(parser: argparse.ArgumentParser, default: int) -> None:
    """How many queries are searched."""
    parser.add_argument(
        "--queries", type=int, default=default, help=f"of each task, at most; 0 is all (default: {default})"
    )


def add_split(parser: argparse.ArgumentParser) -> None:
    """The options of scripts that search a benchmark: the split, and whether it may be the test split."""
    parser.add_argument("--split", choices=("val", "test"), default="val")
    parser.add_argument("--final", action="store_true", help="allow the test split")
    add_json(parser, "also print a JSON line for each row")


def add_json(parser: argparse.ArgumentParser, help: str = "print JSON instead of text") -> None:
    """The option for output that programs read."""
    parser.add_argument("--json", action="store_true", help=help)


def check_split(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Split:
    """The chosen split. The test split without `--final` ends the script with an error."""
    if options.split == "test" and not options.final:
        parser.error("the test split is used with --final only")
    return "test" if options.split == "test" else "val"
