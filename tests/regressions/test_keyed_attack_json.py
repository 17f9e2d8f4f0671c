"""`json_merge` accepted documents that it can't write: reads and compactions of their keys failed ever after."""

from __future__ import annotations

import pytest

from firn.errors import InvalidInputError
from firn.keyed.merge.json_patch import MAX_DEPTH, dump_json, load_json
from kv_tables import new_table


@pytest.mark.parametrize("name", [b"a", b"\\n", b"\\\\", b'\\"', b'\\\\\\"', b"\\u0041", b"{["])
def test_depth_is_counted_behind_any_name(name: bytes) -> None:
    def nested(depth: int) -> bytes:
        return b'{"' + name + b'": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b', "x": 1}'

    assert load_json(dump_json(load_json(nested(MAX_DEPTH)))) == load_json(nested(MAX_DEPTH))
    with pytest.raises(ValueError, match="nested more than"):
        load_json(nested(MAX_DEPTH + 1))


@pytest.mark.parametrize("text", [b'\\"', b"\\n", b"\\\\", b""])
def test_brackets_in_text_are_not_nested(text: bytes) -> None:
    document = b'{"a":"' + text + b"[" * 300 + text + b'","b":"' + b"{" * 300 + b'"}'
    assert dump_json(load_json(document)) == document


@pytest.mark.parametrize("document", [b'{"a":1e999,"b":"\\ud800"}', b'{"a":1e999,"\\ud800":1}'])
def test_what_is_no_text_is_refused_behind_any_number(document: bytes) -> None:
    with pytest.raises(ValueError):
        load_json(document)


def test_a_merge_table_refuses_it_and_goes_on() -> None:
    table = new_table(merge_operator="json_merge")
    deep = b'{"\\n": ' + b"[" * 400 + b"]" * 400 + b', "x": 1}'
    with table.open(compaction=False) as kv:
        kv.put(b"k", b'{"a":1}')
        for bad in (deep, b'{"a":1e999,"b":"\\ud800"}'):
            with pytest.raises(InvalidInputError, match="is not JSON"):
                kv.merge(b"k", bad)
        kv.merge(b"k", b'{"b":1e999}')
        assert kv.get(b"k") == b'{"a":1,"b":1e999}'
