from __future__ import annotations

from pathlib import Path

import pytest

from genius.demo.corpus import demo_tree
from genius.demo.emoji import Emoji, read_emoji
from tests.demo.entries import Everything
from tests.demo.made_up import ENTRIES, Registry, made_up_registry


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    return made_up_registry(monkeypatch)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus, built from the made-up packages; don't write into it."""
    with pytest.MonkeyPatch.context() as patch:
        return demo_tree(tmp_path_factory.mktemp("built"), fetch=made_up_registry(patch).fetch)


@pytest.fixture(scope="session")
def emojis() -> dict[str, Emoji]:
    """The made-up emoji by key and by name."""
    made = read_emoji(ENTRIES, Everything())
    return {emoji.key: emoji for emoji in made} | {emoji.name: emoji for emoji in made}
