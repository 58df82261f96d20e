from __future__ import annotations

import pytest

from genius.errors import InputError
from genius.paths import safe_path


@pytest.mark.parametrize(
    ("path", "normalised"),
    [
        ("a.jpg", "a.jpg"),
        ("./a//b/./c.jpg", "a/b/c.jpg"),
        ("a\\b.jpg", "a/b.jpg"),
        (".hidden/a.jpg", ".hidden/a.jpg"),
        ("a:b.jpg", "a:b.jpg"),
    ],
)
def test_paths_below_the_root_are_normalised(path: str, normalised: str) -> None:
    assert safe_path(path) == normalised


@pytest.mark.parametrize(
    "path", ["", ".", "..", "/a", "\\a", "a/../b", "a\\..\\b", "C:\\a", "c:/a", "./C:/a", "C:/"]
)
def test_paths_that_leave_the_root_are_refused(path: str) -> None:
    with pytest.raises(InputError, match="leaves the folder"):
        safe_path(path)


def test_addresses_and_zero_bytes_are_refused() -> None:
    with pytest.raises(InputError, match="is an address: nothing is fetched"):
        safe_path("HTTPS://example.org/a.jpg")
    with pytest.raises(InputError, match="holds a zero byte"):
        safe_path("a\0.jpg")
