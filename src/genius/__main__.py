"""`python -m genius` is the `genius` command."""

from genius.cli import main

main()
