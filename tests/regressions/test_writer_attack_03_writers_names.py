"""Where the record of writers was gone, a table got a writer's name; its drop deleted the catalog and the data."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

import firn

KINDS: dict[str, dict[str, Any]] = {
    "lake": {},
    "keyed": {"kind": "keyed"},
    "records": {"kind": "records"},
    "writer": {"journal": "writer"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_writers_name_is_no_tables_though_the_record_is_lost(kind: str) -> None:
    url = f"memory://{uuid4().hex}/db"
    writer = firn.connect(url, writer="w")
    writer.create_table("t", journal="writer").append([{"x": 1}])
    writer.bucket.delete("db/_firn/database.json")
    before = [info.key for info in writer.bucket.list("db/w/").objects]
    other = firn.connect(url, writer="v" if kind == "writer" else None)
    with pytest.raises(firn.TableExistsError):
        other.create_table("w", **KINDS[kind])
    assert [info.key for info in writer.bucket.list("db/w/").objects] == before
    firn.connect(url, writer="w").table("t").append([{"x": 2}])  # which writes the record anew
    with pytest.raises(firn.TableExistsError, match="'w' is a writer"):
        firn.connect(url).create_table("w")
    assert firn.connect(url).table("t").scan().count() == 2


@pytest.mark.parametrize(("kind", "lists"), [("lake", 1), ("keyed", 2), ("records", 2)])
def test_it_costs_no_request(kind: str, lists: int) -> None:
    """A LIST looks for logs; keyed and record tables look for a pointer, or commits, that lost what names them."""
    db = firn.connect("memory://")
    before = db.bucket.counters.as_dict()["list"]
    db.create_table("t", **KINDS[kind])
    assert db.bucket.counters.as_dict()["list"] - before == lists
