"""Some places compared names by `casefold`, others by `lower`: a column was dropped in silence."""

from __future__ import annotations

import pytest

import firn
from moments import next_millisecond

PAIRS = [("straße", "strasse"), ("ς", "σ"), ("µ", "μ"), ("ﬁ", "fi")]


@pytest.mark.parametrize("pair", PAIRS)
def test_lake_02_names_that_lower_apart_are_two_columns(pair: tuple[str, str]) -> None:
    table = firn.connect("memory://").create_table("t")
    one, other = pair
    table.append([{one: 1, other: 2}])
    next_millisecond()
    table.append([{one: 3}])
    table.append([{other: 4}])
    assert list(table.schema().names) == [one, other]
    rows = table.scan().to_arrow().to_pylist()
    assert sorted(rows, key=str) == sorted(
        [{one: 1, other: 2}, {one: 3, other: None}, {one: None, other: 4}], key=str
    )
    assert table.scan(where=f'"{one}" = 1 AND "{other}" = 2').count() == 1
    assert table.delete(f'"{one}" = 3').rows_deleted == 1
    table.merge()
    assert sorted(table.scan(columns=[other]).to_arrow()[other].to_pylist(), key=str) == [2, 4]


def test_lake_02_a_name_that_lowers_alike_is_one_column() -> None:
    table = firn.connect("memory://").create_table("t", partition_by=["Σ"])
    table.append([{"Σ": 1}])
    with pytest.raises(firn.SchemaConflictError, match="only by case"):
        table.append([{"σ": 2}])
    assert table.scan(where="σ = 1", columns=["σ"]).to_arrow().to_pylist() == [{"Σ": 1}]


def test_lake_02_names_of_keys_and_orders() -> None:
    table = firn.connect("memory://").create_table("t", key=["straße"], sort_by=["straße"])
    table.upsert([{"straße": 1, "strasse": 5}])
    table.upsert([{"straße": 1, "strasse": 6}])
    assert table.scan().to_arrow().to_pylist() == [{"straße": 1, "strasse": 6}]
    table.update('"straße" = 1', {"strasse": "7"})
    assert table.scan(columns=["strasse"]).to_arrow().to_pylist() == [{"strasse": 7}]
