"""CSV lost columns that are empty throughout, and the zeros and pluses that numbers began with."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import firn
from cli_runs import done, run

CSV = """zip,phone,empty,at,zone,n,x,minus,nought
00123,+49123,,2001-01-02 03:04:05.5,2001-01-02T03:04:05.25Z,1,1.5,-7,0
12345,,,2001-01-02 03:04:05,,2,,-0.5,0.25
"""


@pytest.fixture
def db(tmp_path: Path) -> firn.Database:
    found = firn.connect(tmp_path)
    found.create_table("t")
    return found


def append(db: firn.Database, text: str, *args: str) -> Any:
    return done("append", f"{db.url}/t", *args, stdin=text)


def types(db: firn.Database) -> dict[str, str]:
    return dict(db.table("t").snapshot().columns)


def rows(db: firn.Database) -> list[dict[str, Any]]:
    return db.table("t").scan().to_arrow().to_pylist()


def test_nothing_of_a_csv_is_lost(db: firn.Database) -> None:
    found = append(db, CSV)
    assert types(db) == {
        "zip": "VARCHAR",
        "phone": "VARCHAR",
        "empty": "VARCHAR",
        "at": "TIMESTAMP",
        "zone": "TIMESTAMP WITH TIME ZONE",
        "n": "BIGINT",
        "x": "DOUBLE",
        "minus": "DOUBLE",
        "nought": "DOUBLE",
    }
    first, second = sorted(rows(db), key=lambda row: row["n"])
    assert (first["zip"], first["phone"], first["empty"]) == ("00123", "+49123", None)
    assert first["at"] == datetime(2001, 1, 2, 3, 4, 5, 500_000)
    assert (second["zip"], second["phone"]) == ("12345", None)
    assert "new columns: zip VARCHAR, phone VARCHAR, empty VARCHAR, at TIMESTAMP" in found.err
    assert "--column NAME=TYPE" in found.err


def test_the_table_knows_better(db: firn.Database) -> None:
    done("append", f"{db.url}/t", "--column", "zip=BIGINT", "--column", "empty=DATE", stdin=CSV)
    found = append(db, CSV)
    assert (types(db)["zip"], types(db)["empty"]) == ("BIGINT", "DATE")
    assert sorted(row["zip"] for row in rows(db)) == [123, 123, 12345, 12345]
    assert "new columns" not in found.err


def test_types_are_chosen_for_any_format(db: firn.Database, tmp_path: Path) -> None:
    append(db, "a,b,c\n007,1.50,2001-02-03\n", "--column", "a=VARCHAR", "--column", "b=DECIMAL(9,2)")
    assert types(db) == {"a": "VARCHAR", "b": "DECIMAL(9,2)", "c": "DATE"}
    append(db, '{"d": 5, "e": null}', "--column", "d=UTINYINT", "--column", "e=DATE")
    assert {name: types(db)[name] for name in "de"} == {"d": "UTINYINT", "e": "DATE"}


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("zip=DATE", "00123"),
        ("zap=DATE", "no column 'zap'"),
        ("zip=NONSENSE", "NONSENSE"),
        ("zip", "NAME=VALUE"),
    ],
)
def test_a_type_that_cannot_be_is_refused_and_nothing_appended(
    db: firn.Database, column: str, said: str
) -> None:
    found = run("append", f"{db.url}/t", "--column", column, stdin=CSV)
    assert found.code == 2
    assert said in found.err
    assert types(db) == {}


def test_a_dry_run_shows_the_types(db: firn.Database) -> None:
    found = append(db, CSV, "--dry-run")
    assert "would append 2 rows to t" in found.out
    assert "zip VARCHAR" in found.err
    assert types(db) == {}
    json = done("append", f"{db.url}/t", "--dry-run", "--json", stdin=CSV).json
    assert json["dry_run"] is True
    assert json["new_columns"]["zip"] == "VARCHAR"
    assert append(db, CSV, "--json").json["new_columns"]["at"] == "TIMESTAMP"


def test_nanoseconds_stay(db: firn.Database) -> None:
    append(db, "t\n2001-01-02 03:04:05.123456789\n")
    assert types(db) == {"t": "TIMESTAMP_NS"}


def test_json_without_a_value_says_what_it_left_out(db: firn.Database) -> None:
    assert "without a value, so without a type: b" in append(db, '{"a": 1, "b": null}').err


def test_leading_zeros_of_ids_stay_in_record_tables_and_keyed_tables(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    db.create_table("r", kind="records")
    (tmp_path / "r.csv").write_text("zip,n\n00123,1\n")
    done("records", "load", f"{db.url}/r", tmp_path / "r.csv", "--id", "zip")
    assert [row["_id"] for row in db.table("r").scan()] == ["00123"]
    keyed = db.create_table("k", kind="keyed")
    (tmp_path / "k.csv").write_text("key,value\n7,8\n")
    done("keyed", "load", f"{db.url}/k", tmp_path / "k.csv")
    assert keyed.reader().get(b"7") == b"8"
