"""Verbs that take ids refused a dict by id, such as `insert_many` returns."""

from __future__ import annotations

import pytest

import firn


@pytest.mark.parametrize("isolation", ["snapshot", "row"])
def test_a_dict_by_id_stands_for_its_ids(isolation):
    table = firn.connect("memory://").create_table("t", kind="records", isolation=isolation)
    etags = table.insert_many({"a": {}, "b": {}})
    assert list(table.get_many(etags)) == ["a", "b"]
    assert table.delete_many(etags) == ["a", "b"]
    for wrong in ("ab", {1: 2}):
        with pytest.raises(firn.InvalidInputError):
            table.get_many(wrong)
