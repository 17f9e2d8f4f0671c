"""Tables with types that don't fit, changed definitions and generations: read as they were written, and refused by
versions that don't know them."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from make_golden_definitions import GOLDEN, make

import firn
from firn.journal.leaderless.format import codec

ROWS: dict[str, list[dict[str, Any]]] = json.loads((GOLDEN / "rows.json").read_text("utf-8"))
NAMES = [f"{prefix}{name}" for prefix in ("", "w_") for name in ROWS if prefix == "" or name != "second"]


@pytest.fixture(autouse=True)
def conflicts_are_quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", firn.DegradedReadWarning)
        yield


def shown(table: firn.LakeTable) -> list[dict[str, Any]]:
    rows = ({k: v for k, v in row.items() if v is not None} for row in table.scan().to_arrow().to_pylist())
    return sorted(rows, key=str)


@pytest.mark.parametrize("fresh", [False, True])
def test_all_are_read(tmp_path: Path, fresh: bool) -> None:
    if fresh:
        make(tmp_path / "db")
    else:
        shutil.copytree(GOLDEN / "db", tmp_path / "db")
    db = firn.connect(tmp_path / "db", writer="w")
    assert sorted(NAMES) == db.tables()
    for name in NAMES:
        table = db.table(name)
        wanted = sorted(ROWS[name.removeprefix("w_")], key=str)
        assert shown(table) == wanted, name
        table.merge()
        table.sweep(older_than="0s", orphans="0s")
        assert shown(db.table(name)) == wanted, name
    properties = {"codec": "snappy", "orphan_age": "3d"}
    assert [db.table(f"{p}altered").definition().properties for p in ("", "w_")] == [properties, properties]
    assert db.table("second").context.definition.generation == 1


def test_a_version_that_knows_no_definition_refuses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the header's `need`; in writers' catalogs by the format of the definition, which must be the earliest."""
    monkeypatch.setattr(codec, "KNOWN_FEATURES", frozenset())
    db = firn.connect(GOLDEN / "db")
    for name in ("conflicting", "resolved", "altered"):
        with pytest.raises(firn.UnsupportedError, match="needs the feature 'definition'"):
            db.table(name).snapshot()
    union = db._writer_tables.federation.load()
    specs = [
        v.state.tables["w_altered"].spec for v in union.versions.values() if "w_altered" in v.state.tables
    ]
    earliest = min(map(orjson.loads, specs), key=lambda spec: (spec["defined_ms"], spec["writer"]))
    assert earliest["table"]["firn"] == 5 and earliest["table"]["features"] == ["definition"]
    assert orjson.loads((GOLDEN / "db/second/_firn/table.json").read_bytes())["firn"] == 5
