"""Keyed tables that each format wrote, committed to the repository, read and written by this version."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from make_golden import GOLDEN

import firn
from firn.keyed.encoding.seqs import NARROW, WIDE, Seqs

FORMATS: dict[str, Seqs] = {"0.1.0": NARROW, "wide-seq": WIDE, "key-types": WIDE}


@pytest.fixture(params=sorted(FORMATS))
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, dict[str, Any], Seqs]:
    root = GOLDEN / "keyed" / request.param
    shutil.copytree(root / "db", tmp_path / "db")
    expected = json.loads((root / "expected.json").read_text("utf-8"))
    return firn.connect(str(tmp_path / "db")), expected, FORMATS[request.param]


def rows(reader: Any) -> list[list[Any]]:
    found = [
        [list(key), row] if isinstance(key, tuple) else [key.decode(), row.decode()]
        for key, row in reader.scan()
    ]
    reader.close()
    plain: list[list[Any]] = json.loads(json.dumps(found, default=str))
    return plain


def test_they_read_as_what_went_in(golden: tuple[Any, dict[str, Any], Seqs]) -> None:
    db, expected, seqs = golden
    plain, typed = db.table("plain", kind="keyed"), db.table("typed", kind="keyed")
    assert rows(plain.reader()) == expected["plain"] and rows(typed.reader()) == expected["typed"]
    assert rows(plain.reader(at="monday")) == expected["monday"]
    assert plain.definition.seqs == typed.definition.seqs == seqs
    assert ("key-types" in typed.definition.features) == ("DECIMAL(38,2)" in typed.definition.key.values())
    assert "key-types" not in plain.definition.features


def test_their_typed_keys_are_found_and_replaced(golden: tuple[Any, dict[str, Any], Seqs]) -> None:
    db, expected, _ = golden
    typed = db.table("typed", kind="keyed")
    keys = [key for key, _ in typed.reader().scan()]
    row = {"flights": -1, "city": "x"}
    with typed.open(compaction=False) as kv:
        assert kv.multi_get(keys) == [row for _, row in expected["typed"]]
        kv.write(dict.fromkeys(keys[1:], row))
        kv.delete(keys[0])
    for _ in range(2):
        assert rows(typed.reader()) == [[key, row] for key, _ in expected["typed"][1:]]
        typed.compact(full=True)


def test_they_go_on_in_their_format(golden: tuple[Any, dict[str, Any], Seqs]) -> None:
    db, expected, seqs = golden
    plain = db.table("plain", kind="keyed")
    version = plain.changes().version
    with plain.open(compaction=False) as kv:
        kv.put(b"new", b"1")
        kv.merge(b"key 001", b"1000")
    after = sorted({**dict(expected["plain"]), "new": "1", "key 001": "1001"}.items())
    assert rows(plain.reader()) == [list(pair) for pair in after]
    plain.load([{"key": b"zz", "value": b"1"}])
    told = plain.changes(version).to_arrow().to_pylist()
    assert [(row["key"], seqs.number(row["_seq"])) for row in told if row["_kind"] == "put"] == [
        (b"new", plain.view().last_l0 - 1),
        (b"zz", plain.view().last_l0),
    ]
    plain.compact(full=True)
    plain.sweep(older_than="0s")
    assert rows(plain.reader()) == [*([list(pair) for pair in after]), ["zz", "1"]]
    assert rows(plain.reader(at="monday")) == expected["monday"]
    copy = plain.clone("copy")
    assert copy.definition.seqs == seqs
    with copy.open(compaction=False) as kv:
        kv.put(b"new", b"2")
        assert kv.get(b"new") == b"2"
