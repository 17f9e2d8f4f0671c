"""The stores that `bench.records` works on: memory, a directory, and S3, alone and with latency."""

from __future__ import annotations

import itertools
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.slow_store import server_program, slow_store
from firn.bucket import open_bucket, split_url

MEMORY, DIRECTORY, S3 = "memory", "directory", "S3"


@dataclass(frozen=True)
class Place:
    """A store. `filling` are the options by which it answers at once, where those of `options` have it wait."""

    name: str
    root: str
    options: Mapping[str, Any] = field(default_factory=dict)
    filling: Mapping[str, Any] = field(default_factory=dict)
    latency_s: float = 0.0
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def new(self) -> str:
        """The URL of a database that nobody has used."""
        return f"{self.root}/db{next(self._numbers)}"

    def connect(self, url: str, *, fill: bool = False) -> Any:
        """A process of its own, as far as Firn is concerned."""
        import firn

        return firn.connect(url, options=dict(self.filling if fill else self.options))


def places(
    names: Sequence[str],
    latencies_ms: Sequence[float],
    url: str | None,
    options: Mapping[str, str],
    notes: list[str],
) -> Iterator[Place]:
    """The stores that were asked for, one at a time; each ends when the next is taken.

    S3 is versitygw on this machine: its latencies are those of a proxy, without one it is asked itself. `url` is a
    place more, which is as far away as it is; what was put there is deleted.
    """
    if MEMORY in names:
        yield Place(MEMORY, f"memory://bench-{time.monotonic_ns()}")
    if DIRECTORY in names:
        with tempfile.TemporaryDirectory() as root:
            yield Place(DIRECTORY, root)
    if S3 in names and server_program() is None:
        notes.append("S3 was left out: versitygw is missing (tests/stores/install.py).")
    elif S3 in names:
        for latency_ms in latencies_ms:
            with slow_store(latency_ms / 1000) as store:
                direct = {**store.firn_options, "endpoint": store.direct}
                name = f"{S3} + {latency_ms:g} ms" if latency_ms else S3
                through = store.firn_options if latency_ms else direct
                yield Place(name, store.url, through, direct, latency_ms / 1000)
    if url is not None:
        given = url.rstrip("/")
        place = Place(given, f"{given}/bench-{uuid.uuid4().hex[:12]}", options, options)
        try:
            yield place
        finally:
            _erase(place)


def _erase(place: Place) -> None:
    root, prefix = split_url(place.root)
    bucket = open_bucket(root, options=dict(place.options))
    bucket.delete_many([info.key for info in bucket.list(f"{prefix}/" if prefix else "").objects])
