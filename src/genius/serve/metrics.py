"""What a service counts, for Prometheus; several workers add up."""

from __future__ import annotations

import os

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which the workers of a service know the folder where they count together."""
MEDIA_TYPE = CONTENT_TYPE_LATEST

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The counters of one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        own = self._registry
        self._requests = Counter(
            "genius_requests", "Requests that were answered.", ("method", "route", "status"), registry=own
        )
        self._seconds = Histogram(
            "genius_request_seconds", "From request to answer.", ("route",), registry=own, buckets=_SECONDS
        )
        self._batches = Histogram(
            "genius_batch_size", "Searches that were done together.", registry=own, buckets=_SIZES
        )
        self._waiting = Gauge(
            "genius_waiting", "Searches that wait.", registry=own, multiprocess_mode="livesum"
        )
        self._items = Gauge(
            "genius_items", "Items in the index.", registry=own, multiprocess_mode="livemostrecent"
        )
        self._version = Gauge(
            "genius_index_version",
            "Goes up with every change.",
            registry=own,
            multiprocess_mode="livemostrecent",
        )

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        known = method if method in ("GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH") else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def batch(self, size: int) -> None:
        """Count a batch."""
        self._batches.observe(size)

    def waiting(self, count: int) -> None:
        """Say how many searches wait."""
        self._waiting.set(count)

    def written(self, items: int, version: int) -> bytes:
        """All counters in Prometheus's text."""
        self._items.set(items)
        self._version.set(version)
        if SHARED not in os.environ:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)
