"""A connection that met several writers at once read the database's name in each of their threads."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

import firn
from firn.bucket.base import Blob


def test_the_name_is_read_once_however_many_writers_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for writer in ("a", "b", "c"):
        db = firn.connect("memory://name-is-read-once/prod", writer=writer)
        db.create_table(f"of-{writer}", journal="writer")
    reader = firn.connect("memory://name-is-read-once/prod")
    get, read = reader.bucket.get, []
    others = threading.Barrier(2)

    def meeting(key: str) -> Blob:
        if key.endswith("database.json"):
            read.append(key)
            with suppress(threading.BrokenBarrierError):  # nobody else came
                others.wait(timeout=0.5)
        return get(key)

    monkeypatch.setattr(reader.bucket, "get", meeting)
    assert [w.name for w in reader.writers()] == ["a", "b", "c"]
    assert read == ["prod/_firn/database.json"]
