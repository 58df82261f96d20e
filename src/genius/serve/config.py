"""How a service is run, and what it takes at the most."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from genius.errors import InputError

MEGABYTE = 1 << 20

# What one request may ask for: the same for every service, and said in its description.
MOST_HITS = 1000
MOST_BEAMS = 1000
MOST_ITEMS = 256
MOST_EXCLUDED = 1000
LONGEST_TEXT = 20_000
LONGEST_ID = 1000
DEEPEST_FILTER = 32

LOOPBACK = ("127.0.0.1", "::1", "localhost")
TOKEN_VARIABLE = "GENIUS_TOKEN"


def plain_token(token: str) -> str:
    """A token without the line that often ends its file. Raises InputError for what no header can hold."""
    token = token.strip()
    if not (token.isascii() and token.isprintable()):
        raise InputError("a token is some plain letters and digits")
    return token


@dataclass(frozen=True)
class Limits:
    """What a service takes at the most; what is beyond is refused in a sentence.

    Attributes:
        body: bytes of a request's body.
        bodies: bytes of all bodies that are held at a time.
        pixels: of a picture that comes with a request.
        requests: how many are worked on at a time.
        queue: how many searches may wait.
        batch: how many searches are done together; 1 is one after another.
        seconds: until a request is answered that it takes too long.
        filter_seconds: for a filter to be decided.
        body_seconds: for a client to send its request's body,
        head_seconds: and the head before it.
        answer_seconds: for a client to take what it is answered.
        connections: how many may be open.
        thumbnails: bytes of small pictures that are kept in memory.
        stop_seconds: for the answers that are still due when the service is stopped.
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
    stop_seconds: int = 30


@dataclass(frozen=True)
class Settings:
    """A service: what it serves, where, and to whom.

    Attributes:
        index: the index's folder.
        model: its model, if that was moved.
        host: the address that is listened at.
        port: 0 is any that is free.
        workers: processes that share the port.
        token: who does not show it is refused; None lets everybody in.
        read_only: whether items can be changed.
        shared: a folder in which several workers count together and take turns to write.
        names: host names by which a service on loopback without a token may be called, besides its own.
    """

    index: Path
    model: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    token: str | None = field(default=None, repr=False)
    read_only: bool = False
    shared: Path | None = None
    names: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError(f"a service needs at least one worker, not {self.workers}")
        if self.token is not None:
            object.__setattr__(self, "token", plain_token(self.token))
            if not self.token:
                raise InputError("a token is some plain letters and digits, and not empty")

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            found = ipaddress.ip_address(self.host)
        except ValueError:
            return self.host.lower() in LOOPBACK
        return (getattr(found, "ipv4_mapped", None) or found).is_loopback

    @property
    def hosts(self) -> frozenset[str] | None:
        """The names by which it may be called, or None for any.

        A page of another site could reach a service on loopback through a name of its own that it lets point
        there; so without a token, only our names are answered.
        """
        if self.token is not None or not self.loopback:
            return None
        return frozenset((*LOOPBACK, *(name.lower() for name in (self.host, *self.names))))
