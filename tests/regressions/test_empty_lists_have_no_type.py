"""Rows whose lists were all empty were refused, though the table knew the column's type."""

import pytest

import firn


def test_empty_lists_take_the_tables_type() -> None:
    table = firn.connect("memory://").create_table("t", schema={"id": "BIGINT", "tags": "VARCHAR[]"})
    table.append([{"id": 1, "tags": []}, {"id": 2, "tags": None}])
    assert [row["tags"] for row in table.scan().to_arrow().to_pylist()] == [[], None]


def test_empty_lists_of_a_new_column_ask_for_a_type() -> None:
    table = firn.connect("memory://").create_table("t")
    with pytest.raises(firn.InvalidInputError, match=r"'tags'.*tells its type"):
        table.append([{"id": 1, "tags": []}])
    assert list(table.bucket.list("t/_data/").objects) == []
