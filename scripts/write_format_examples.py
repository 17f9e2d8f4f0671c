"""Put the real bytes into docs/format/leaderless-log.md: what Firn writes for one small table's life.

    python scripts/write_format_examples.py

Each block after a line `<!-- bytes: NAME -->` is replaced; a test compares them. Clock, random names and
host are fixed, so that the bytes are the same everywhere.
"""

from __future__ import annotations

import os
import random
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from firn.lake.partition import PartitionSpec

from firn.bucket.base import BytesLike
from firn.journal.leaderless import LeaderlessJournal, layout
from firn.journal.model import Commit, DataFile
from firn.lake.descriptor import Descriptor, create_descriptor, descriptor_key
from firn.testing import SimStore, seeded_entropy

PAGE = Path(__file__).resolve().parents[1] / "docs/format/leaderless-log.md"
BLOCK = re.compile(r"(<!-- bytes: ([a-z0-9-]+) -->\n```\w*\n)(.*?)(\n```\n)", re.DOTALL)

COLUMNS = {"date": "TIMESTAMP", "origin": "VARCHAR", "delay": "BIGINT"}
HOUR_MS = 3_600_000


def examples() -> dict[str, str]:
    """Name → text of the objects that the page shows."""
    with _fixed_names():
        return _life_of_a_table()


def filled(page: str, texts: Mapping[str, str]) -> str:
    """The page with its blocks replaced."""
    return BLOCK.sub(lambda found: found[1] + texts[found[2]] + found[4], page)


class _Recorder(SimStore):
    """A store that remembers every body it was given."""

    def __init__(self) -> None:
        super().__init__(etags="counter", start_ms=1_767_258_000_000)
        self.written: list[tuple[str, bytes]] = []

    def write(self, key: str, data: BytesLike, *, absent: bool = False, match: str | None = None) -> str:
        etag = super().write(key, data, absent=absent, match=match)
        self.written.append((key, bytes(data)))
        return etag

    def bodies(self, key: str) -> list[str]:
        return [body.decode() for name, body in self.written if name == key]


def _life_of_a_table() -> dict[str, str]:
    store = _Recorder()
    bucket = store.bucket()
    spec = PartitionSpec.parse(["month(date)"], COLUMNS)
    definition = Descriptor("flights", columns=COLUMNS, partition=spec, sort_by=("date",))
    create_descriptor(bucket, "prod/flights", definition)
    journal = LeaderlessJournal(bucket, "prod/flights", clock=bucket.client.clock, renew_in_background=False)

    def data_file(month: str, rows: int, delays: tuple[int, int], *, maintenance: bool = False) -> DataFile:
        path = journal.namer(maintenance=maintenance)(f"date_month={month}")
        size = 1000 + 12 * rows
        bucket.put(path, b"")
        stats = {"delay": [*delays, 0], "origin": ["ABE", "YUM", 0]}
        return DataFile(path, size, store.time.now_ms, {"rows": rows, "stats": stats, "spec": spec.id})

    texts = {"table": bucket.get(descriptor_key("prod/flights")).data.decode()}
    append = journal.begin_append()
    january, february = data_file("2001-01", 120, (-31, 180)), data_file("2001-02", 80, (-20, 95))
    store.time.advance(750)
    version = append.commit(Commit("append", [january, february], columns=COLUMNS))
    texts["append"] = bucket.get(f"prod/flights/_log/{version}.jsonl").data.decode()

    store.time.advance(60_000)
    append = journal.begin_append()
    late = data_file("2001-01", 5, (3, 44))
    version = append.commit(Commit("append", [late], columns=COLUMNS, batch_id="web-7/1842"))
    texts["batch-append"] = bucket.get(f"prod/flights/_log/{version}.jsonl").data.decode()
    texts["claim"] = bucket.get(journal.layout.batch_key("web-7/1842")).data.decode()

    store.time.advance(HOUR_MS)
    with journal.exclusive("merge") as session:
        merged = data_file("2001-01", 125, (-31, 180), maintenance=True)
        version = session.publish(Commit("merge", [merged], [january.path, late.path], columns=COLUMNS))
    log_key = f"prod/flights/_log/{version}.jsonl"
    texts["reservation"], texts["merge"] = store.bodies(log_key)
    texts["lock-held"], texts["lock-intent"], texts["lock-free"] = store.bodies(journal.layout.lock_key)

    store.time.advance(2 * HOUR_MS)
    journal.sweep(grace_ms=HOUR_MS, orphan_age_ms=7 * 24 * HOUR_MS, margin=True, dry_run=False)
    texts["cleaned"] = bucket.get(log_key).data.decode()
    texts["sweep"] = bucket.get(journal.layout.horizon_key).data.decode()
    texts["keys"] = "\n".join(store.keys())
    return texts


@contextmanager
def _fixed_names() -> Iterator[None]:
    with (
        seeded_entropy(random.Random(2001)),
        mock.patch.object(layout, "_host", return_value="web-7"),
        mock.patch.object(socket, "gethostname", return_value="web-7"),
        mock.patch.object(os, "getpid", return_value=4711),
    ):
        yield


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8"), examples()), "utf-8")
