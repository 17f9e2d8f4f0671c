"""The table of advice: the library's front and the shell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import firn
from advice import advises
from cli_runs import done, run

FRAME = pd.DataFrame({"device": ["a", "a", "b"], "n": [1, 2, 3]})


@pytest.fixture
def db() -> firn.Database:
    return firn.connect("memory://", writer="w")


def test_a_series_is_appended_by_reset_index(db):
    series = FRAME.groupby("device")["n"].sum()
    table = db.create_table("t")
    with advises("append series.reset_index(), or series.to_frame()", names="Series"):
        table.append(series)
    table.append(series.reset_index())
    table.append(series.to_frame())
    assert table.scan(where="device = 'a'").count() == 2


def test_an_index_gets_a_name_or_is_left_out(db):
    table = db.create_table("t")
    frame = FRAME[["n"]].set_axis(list("xyz"))
    with advises(
        "name it with df.rename_axis('name'), or leave it out with df.reset_index(drop=True)", names="index"
    ):
        table.append(frame)
    table.append(frame.rename_axis("name"))
    table.append(frame.reset_index(drop=True))
    assert table.scan(where="name IS NULL").count() == table.scan(where="name IS NOT NULL").count() == 3


def test_an_index_with_a_columns_name_is_left_out(db):
    table = db.create_table("t")
    frame = FRAME[["n"]].set_index(pd.Index([7, 8, 9], name="n"))
    with advises("rename one, or leave the index out with df.reset_index(drop=True)", names="'n'"):
        table.append(frame)
    table.append(frame.reset_index(drop=True))
    table.append(frame.rename_axis("id"))
    assert table.snapshot().columns == {"n": "BIGINT", "id": "BIGINT"}


def test_children_are_spawned(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(
        """
import multiprocessing, sys
import firn

OPTIONS = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region": "r", "max_retries": 0,
           "endpoint": "http://127.0.0.1:1"}

def error(_=0):
    try:
        firn.connect("s3://bucket/prod", options=OPTIONS).tables()
    except firn.FirnError as found:
        return f"{type(found).__name__}: {found}"

if __name__ == "__main__":
    error()
    for method in sys.argv[1:]:
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.apply(error))
"""
    )
    command = [sys.executable, "-W", "ignore", str(program), "fork", "spawn"]
    lines = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=120
    ).stdout.splitlines()
    with advises("multiprocessing.get_context('spawn') or 'forkserver'", names="s3://bucket"):
        raise firn.FirnError(lines[0])
    assert lines[1].startswith("StoreUnavailableError")  # it got as far as the network


def test_a_name_that_is_taken_is_opened(db):
    db.create_table("mine", journal="writer")
    with advises("already. Open it with db.table(", names="mine"):
        db.create_table("mine", journal="writer")
    assert db.table("mine").name == "mine"


def test_what_lies_there_is_opened(db):
    db.create_table("mine").append([{"n": 1}])
    with advises(". Open it with db.table(", names="mine"):
        db.create_table("mine", journal="writer")
    assert db.table("mine").scan().count() == 1


def test_a_reader_connects_as_a_writer(tmp_path: Path):
    with advises("firn.connect(url, writer=ID), from a shell with --writer ID", names=str(tmp_path)):
        firn.connect(tmp_path).create_table("cpu", journal="writer")
    assert firn.connect(tmp_path, writer="host-1").create_table("cpu", journal="writer").name == "cpu"


def test_rows_without_transactions_are_copied_from_a_table_with_them(db):
    db.create_table("rows", kind="records", isolation="row").insert("a", {"n": 1})
    with advises("its to_spark() to a table, or use a table with isolation='snapshot'", names="rows"):
        db.copy("rows", "target")
    db.create_table("stock", kind="records", isolation="snapshot").insert("a", {"n": 1})
    assert db.copy("stock", "target").rows == 1


def test_a_mark_that_is_damaged_leaves_other_names(db):
    db.bucket.put("_firn/generations/gates", b"damaged")
    with advises("Choose another name for the table", names="gates"):
        db.create_table("gates", kind="records")
    assert db.create_table("doors", kind="records").name == "doors"


def test_the_demo_goes_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("firn.cli.demo.command._check_spark", lambda: None)
    (tmp_path / "notes.txt").write_text("mine")
    found = run("demo", tmp_path)
    with advises(
        "isn't empty, and not an earlier demo's: name another directory, like", names=str(tmp_path)
    ) as advice:
        raise firn.FirnError(found.err)
    monkeypatch.setattr("firn.cli.demo.story.tell", lambda stage: "firn-report.html")
    advice.follow()
    assert (tmp_path.parent / f"{tmp_path.name}-demo").is_dir()


def test_versions_of_writers_are_pruned_first(tmp_path: Path):
    table = firn.connect(tmp_path, writer="w").create_table("cpu", journal="writer")
    for n in range(3):
        table.append([{"n": n}])
    table.merge()
    found = run("sweep", tmp_path / "cpu", "--writer", "w", "--older-than", "0s")
    with advises("forget old versions with `firn prune", names="cpu") as advice:
        raise firn.FirnError(found.err)
    assert advice.follow(ID="w").code == 0
    done("sweep", tmp_path / "cpu", "--writer", "w", "--orphans", "0s")
    assert table.scan().count() == 3


def test_a_table_of_writers_catalogs_is_checked_not_mended(db):
    db.create_table("cpu", journal="writer")
    with advises("finds what is damaged, and `firn rebuild --writer ID` brings a catalog back", names="cpu"):
        db.mend_table("cpu")
    assert db.table("cpu").scan().count() == 0


def test_a_keyed_tables_pointer_and_definition_are_copied_back(db):
    with db.create_table("k", kind="keyed").open() as kv:
        kv.put(b"a", b"1")
    pointer, definition = "k/_metadata/current_manifest", "k/_firn/table.json"
    kept = {key: db.bucket.get(key).data for key in (pointer, definition)}
    db.bucket.delete(pointer)
    with advises("and files of the table are there. Copy the newest version of it back", names=pointer):
        db.table("k", kind="keyed").reader()
    db.bucket.put(pointer, kept[pointer])
    db.bucket.delete(definition)
    with advises("and files of a keyed table are there. Copy it back from a backup", names=definition):
        db.create_table("k", kind="keyed")
    db.create_table("k2", kind="keyed")
    db.bucket.put(definition, kept[definition])
    assert db.table("k", kind="keyed").reader() is not None
