"""Inputs that were taken without a word, or blamed for something else."""

from __future__ import annotations

from pathlib import Path

import pytest

import firn
from cli_runs import run


def test_a_table_cant_be_sorted_by_values_without_an_order() -> None:
    db = firn.connect("memory://")
    for kind in ("STRUCT(a BIGINT)", "BIGINT[]", "MAP(VARCHAR, BIGINT)"):
        with pytest.raises(firn.UnsupportedError, match=r"'s' .*no order\. Sort by other columns"):
            db.create_table("t", schema={"s": kind}, sort_by=["s"])
    late = db.create_table("late", sort_by=["s"])
    with pytest.raises(firn.UnsupportedError, match=r"'s' \(STRUCT\(a BIGINT\)\)"):
        late.append([{"s": {"a": 1}}])
    assert late.scan().count() == 0


def test_an_update_that_fails_shows_no_sql_that_nobody_wrote() -> None:
    t = firn.connect("memory://").create_table("t", key=["id"])
    t.upsert([{"id": 1, "n": 2}])
    with pytest.raises(firn.InvalidInputError) as raised:
        t.update("true", {"n": "n + 'a'"})
    assert "what update sets n to fails" in str(raised.value)
    assert "REPLACE" not in str(raised.value)


def test_names_that_are_given_twice_are_refused(tmp_path: Path) -> None:
    db = firn.connect(str(tmp_path / "p"))
    db.create_table("t", key=["id"]).upsert([{"id": 1, "n": 2}])
    url = str(tmp_path / "p" / "t")
    for words in (
        ["update", url, "--where", "true", "--set", "n=1", "--set", "n=2"],
        ["alter", url, "--set", "codec=zstd", "--set", "codec=snappy"],
        ["alter", url, "--set", "codec=zstd", "--unset", "codec"],
    ):
        told = run(*words)
        assert told.code == 2 and "once" in told.err


def test_a_scan_of_no_column_isnt_no_rows(tmp_path: Path) -> None:
    firn.connect(str(tmp_path / "p")).create_table("t").append([{"n": 2}])
    told = run("scan", str(tmp_path / "p" / "t"), "--columns", "")
    assert told.code == 2 and "names no column" in told.err


def test_a_text_that_is_no_time_is_named_with_its_column(tmp_path: Path) -> None:
    db = firn.connect(str(tmp_path / "p"))
    db.create_table("t", schema={"at": "TIMESTAMP", "day": "DATE"})
    url = str(tmp_path / "p" / "t")
    for column in ("at", "day"):
        told = run("append", url, stdin=f'{{"{column}": "nonsense"}}')
        assert told.code == 2 and f"column '{column}'" in told.err and "'nonsense' isn't one" in told.err
        assert "zone" not in told.err
    assert run("append", url, stdin='{"at": "2001-01-31T08:00:00Z", "day": "2001-01-31"}').code == 0
    assert db.table("t").scan(where="at = '2001-01-31 08:00:00'").count() == 1


def test_mend_blames_no_table_that_isnt_damaged(tmp_path: Path) -> None:
    db = firn.connect(str(tmp_path), writer="w")
    db.create_table("kept", journal="writer")
    with pytest.raises(firn.InvalidInputError, match=r"kept by writers' catalogs.*firn rebuild --writer ID"):
        db.mend_table("kept")
    with pytest.raises(firn.TableNotFoundError, match="no table 'kep'"):
        db.mend_table("kep")
