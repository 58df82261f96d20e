"""`genius serve`: an index as an HTTP service with a web page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from genius.cli.examples import examples
from genius.display import numbered

MissingShard = Literal["partial", "error"]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(
        epilog=examples(
            "genius serve index/ --port 8080 --read-only",
            "genius serve index/ --ray 10.0.0.1:6379 --replicas 2",
        )
    )(serve)


def serve(
    index: Annotated[Path, typer.Argument(help="The index to serve.")],
    host: Annotated[
        str, typer.Option(help="The address to listen at; 0.0.0.0 opens it to the network.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 picks a free one.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="The number of processes that share the port.")] = 1,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="GENIUS_TOKEN",
            help="Refuse requests without this token; others on the machine can see it, unless it comes from "
            "the variable or a file.",
        ),
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="A file with the token.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse to change items.")] = False,
    allow_name: Annotated[
        list[str] | None,
        typer.Option(help="One more host name to answer to, on loopback without a token; repeatable."),
    ] = None,
    access_log: Annotated[
        bool,
        typer.Option("--access-log", help="Print a line for each request: when, who, path, status, time."),
    ] = False,
    paths: Annotated[
        bool,
        typer.Option("--paths", help="Say where image files are on this machine, as the page then shows."),
    ] = False,
    batch: Annotated[int, typer.Option(min=1, help="The most searches done together.")] = 32,
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="The index's model, if it was moved.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Have a Ray cluster search the index's shards: HOST:PORT of the cluster, or auto. Items "
            "can't be changed then.",
        ),
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, help="With --ray, how many processes serve each shard; by default 1.")
    ] = None,
    on_missing_shard: Annotated[
        MissingShard | None,
        typer.Option(
            help="With --ray, what a search does if a shard does not answer: by default a partial answer, "
            "which says so; or an error (503)."
        ),
    ] = None,
) -> None:
    """Serve INDEX: searches, items and codes over HTTP, and a web page to search and explore it."""
    from genius.errors import InputError, require

    for module in ("fastapi", "uvicorn", "prometheus_client", "python_multipart"):
        require(module, "serve", "serving an index")
    from genius.serve.config import TOKEN_VARIABLE, Limits, Settings
    from genius.serve.server import Started
    from genius.serve.server import serve as run

    if token is None and os.environ.get(TOKEN_VARIABLE) == "":
        raise InputError(f"{TOKEN_VARIABLE} is empty: set it to a token, or unset it to let everybody in")
    if token_file is not None:
        try:
            token = token_file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the token: {error}", path=token_file) from None
    settings = Settings(
        index,
        model,
        host=host,
        port=port,
        workers=workers,
        token=token,
        read_only=read_only,
        allowed_names=tuple(allow_name or ()),
        access_log=access_log,
        paths=paths,
        limits=Limits(batch=batch),
    )

    if ray is None and (replicas, on_missing_shard) != (None, None):
        raise InputError("--replicas and --on-missing-shard go with --ray ADDRESS")

    def announce(started: Started) -> None:
        typer.echo(f"{index}: {numbered(started.items, 'item')} at {started.url} (Ctrl-C stops it)")
        if not settings.loopback and settings.token is None:
            rights = "search" if read_only or ray else "search and change"
            message = (
                f"note: everybody who reaches this port can {rights} the index; a token keeps others out"
            )
            typer.secho(message, fg="yellow", err=True)

    if ray is None:
        run(settings, announce)
        return
    from genius.cluster.ray_serve import ShardService, serve_on_cluster

    service = ShardService(ray, replicas or 1, on_missing_shard or "partial")
    serve_on_cluster(settings, service, announce)
