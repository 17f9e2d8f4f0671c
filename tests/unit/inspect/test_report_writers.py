"""The report on tables of writers' catalogs: the numbers are right, and nothing fails."""

from __future__ import annotations

from pathlib import Path

import pytest

import firn
from cli_runs import done
from firn.inspect.report.advice import lake_advice
from firn.inspect.report.facts import table_facts
from firn.inspect.report.report import render_report
from firn.inspect.report.words import sentences
from writer_databases import UNCLAIMED, database, fork, keys, newest, two_writers

pytestmark = pytest.mark.filterwarnings("ignore::firn.DegradedReadWarning")


@pytest.fixture
def db(tmp_path: Path) -> firn.Database:
    """Two tables of one writer, one of which another writes too; a merge, and a file of no revision."""
    a, b = database(tmp_path, "a"), database(tmp_path, "b")
    cpu = a.create_table("cpu", journal="writer", partition_by=["host"])
    for host in ("x", "x", "y"):
        cpu.append([{"host": host, "cores": 1}])
    a.create_table("mem", journal="writer").append([{"n": 1}])
    cpu.merge()
    other = b.table("cpu")
    for _ in range(2):
        other.append([{"host": "x", "cores": 2}])
    a.bucket.put(cpu.journal.begin_append().namer("host=x"), b"left from a crash")
    return firn.connect(a.url)


def test_the_facts_of_a_writers_table(db: firn.Database) -> None:
    facts = table_facts(db.table("cpu"))
    assert (facts.rows, facts.files, facts.table.name) == (5, 4, "cpu")
    assert facts.snapshot.version == "a=7,b=2"
    assert {p: x.files for p, x in facts.partitions.items()} == {"host=x": 3, "host=y": 1}
    assert [(w.name, w.revision, w.health) for w in facts.writers] == [("a", 7, "ok"), ("b", 2, "ok")]
    assert facts.merges == [2]  # both of b's in one partition; a has merged its own
    live = db.table("cpu").snapshot().files
    assert facts.stored["live"] == (4, sum(f.size for f in live))
    assert facts.stored["replaced"][0] == 2 + 1  # merged, and the one of no revision
    every = [k for w in ("a", "b") for k in keys(db.bucket, f"{w}/")]
    others = [k for k in every if "/data/mem/" in k]
    assert sum(number for number, _ in facts.stored.values()) == len(every) - len(others)
    logs = [k for k in every if any(f"/{part}/" in k for part in ("transactions", "claims", "markers"))]
    assert facts.stored["logs"][0] == len(logs)


def test_the_history_counts_back_to_nothing(db: firn.Database) -> None:
    points = table_facts(db.table("cpu")).points
    assert [(p.commit.op, p.rows, p.files) for p in points] == [
        ("create", 0, 0),
        ("append", 1, 1),
        ("append", 2, 2),
        ("append", 3, 3),
        ("merge", 3, 2),
        ("append", 4, 3),
        ("append", 5, 4),
    ]


def test_a_writer_that_drops_its_part_takes_its_files_out_of_the_history(db: firn.Database) -> None:
    database_of_b = firn.connect(db.url, writer="b")
    database_of_b.drop_table("cpu")
    database_of_b.table("cpu").append([{"host": "z", "cores": 1}])
    last = table_facts(db.table("cpu")).points[-3:]
    assert [(p.commit.op, p.files, p.commit.files_removed) for p in last] == [
        ("append", 4, 0),
        ("drop", 2, 2),
        ("append", 3, 0),
    ]


def test_soft_deletes_leave_the_rows_unknown(tmp_path: Path) -> None:
    facts = table_facts(two_writers(tmp_path).table("cpu"))
    assert facts.rows is None
    assert facts.points[-1].rows is None
    assert "cpu holds" in sentences(facts)[0]


def test_the_page(db: firn.Database, tmp_path: Path) -> None:
    page, names = render_report(db)
    assert names == ["cpu", "mem"]
    assert "writer a" in page
    assert "transactions, claims, markers of the writers" in page
    advised = list(lake_advice(table_facts(db.table("cpu"))))
    assert "by each writer" in advised[0].why
    assert advised[0].command.endswith("--writer ID")
    assert advised[1].why.startswith("Prune, then sweep")
    out = tmp_path / "report.html"
    assert done("report", tmp_path / "prod" / "cpu", "--out", out, "--json").json["tables"] == ["cpu"]
    assert done("report", tmp_path / "prod", "--out", out, "--json").json["tables"] == ["cpu", "mem"]
    assert done("report", "mem", "--db", tmp_path / "prod", "--out", out, "--json").json["tables"] == ["mem"]


def test_the_page_tells_a_fork_and_a_broken_writer(tmp_path: Path) -> None:
    db = two_writers(tmp_path, options=UNCLAIMED)
    fork(db.bucket)
    db.bucket.put(newest(db.bucket, "b")[0], b"rust")
    reader = database(tmp_path, None)
    facts = table_facts(reader.table("cpu"))
    assert [(w.name, w.health) for w in facts.writers] == [("a", "fork"), ("b", "broken")]
    page, _ = render_report(reader)
    assert "open fork at revision 3" in page
    assert "is not a transaction of this catalog" in page
