"""merge, remove, rewrite, delete, restore, sweep, checkpoint."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import firn
from cli_runs import ROWS, done, flights, run
from firn.cli.maintain import change_line
from firn.cli.terminal import output
from firn.journal.leaderless import LeaderlessJournal
from firn.lake.results import ChangeResult
from firn.runner import LocalRunner


def count(directory: Path) -> int:
    return firn.connect(directory).table("flights").scan().count()


def test_merge(tmp_path: Path) -> None:
    table = flights(tmp_path)
    planned = done("merge", tmp_path / "flights", "--dry-run", "--json").json
    assert (planned["files_removed"], planned["dry_run"], planned["version"]) == (6, True, None)
    assert "dry run" in done("merge", tmp_path / "flights", "--dry-run").out
    found = done("merge", tmp_path / "flights", "--target-size", "1MB", "--json").json
    assert (found["files_removed"], found["files_added"], found["rows_inserted"]) == (6, 3, 0)
    assert found["requests"]["get"] > 0
    assert found["seconds"] >= 0
    assert found["version"] == table.snapshot().version
    assert "nothing to do" in done("merge", tmp_path / "flights").out


def test_merge_of_one_partition_through_a_query(tmp_path: Path) -> None:
    flights(tmp_path)
    query = "SELECT max(date) AS date, sum(delay)::BIGINT AS delay, origin FROM source_files GROUP BY origin"
    done("merge", tmp_path / "flights", "--partition", "date_month=2001-02", "--query", query)
    assert len(firn.connect(tmp_path).table("flights").snapshot().files) == 5
    assert run("merge", tmp_path / "flights", "--partition", "date_month=1999-01").code == 2
    assert run("merge", tmp_path / "flights", "--partition", "february").code == 2
    assert run("merge", tmp_path / "flights", "--query", "SELECT 1 FROM elsewhere").code == 2
    assert run("merge", tmp_path / "flights", "--target-size", "large").code == 2


def test_remove_by_values(tmp_path: Path) -> None:
    flights(tmp_path)
    where = "date_month < '2001-03'"
    assert (
        done("remove", tmp_path / "flights", "--where", where, "--dry-run", "--json").json["files_removed"]
        == 4
    )
    assert count(tmp_path) == 6
    assert "4 rows deleted" in done("remove", tmp_path / "flights", "--where", where).out
    assert count(tmp_path) == 2


def test_remove_by_age(tmp_path: Path) -> None:
    flights(tmp_path, retention="365d")
    assert done("remove", tmp_path / "flights", "--older-than", "36500d", "--json").json["version"] is None
    assert (
        done("remove", tmp_path / "flights", "--retention", "--dry-run", "--json").json["files_removed"] == 6
    )
    done("remove", tmp_path / "flights", "--older-than", "90d")
    assert count(tmp_path) == 0


@pytest.mark.parametrize(
    "args", [[], ["--where", "date_month = '1'", "--older-than", "1d"], ["--older-than", "old"]]
)
def test_remove_must_be_told_what(tmp_path: Path, args: list[str]) -> None:
    flights(tmp_path)
    assert run("remove", tmp_path / "flights", *args).code == 2
    assert run("remove", tmp_path / "flights", "--where", "delay > 1").code == 2
    assert run("remove", tmp_path / "flights", "--retention").code == 2  # it has none
    assert count(tmp_path) == 6


def test_rewrite_and_delete(tmp_path: Path) -> None:
    flights(tmp_path)
    planned = done("rewrite", tmp_path / "flights", "origin <> 'DTW'", "--dry-run", "--json").json
    assert planned["dry_run"] and planned["files"] and count(tmp_path) == 6
    found = done("rewrite", tmp_path / "flights", "origin <> 'DTW'", "--json").json
    assert (found["op"], found["rows_deleted"]) == ("rewrite", 3)
    assert done("delete", tmp_path / "flights", "--where", "delay > 18", "--dry-run", "--json").json[
        "dry_run"
    ]
    assert count(tmp_path) == 3
    assert "delete of flights" in done("delete", tmp_path / "flights", "--where", "delay > 18").out
    assert count(tmp_path) == 2
    done("rewrite", tmp_path / "flights", "SELECT * REPLACE (0 AS delay) FROM _rows")
    assert done("scan", tmp_path / "flights", "--where", "delay = 0", "--count").out == "2\n"
    assert run("rewrite", tmp_path / "flights", "nope = 1").code == 2
    assert run("rewrite", tmp_path / "flights", "").code == 2
    assert run("delete", tmp_path / "flights").code == 2


def test_restore(tmp_path: Path) -> None:
    table = flights(tmp_path)
    version = table.snapshot().version
    table.delete("true")
    assert count(tmp_path) == 0
    found = done("restore", tmp_path / "flights", "--at", version, "--json").json
    assert (found["op"], found["rows_inserted"]) == ("restore", len(ROWS))
    assert count(tmp_path) == len(ROWS)
    assert run("restore", tmp_path / "flights").code == 2
    assert run("restore", tmp_path / "flights", "--at", "whenever").code == 2


def test_sweep(tmp_path: Path) -> None:
    table = flights(tmp_path)
    table.merge()
    assert "nothing to delete" in done("sweep", tmp_path / "flights").out  # within the grace
    planned = done("sweep", tmp_path / "flights", "--older-than", "0s", "--dry-run", "--json").json
    assert len(planned["data_files"]) == 6
    text = done("sweep", tmp_path / "flights", "--older-than", "0s", "--dry-run").out
    assert all(path in text for path in planned["data_files"])
    assert "deleted 6 replaced files, 6 logs" in done("sweep", tmp_path / "flights", "--older-than", "0s").out
    assert count(tmp_path) == len(ROWS)
    table.bucket.put("flights/_data/date_month=2001-01/part-a-orphan.parquet", b"x")
    assert "1 orphan" in done("sweep", tmp_path / "flights", "--orphans", "0s").out
    assert run("sweep", tmp_path / "flights", "--older-than", "-1d").code == 2


def test_checkpoint(tmp_path: Path) -> None:
    flights(tmp_path)
    assert done("checkpoint", tmp_path / "flights", "--json").json["logs"] == 6
    assert "6 logs" in done("checkpoint", tmp_path / "flights").out


def test_long_work_shows_its_progress_on_a_terminal_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flights(tmp_path)
    assert done("merge", tmp_path / "flights", "--json").err == ""
    table = flights(tmp_path / "again")
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, width=100)
    monkeypatch.setattr(output, "stderr", lambda: terminal)
    reported: list[tuple[int, int]] = []
    original = LocalRunner.map

    def watched(*args: Any, **options: Any) -> Any:
        report = options["progress"]
        options["progress"] = lambda done, total: (reported.append((done, total)), report(done, total))
        return original(*args, **options)

    monkeypatch.setattr(LocalRunner, "map", watched)
    done("merge", tmp_path / "again" / "flights", "--json")
    assert reported == [(1, 3), (2, 3), (3, 3)]
    assert "merging flights" in shown.getvalue()
    assert len(table.snapshot().files) == 3


def test_a_held_lock_is_4_and_can_be_retried(tmp_path: Path) -> None:
    table = flights(tmp_path, lock_wait="0s")
    with table.journal.exclusive("merge"):
        found = run("merge", tmp_path / "flights", "--json")
    assert found.code == 4
    assert found.json["error"]["kind"] == "lock_held"
    assert done("merge", tmp_path / "flights").code == 0


def test_ctrl_c_in_a_merge_leaves_the_table_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = flights(tmp_path, lock_wait="0s")

    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("firn.lake.maintain.merge.merge_task", interrupt)
        assert run("merge", tmp_path / "flights").code == 130
    assert len(table.snapshot().files) == len(ROWS)
    assert done("merge", tmp_path / "flights", "--json").json["files_added"] == 3


def test_how_to_delete_is_the_journals_to_allow(tmp_path: Path) -> None:
    flights(tmp_path)
    refused = run("delete", tmp_path / "flights", "--where", "delay > 18", "--soft")
    assert refused.code == 7 and "can't keep soft deletes" in refused.err
    done("delete", tmp_path / "flights", "--where", "delay > 18", "--no-soft")
    assert firn.connect(tmp_path).table("flights").scan(where="delay > 18").count() == 0


def stock(directory: Path) -> firn.LakeTable:
    table = firn.connect(directory).create_table("stock", key=["id"])
    table.upsert([{"id": n, "n": 10, "at": "2026-01-01"} for n in range(5)])
    return table


def test_update(tmp_path: Path) -> None:
    table = stock(tmp_path)
    found = done("update", tmp_path / "stock", "-w", "id < 2", "--set", "n = n + 1", "--set", "at='now=1'")
    assert "update of stock: none → 1 file" in found.out and "2 rows updated" in found.out
    assert sorted(
        (row["id"], row["n"], row["at"]) for row in table.scan(where="n = 11").to_arrow().to_pylist()
    ) == [
        (0, 11, "now=1"),
        (1, 11, "now=1"),
    ]
    assert "nothing to do" in done("update", tmp_path / "stock", "-w", "id > 9", "--set", "n=0").out
    assert run("update", tmp_path / "stock", "-w", "true").code == 2
    assert run("update", tmp_path / "stock", "-w", "true", "--set", "id=1").code == 2
    flights(tmp_path)
    assert "6 rows updated" in done("update", tmp_path / "flights", "-w", "true", "--set", "delay=1").out


def test_delete_from_a_table_with_a_key(tmp_path: Path) -> None:
    table = stock(tmp_path)
    assert "would take 2 rows (dry run" in done("delete", tmp_path / "stock", "-w", "id > 2", "--dry-run").out
    assert "2 rows deleted" in done("delete", tmp_path / "stock", "-w", "id > 2").out
    (tmp_path / "gone.csv").write_text("id\n0\n77\n")
    keys = ("delete", tmp_path / "stock", "--keys", tmp_path / "gone.csv", "--keys", "-")
    assert "would take 2 rows" in done(*keys, "--dry-run", stdin='{"id": 1}').out
    assert "keys deleted unseen" in done(*keys, stdin='{"id": 1}').out
    assert [row["id"] for row in table.scan().to_arrow().to_pylist()] == [2]
    for wrong in ([], ["-w", "true", "--keys", "-"], ["--keys", "-", "--soft"]):
        assert run("delete", tmp_path / "stock", *wrong, stdin='{"id": 2}').code == 2
    assert table.scan().count() == 1


def test_other_writers_files_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = flights(tmp_path)
    theirs = table.snapshot().files[0].path
    monkeypatch.setattr(LeaderlessJournal, "owns", lambda journal, path: path != theirs)
    for dry_run in (["--dry-run"], []):
        found = done("delete", tmp_path / "flights", "--where", "true", *dry_run)
        assert "1 file of other writers match too" in found.err
    assert done("delete", tmp_path / "flights", "--where", "true", "--json").json["foreign_files"] == 1


def test_a_soft_delete_is_told_in_a_line() -> None:
    done = ChangeResult("delete", "2", rows_deleted=None, files=("t/_data/x.parquet",), files_marked=1)
    planned = replace(done, version=None, dry_run=True)
    assert change_line("t", done) == "delete of t: 0 files, 0 B → none; a soft delete on 1 file; version 2"
    assert change_line("t", planned) == (
        "delete of t would take 0 files, 0 B, and leave a soft delete on 1 file (dry run: nothing was changed)"
    )


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [("lake", "codec", "snappy"), ("keyed", "flush_ms", 20), ("records", "inline", "1MB")],
)
def test_schema_shows_what_alter_set(tmp_path: Path, kind: Any, name: str, value: Any) -> None:
    firn.connect(tmp_path).create_table("t", kind=kind, properties={name: value})
    fence = ["--fence"] if kind == "keyed" else []
    other = {"codec": "gzip", "flush_ms": "30", "inline": "2MB"}[name]
    done("alter", tmp_path / "t", "--set", f"{name}={other}", *fence)
    assert other in done("schema", tmp_path / "t").out
    done("alter", tmp_path / "t", "--unset", name, *fence)
    assert name not in done("schema", tmp_path / "t").out
