"""Hostile requests: generated ones, hostile images over HTTP, and clients that lie or dawdle."""

from __future__ import annotations

import base64
import json
import random
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from torture import images
from torture.scenario import Outcome, Scenario, Trial, seeded
from torture.service import NEEDS, PATIENT, SHORT, WAIT, answer, index_for_services, server_errors, start

EXAMPLES = 10
"""Generated requests of each operation and phase, in a trial."""
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def prepare_schema(folder: Path) -> Trial:
    """A trial is a run of schemathesis with all its phases, with a seed."""
    port = start(index_for_services(folder), limits=PATIENT)

    def trial(seed: int) -> Outcome:
        before, _ = server_errors(port)
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"http://127.0.0.1:{port}/openapi.json"]
        command += ["--phases", "examples,coverage,fuzzing,stateful", "--max-examples", str(EXAMPLES)]
        command += [
            "--seed",
            str(seed),
            "--checks",
            CHECKS,
            "--no-color",
            "--generation-database",
            "none",
            "--request-timeout",
            "600",
        ]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
        after, failed = server_errors(port)
        outcome = Outcome(after - before)
        outcome.expect(not failed, f"{failed} answers in all were errors of the service")
        if done.returncode:
            _, _, found = done.stdout.partition("FAILURES")
            outcome.failures.append(" ".join((found or done.stdout[-1000:]).split())[:1000])
        outcome.seen["runs of all phases"] += 1
        return outcome

    return trial


SCHEMA = Scenario(
    name="generated-requests",
    promise="schemathesis, all phases: no error of the service, no answer that its description does not "
    "have.",
    unit="requests",
    goal=60_000,
    field="rare in the field",
    prepare=prepare_schema,
    seconds=900,
    needs=(*NEEDS, "schemathesis"),
    share=0,
)


# --- images


def prepare_images(folder: Path) -> Trial:
    """A service that is sent hostile images."""
    return images_trial(start(index_for_services(folder), limits=PATIENT))


def images_trial(port: int) -> Trial:
    """A trial sends some hostile images as queries and as items."""

    @seeded
    def trial(dice: random.Random, outcome: Outcome) -> None:
        for _ in range(10):
            name, content = images.hostile(dice)
            image = base64.b64encode(content).decode()
            began = time.process_time()
            if dice.random() < 0.5:
                path, body = "/search", {"image": image, "k": 3}
            else:
                item = {"id": f"hostile {dice.randrange(20)}", "image": image}
                path, body = "/items", {"items": [item]}
            status, said = answer(port, "POST", path, json.dumps(body).encode(), _JSON)
            outcome.count += 1
            outcome.seen[f"answered with {status}"] += 1
            outcome.expect(status < 500, f"{name} to {path}: {status} {said[:200]!r}")
            outcome.expect(b"Traceback" not in said, f"{name} to {path}: a traceback")
            seconds = time.process_time() - began
            outcome.expect(seconds < 2 * images.SECONDS, f"{name} to {path}: took {seconds:.1f} seconds")

    return trial


_JSON = {"Content-Type": "application/json"}
IMAGES = Scenario(
    name="images-over-http",
    promise="The same over HTTP, as queries and as items: an answer or an error of the client's.",
    unit="images",
    goal=10_000,
    field="none published",
    prepare=prepare_images,
    seconds=120,
    needs=NEEDS,
    share=0,
)


# --- clients

IN_A_TRIAL = 200
AT_A_TIME = 40
"""Connections."""
SLOW = 100
"""One of so many clients dawdles."""
TOKEN = "correct horse"
TRICKS = [
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "....//....//etc/passwd",
    "%252e%252e%252fetc%252fpasswd",
    "..%c0%af..%c0%afetc/passwd",
    "/etc/passwd",
    "file:///etc/passwd",
    "C:\\windows\\win.ini",
    "a' OR '1'='1",
    "1; DROP TABLE items",
    "%00",
    "a%00.png",
    "a%0d%0aSet-Cookie:%20x=1",
    "%f0%9f%92%a9",
    "%ff%fe",
    "x" * 5000,
    "~root",
    "${jndi:ldap://x}",
    "{{7*7}}",
]
ROUTES = ["/items/{}", "/items/{}/image", "/page/{}", "/codes/{}", "/albums/{}", "/{}", "//{}", "/facets?{}"]
HOSTS = [
    "127.0.0.1",
    "localhost",
    "evil.example",
    "127.0.0.1.evil.example",
    "",
    "a b",
    "[::1]",
    "127.0.0.1:99999",
]


def prepare_clients(folder: Path) -> Trial:
    """One service that is open to this machine, and one that wants a token."""
    index = index_for_services(folder)
    return clients_trial(start(index, limits=SHORT), start(index, limits=SHORT, token=TOKEN))


def clients_trial(open_port: int, closed_port: int, requests: int = IN_A_TRIAL) -> Trial:
    """A trial sends both services odd requests, many at a time, as some are kept waiting."""

    def trial(seed: int) -> Outcome:
        dice, outcome = random.Random(seed), Outcome()
        if seed % 20 == 19:
            _many(outcome, open_port, 1000)
        clients = []
        for number in range(requests):
            own = random.Random(dice.getrandbits(64))
            closed = dice.random() < 0.4
            if number % SLOW == SLOW - 1:
                clients.append(partial(_slow, open_port, own))
            else:
                clients.append(partial(_raw, closed_port if closed else open_port, own, closed))
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            for one in pool.map(lambda client: client(), clients):
                outcome.add(one)
        status, _ = answer(open_port, "GET", "/health")
        outcome.expect(status == 200, f"afterwards the service says {status}")
        return outcome

    return trial


def _request(dice: random.Random, closed: bool) -> tuple[bytes, bool]:
    """A request with something odd in it, and whether it carries the right token."""
    method = dice.choice(
        ["GET", "GET", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "X" * 300, "get"]
    )
    path = dice.choice(ROUTES).format(dice.choice(TRICKS)).replace(" ", "%20")
    lines = [f"{method} {path} HTTP/{dice.choice(['1.1', '1.1', '1.1', '1.0', '2.0', '9'])}"]
    lines.append(f"Host: {dice.choice(HOSTS)}")
    right = closed and dice.random() < 0.1
    if closed:
        wrong = [
            "",
            "Bearer",
            "Bearer " + TOKEN[:-1],
            "Bearer " + TOKEN + "x",
            "Basic " + TOKEN,
            "bearer\t",
            TOKEN,
        ]
        lines.append(f"Authorization: {'Bearer ' + TOKEN if right else dice.choice(wrong)}")
    body = dice.choice(
        [b"", b"{}", b"{" * 9999, b'{"text": 1e999}', b"\xff\xfe", b'{"text":"' + b"a" * 99999 + b'"}']
    )
    length = dice.choice([len(body), len(body), -1, 10**12, len(body) + 7, 0])
    if dice.random() < 0.2:
        lines.append("Transfer-Encoding: chunked")
        body = dice.choice([b"zz\r\n" + body, b"5\r\nab\r\n0\r\n\r\n", b"0\r\n\r\n", b"fffffffff\r\n" + body])
    else:
        lines.append(f"Content-Length: {length}")
    odd = [
        "Range: bytes=" + "0-1," * 500,
        "X: " + "a" * 60000,
        "Cookie: " + "a=b;" * 1000,
        "Origin: http://evil.example",
    ]
    lines += dice.sample(
        [*odd, "Content-Type: application/json", "Content-Type: text/plain", "Expect: 100-continue"], 2
    )
    return ("\r\n".join([*lines, "Connection: close", "", ""])).encode("latin-1", "replace") + body, right


def _raw(port: int, dice: random.Random, closed: bool) -> Outcome:
    """Send a request as it is, and look at the answer."""
    outcome = Outcome(1)
    content, right = _request(dice, closed)
    label = repr(content[:160])
    said = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT) as connection:
            connection.sendall(content)
            if dice.random() < 0.7:
                connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                said += part
    except TimeoutError:
        outcome.failures.append(f"no answer in {WAIT:.0f} seconds to {label}")
    except OSError:
        outcome.seen["the connection was closed on it"] += 1
    if not said:
        return outcome
    status = int(said.split()[1]) if said.startswith(b"HTTP/1.1 ") else 0
    outcome.seen[f"answered with {status}"] += 1
    outcome.expect(100 <= status < 500 or status in (501, 503, 505, 507), f"{status} to {label}")
    outcome.expect(
        not (closed and not right and 200 <= status < 300 and b"/page" not in content), f"let in: {label}"
    )
    for secret in (b"root:x:", b"traceback", b"set-cookie: x", b"site-packages"):
        outcome.expect(secret not in said.lower(), f"the answer to {label} has {secret!r}")
    return outcome


def _slow(port: int, dice: random.Random) -> Outcome:
    """A client that sends half a request and waits: it is cut off, and others are served meanwhile."""
    outcome = Outcome(1)
    heads = [b"GET / HT", b"POST /search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 500\r\n\r\n{", b""]
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT) as connection:
        connection.sendall(dice.choice(heads))
        status, _ = answer(port, "GET", "/health")
        outcome.expect(status == 200, f"beside a slow client: {status}")
        began = time.monotonic()
        try:
            while connection.recv(65536):
                pass
        except OSError:
            pass
        waited = time.monotonic() - began
        outcome.expect(waited < WAIT / 2, f"a client that dawdles is kept for {waited:.0f} seconds")
    outcome.seen["slow clients were cut off"] += 1
    return outcome


def _many(outcome: Outcome, port: int, count: int) -> None:
    """Many connections at a time: some may be refused, and once they are gone all is well."""
    connections = []
    try:
        for _ in range(count):
            connections.append(socket.create_connection(("127.0.0.1", port), timeout=WAIT))
            connections[-1].sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        answered = sum(connection.recv(100).startswith(b"HTTP/1.1 200") for connection in connections)
    except OSError:
        answered = 0
    finally:
        for connection in connections:
            connection.close()
    outcome.seen[f"of {count} connections at a time answered with 200"] += answered
    outcome.count += 1
    status, _ = answer(port, "GET", "/health")
    outcome.expect(status == 200, f"after {count} connections: {status}")


CLIENTS = Scenario(
    name="hostile-clients",
    promise="Raw requests with path tricks, forged hosts, wrong tokens, lying lengths; slow clients; 1,000 "
    "connections: no error of the service, nobody let in, nothing told.",
    unit="requests",
    goal=40_000,
    field="none published",
    prepare=prepare_clients,
    seconds=300,
    needs=NEEDS,
    share=0,
)
