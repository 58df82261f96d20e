"""Settings and limits of a service."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from genius.errors import InputError

MEGABYTE = 1 << 20

# Limits of one request, the same for every service; its OpenAPI description names them.
MAX_ITEMS = 256

LOOPBACK = ("127.0.0.1", "::1", "localhost")
TOKEN_VARIABLE = "GENIUS_TOKEN"


def clean_token(token: str) -> str:
    """A token without the line break that often ends its file.

    Raises InputError for a token that no HTTP header can hold.
    """
    token = token.strip()
    if not (token.isascii() and token.isprintable()):
        raise InputError("a token is some plain letters and digits")
    return token


@dataclass(frozen=True)
class Limits:
    """What a service accepts at most; it answers anything beyond with an error.

    Attributes:
        body: bytes of a request's body.
        bodies: bytes of all bodies held at a time.
        pixels: pixels of an image in a request.
        requests: requests worked on at a time.
        queue: searches that may wait.
        batch: searches done together; 1 does one after another.
        seconds: time to answer a request.
        filter_seconds: time to evaluate a filter.
        body_seconds: time for a client to send a request's body.
        head_seconds: time for a client to send a request's head.
        answer_seconds: time for a client to read its answer.
        connections: open connections.
        thumbnails: bytes of thumbnails kept in memory.
        thumbnail_files: bytes of thumbnails kept in the user's cache folder; 0 keeps none.
        stop_seconds: time for the answers that are still due when the service is stopped.
    """

    body: int = 32 * MEGABYTE
    bodies: int = 256 * MEGABYTE
    pixels: int = 50_000_000
    requests: int = 256
    queue: int = 128
    batch: int = 32
    seconds: float = 30.0
    filter_seconds: float = 10.0
    body_seconds: float = 30.0
    head_seconds: float = 10.0
    answer_seconds: float = 60.0
    connections: int = 1024
    thumbnails: int = 64 * MEGABYTE
    thumbnail_files: int = 1024 * MEGABYTE
    stop_seconds: int = 30


@dataclass(frozen=True)
class Settings:
    """What a service serves, where, and to whom.

    Attributes:
        index: the index's folder.
        model: its model, if that was moved.
        host: the address to listen at.
        port: the port; 0 picks a free one.
        workers: the number of processes that share the port.
        token: the token that requests must carry; None lets everybody in.
        read_only: whether changing items is refused.
        shared_folder: where several workers count together and lock each other out of writing.
        allowed_names: more host names that a service on loopback without a token answers to.
        access_log: whether each request is a line on standard output.
        paths: whether whoever asks for an item learns where its image is on this machine.
        limits: what it accepts at most.
    """

    index: Path
    model: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    token: str | None = field(default=None, repr=False)
    read_only: bool = False
    shared_folder: Path | None = None
    allowed_names: tuple[str, ...] = ()
    access_log: bool = False
    paths: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError(f"a service needs at least one worker, not {self.workers}")
        if self.token is not None:
            object.__setattr__(self, "token", clean_token(self.token))
            if not self.token:
                raise InputError("a token is some plain letters and digits, and not empty")

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return self.host.lower() in LOOPBACK
        return (getattr(address, "ipv4_mapped", None) or address).is_loopback

    @property
    def hosts(self) -> frozenset[str] | None:
        """The host names that the service answers to, or None for any.

        A page of another site could reach a service on loopback through a host name of its own that points
        there (DNS rebinding); so without a token, the service only answers to its own names.
        """
        if self.token is not None or not self.loopback:
            return None
        return frozenset((*LOOPBACK, *(name.lower() for name in (self.host, *self.allowed_names))))
