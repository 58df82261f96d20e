"""Errors as pages, for people who came with a browser; programs get JSON."""

from __future__ import annotations

from html import escape
from http import HTTPStatus

from genius.serve.errors import ApiError

_PAGE = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <title>{title} · genius</title>
  <link rel="icon" href="/page/icon.svg" type="image/svg+xml">
  <link rel="stylesheet" href="/page/style.css">
</head>
<body>
  <header class="top">
    <a class="brand" href="/"><img src="/page/icon.svg" alt="" width="26" height="26">genius</a>
  </header>
  <main class="error-page">
    <h1>{title}</h1>
    <p>{message}</p>
    <p><a class="go" href="/">Search the collection</a></p>
  </main>
</body>
</html>
"""


def render_error(error: ApiError, accept: str) -> tuple[bytes, str]:
    """The body of an answer and its media type: a page for whoever accepts one, as browsers do, else JSON."""
    if "text/html" in accept.lower():
        return error_page(error), "text/html; charset=utf-8"
    return error.body(), "application/json"


def error_page(error: ApiError) -> bytes:
    """A page that says what is wrong, and leads to the search."""
    message = error.message[:1].upper() + error.message[1:].rstrip(".") + "."
    title = HTTPStatus(error.status).phrase.capitalize()
    return _PAGE.format(title=escape(title), message=escape(message)).encode()
