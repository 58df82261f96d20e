"""A server that gives prepared answers, each to one connection."""

from __future__ import annotations

import socket
import threading

PATIENCE = 60.0
"""Seconds after which a server to which nobody comes ends with an error, so that no test waits for ever."""


def start_server(answers: list[bytes]) -> tuple[str, threading.Thread]:
    """A server that gives each connection one answer, and closes it."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(PATIENCE)

    def run() -> None:
        with listening:
            for answer in answers:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(answer)

    thread = threading.Thread(target=run)
    thread.start()
    return f"http://127.0.0.1:{listening.getsockname()[1]}", thread


def raw_answer(status: int, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
