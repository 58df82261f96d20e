"""Prometheus metrics of the service; several workers add theirs up."""

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

SHARED_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable that tells the workers in which folder to count together."""
MEDIA_TYPE = CONTENT_TYPE_LATEST

_METHODS = ("GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The metrics of one process."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "genius_requests", "Requests answered.", ("method", "route", "status"), registry=registry
        )
        self._seconds = Histogram(
            "genius_request_seconds",
            "Seconds from request to answer.",
            ("route",),
            registry=registry,
            buckets=_SECONDS,
        )
        self._batches = Histogram(
            "genius_batch_size", "Searches done in one batch.", registry=registry, buckets=_SIZES
        )
        self._waiting = Gauge(
            "genius_waiting", "Searches waiting.", registry=registry, multiprocess_mode="livesum"
        )
        self._items = Gauge(
            "genius_items", "Items in the index.", registry=registry, multiprocess_mode="livemostrecent"
        )
        self._version = Gauge(
            "genius_index_version",
            "The index's version; it grows with every change.",
            registry=registry,
            multiprocess_mode="livemostrecent",
        )

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(method if method in _METHODS else "other", route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def count_batch(self, size: int) -> None:
        """Count a batch of searches."""
        self._batches.observe(size)

    def set_waiting(self, count: int) -> None:
        """Set the number of searches that wait."""
        self._waiting.set(count)

    def to_text(self, items: int, version: int) -> bytes:
        """All metrics in Prometheus's text format; of all workers, where there are several."""
        self._items.set(items)
        self._version.set(version)
        if SHARED_FOLDER_VARIABLE not in os.environ:
            return generate_latest(self._registry)
        all_workers = CollectorRegistry()
        MultiProcessCollector(all_workers)  # type: ignore[no-untyped-call]
        return generate_latest(all_workers)
