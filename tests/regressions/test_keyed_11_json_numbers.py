"""`json_merge` turned integers past 64 bits into floats, and other numbers into the nearest double."""

from __future__ import annotations

import pytest

from firn.errors import InvalidInputError
from kv_tables import new_table

NUMBERS = [
    "123456789012345678901234567890",
    "-18446744073709551616",
    "18446744073709551615",
    "0.12345678901234567890123",
    "1e400",
    "1E2",
    "7",
]


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_keep_their_digits(number: str) -> None:
    table = new_table(merge_operator="json_merge")
    with table.open(compaction=False) as kv:
        kv.put(b"k", b'{"a":%b,"b":{"c":1}}' % number.encode())
        kv.merge(b"k", b'{"b":{"d":%b}}' % number.encode())
        kv.merge(b"k", b'{"e":[%b]}' % number.encode())
        expected = f'{{"a":{number},"b":{{"c":1,"d":{number}}},"e":[{number}]}}'.encode()
        assert kv.get(b"k") == expected
        table.compact(full=True)
        assert table.reader().get(b"k") == expected


@pytest.mark.parametrize(
    "text", [b"NaN", b'{"a":Infinity,"b":1e5}', b"[" * 600 + b"]" * 600, b"1e", b'"' + b"x" * 20]
)
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with new_table(merge_operator="json_merge").open(compaction=False) as kv:
        with pytest.raises(InvalidInputError):
            kv.put(b"k", text)
        kv.put(b"k", b'{"a":"' + b"[" * 600 + b'"}')
        assert kv.get(b"k") == b'{"a":"' + b"[" * 600 + b'"}'


def test_the_deepest_patches_are_applied() -> None:
    with new_table(merge_operator="json_merge").open(compaction=False) as kv:
        deep = b'{"a":' * 250 + b"1" + b"}" * 250
        kv.put(b"k", deep)
        kv.merge(b"k", deep.replace(b"1", b"2"))
        kv.merge(b"k", deep.replace(b"1", b"3"))
        assert kv.get(b"k") == deep.replace(b"1", b"3")
        kv.compact(full=True)
        assert kv.get(b"k") == deep.replace(b"1", b"3")
