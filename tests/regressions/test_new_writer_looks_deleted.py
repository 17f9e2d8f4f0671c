"""A reader that listed a new writer's transactions before there were any, and then saw what its second commit had
left, reported that the catalog was deleted."""

from __future__ import annotations

import pytest

import firn
from firn.bucket.base import Listing
from firn.lake.write.append import write


def test_a_writer_that_begins_while_its_catalog_is_looked_at_is_no_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = "memory://begins-meanwhile/prod"
    firn.connect(url, writer="a").create_table("t", journal="writer", schema={"id": "BIGINT"})
    table = firn.connect(url, writer="b").table("t")
    write(
        table.context, [{"id": 0}], table.journal.begin_append().namer
    )  # b is there, and nothing of it is committed
    reader = firn.connect(url, strict=True)
    lists, overtaken = reader.bucket.list, []

    def overtaking(prefix: str, *, after: str | None = None) -> Listing:
        if "/b/" in prefix and "/markers/" in prefix and not overtaken:
            overtaken.append(prefix)
            table.append([{"id": 1}])
            table.delete("true")  # which leaves a marker of revision 2
            table.append([{"id": 2}])
        return lists(prefix, after=after)

    monkeypatch.setattr(reader.bucket, "list", overtaking)
    assert [row["id"] for row in reader.table("t").scan().to_arrow().to_pylist()] == [2]
    assert overtaken
