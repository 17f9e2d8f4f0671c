"""One late writer whose types didn't fit hid a table's rows, as columns were ordered by writers' names; and types of
files that were gone went on counting."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

import firn
from firn.lake.table import LakeTable
from moments import append_late


@pytest.fixture(autouse=True)
def conflicts_are_quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", firn.DegradedReadWarning)
        yield


@pytest.fixture
def url() -> str:
    return f"memory://{uuid4().hex}"


def late(url: str, **properties: str) -> tuple[LakeTable, LakeTable]:
    """`zed` and `abe`, who knows the table from when it had no columns."""
    zed = firn.connect(url, writer="zed").create_table("t", journal="writer", properties=properties)
    abe = firn.connect(url, writer="abe").table("t")
    abe.journal.known()
    zed.append([{"c": n} for n in range(5)])
    append_late(abe, [{"c": "oops"}])
    return zed, abe


def rows(table: LakeTable, **scan: Any) -> list[dict[str, Any]]:
    found = table.scan(**scan).to_arrow().to_pylist()
    return sorted(({k: v for k, v in row.items() if v is not None} for row in found), key=str)


ZEDS = [{"c": n} for n in range(5)]


@pytest.mark.parametrize("properties", [{}, {"on_conflict": "skip-file"}])
def test_writer_01_the_first_one_keeps_the_column(url: str, properties: dict[str, str]) -> None:
    zed, abe = late(url, **properties)
    for table in (zed, abe, firn.connect(url).table("t")):
        assert rows(table) == sorted([*ZEDS, {"c~varchar": "oops"}], key=str)
        assert rows(table, where="c >= 3") == [{"c": 3}, {"c": 4}]
        assert rows(table, where="\"c~varchar\" = 'oops'") == [{"c~varchar": "oops"}]
    zed.append([{"c": 5}])
    zed.merge()
    abe.merge()
    assert rows(zed) == sorted([*ZEDS, {"c": 5}, {"c~varchar": "oops"}], key=str)


def test_writer_01_types_of_removed_files_count_no_more(url: str) -> None:
    zed, abe = late(url)
    abe.delete("\"c~varchar\" = 'oops'")
    assert rows(zed) == ZEDS and list(zed.snapshot().columns) == ["c"]
    zed.append([{"c": 5}])
    assert rows(firn.connect(url).table("t")) == [*ZEDS, {"c": 5}]


def test_writer_01_a_soft_delete_means_the_files_own_columns(url: str) -> None:
    zed, abe = late(url)
    abe.append([{"c": "later"}, {"c": "oops"}])
    assert abe.delete("\"c~varchar\" = 'oops'").files_marked == 1
    assert zed.delete("c = 3 OR \"c~varchar\" = 'x'").files_marked == 1
    left = sorted([*({"c": n} for n in (0, 1, 2, 4)), {"c~varchar": "later"}], key=str)
    assert rows(zed) == left and zed.scan().count() == 5
    abe.delete("c IS NULL AND \"c~varchar\" = 'never'")
    assert rows(zed) == left
    abe.merge()
    zed.merge()
    assert rows(zed) == left and not any(f.deletes for f in zed.snapshot().files)


def test_writer_01_who_has_the_column_stays_after_a_rebuild(url: str) -> None:
    late(url)
    for writer in ("zed", "abe"):
        bucket = firn.connect(url).bucket
        keys = [i.key for i in bucket.list(f"{writer}/").objects]
        bucket.delete_many([key for key in keys if "/transactions/" in key or "/claims/" in key])
        firn.connect(url, writer=writer).rebuild()
    assert rows(firn.connect(url).table("t")) == sorted([*ZEDS, {"c~varchar": "oops"}], key=str)


def test_writer_01_a_transaction_knows_its_own_columns(url: str) -> None:
    zed, _ = late(url)
    db = firn.connect(url, writer="zed")
    with db.writer_transaction() as tx:
        tx.append("t", [{"d": 1}])
        tx.append("t", [{"d": 2, "e": "x"}])
    assert list(zed.snapshot().columns) == ["c", "d", "e", "c~varchar"]
