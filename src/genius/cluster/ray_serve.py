"""`genius serve --ray`: an index as a service whose searches are answered by its shards on a cluster.

The router is the service of the command itself: nothing of Ray listens to HTTP.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from genius.cluster.connection import AUTO, connected
from genius.cluster.ray_shards import SHARD_SECONDS, RayShards, applications
from genius.cluster.shard_router import RoutedIndex
from genius.errors import InputError
from genius.index.index import Index
from genius.index.query import MissingShard
from genius.serve.config import Settings
from genius.serve.server import Started, check_address, serve


@dataclass(frozen=True)
class ShardService:
    """How the shards of an index are served on a cluster.

    Attributes:
        address: `host:port`, or `auto`.
        replicas: of each shard.
        on_missing_shard: what a search does if a shard does not answer and the search itself does not say.
        seconds: how long a shard may take to answer.
    """

    address: str = AUTO
    replicas: int = 1
    on_missing_shard: MissingShard = "partial"
    seconds: float = SHARD_SECONDS

    def __post_init__(self) -> None:
        if self.replicas < 1:
            raise InputError(f"a shard has at least one replica, not {self.replicas}")
        if self.on_missing_shard not in ("partial", "error"):
            raise InputError(
                f"without a shard a search is partial or an error, and not {self.on_missing_shard!r}"
            )
        if self.address.startswith("ray://"):
            raise InputError(
                f"shards are served from a machine of the cluster, and not over {self.address}: start Ray on "
                "this machine, too, and give HOST:PORT"
            )


def serve_on_cluster(
    settings: Settings, service: ShardService, on_start: Callable[[Started], None] = lambda started: None
) -> None:
    """Serve an index whose shards are searched on a cluster, until the process is told to stop.

    Changes are refused: on other machines, the index may be a copy. Raises what `serve` raises, and
    GeniusError for a cluster or a shard that can't be used.
    """
    settings = replace(settings, index=settings.index.absolute(), read_only=True)
    with Index.open(settings.index, settings.model) as index:  # first, to report what is wrong with it
        folders, model, fingerprint = index.shard_folders, index.model.name, index.model.fingerprint
    check_address(settings)  # before shards are started, which takes a while
    with connected(service.address) as ray:
        service = replace(service, address=ray.get_runtime_context().gcs_address)
        with applications(ray, folders, model, service.replicas):
            with contextlib.closing(RayShards(ray, folders, on_missing="error")) as shards:
                shards.check(fingerprint)
            serve(settings, on_start, partial(open_routed, service))


def open_routed(service: ShardService, settings: Settings) -> Index:
    """The index of a service, searched by the shards that run on the cluster."""
    with contextlib.ExitStack() as opened:
        ray = opened.enter_context(connected(service.address))
        index = RoutedIndex.open(settings.index, settings.model)
        shards = RayShards(
            ray, index.shard_folders, on_missing=service.on_missing_shard, seconds=service.seconds
        )
        opened.callback(shards.close)
        return index.routed(shards, opened.pop_all().close)
