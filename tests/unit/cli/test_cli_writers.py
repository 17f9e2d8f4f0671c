"""The command line on tables of writers' catalogs: --writer, writers, log, checkpoint, prune, repair, sweep."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

import firn
from cli_runs import done, flights, run
from firn.cli.terminal import output
from writer_databases import UNCLAIMED, database, fork, keys, layout, newest, two_writers

PUT_AND_LIST = ("--option", "conditional_put=disabled")


@pytest.fixture
def prod(tmp_path: Path) -> Path:
    two_writers(tmp_path)
    return tmp_path / "prod"


@pytest.fixture
def forked(tmp_path: Path) -> Path:
    fork(two_writers(tmp_path, options=UNCLAIMED).bucket)
    return tmp_path / "prod"


# -- writing


def test_commands_that_write_take_the_writer(tmp_path: Path) -> None:
    prod = tmp_path / "prod"
    done("create", prod / "cpu", "--journal", "writer", "--writer", "a")
    assert [w.name for w in firn.connect(prod).writers()] == ["a"]
    done("append", prod / "cpu", "--writer", "a", stdin='{"host": "x", "cores": 1}')
    done("append", prod / "cpu", "--writer", "b", stdin='{"host": "y", "cores": 2}')
    assert done("scan", prod / "cpu", "--count").out == "2\n"
    done("delete", prod / "cpu", "--where", "cores = 2", "--writer", "b")
    done("append", prod / "cpu", "--writer", "a", stdin='{"host": "z", "cores": 3}')
    merged = done("merge", prod / "cpu", "--writer", "a", "--json").json
    assert (merged["files_removed"], merged["files_added"]) == (2, 1)
    done("rewrite", prod / "cpu", "cores <> 3", "--writer", "a")
    assert done("scan", prod / "cpu", "--json").lines == [{"host": "x", "cores": 1}]
    done("append", prod / "cpu", "--writer", "b", stdin='{"host": "y", "cores": 2}')
    planned = done("drop", prod / "cpu", "--dry-run", "--writer", "a")
    assert planned.out.startswith("would drop a's part of cpu: 1 file, ")
    assert planned.out.splitlines()[0].endswith("; these writers still have theirs: b")
    assert done("scan", prod / "cpu", "--count").out == "2\n"
    dropped = done("drop", prod / "cpu", "--yes", "--writer", "a")
    assert dropped.out.startswith("dropped a's part of cpu: 1 file, ")
    assert "firn prune --sweep" in dropped.err
    assert done("scan", prod / "cpu", "--count").out == "1\n"
    assert done("drop", prod / "cpu", "--yes", "--writer", "b", "--json").json["dropped"]
    assert done("tables", prod, "--json").json["tables"] == []


def test_the_writer_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRN_WRITER", "host-17")
    prod = tmp_path / "prod"
    done("create", prod / "cpu", "--journal", "writer")
    done("append", prod / "cpu", stdin='{"n": 1}')
    done("append", prod / "cpu", "--writer", "other", stdin='{"n": 2}')
    assert [(w.name, w.revision) for w in firn.connect(prod).writers()] == [("host-17", 2), ("other", 1)]


@pytest.mark.parametrize(
    "command",
    [
        ["append"],
        ["merge"],
        ["delete", "--where", "cores = 1"],
        ["rewrite", "cores = 1"],
        ["sweep"],
        ["drop", "--yes"],
        ["drop", "--dry-run"],
    ],
)
def test_without_a_writer_nothing_is_written_and_the_message_says_how(prod: Path, command: list[str]) -> None:
    before = keys(firn.connect(prod).bucket, "")
    found = run(command[0], prod / "cpu", *command[1:], stdin='{"cores": 1}')
    assert found.code == 2
    assert "writer=ID" in found.err or "--writer" in found.err
    assert keys(firn.connect(prod).bucket, "") == before


def test_a_writer_that_cant_be(tmp_path: Path) -> None:
    found = run("create", tmp_path / "prod" / "cpu", "--journal", "writer", "--writer", "_x")
    assert (found.code, "'_x' can't be used" in found.err) == (2, True)
    assert run("create", tmp_path / "prod" / "cpu", "--journal", "paper").code == 2


# -- writers and log


def test_writers(prod: Path) -> None:
    found = done("writers", prod, "--json").json["writers"]
    assert [(w["name"], w["revision"], w["health"]) for w in found] == [("a", 3, "ok"), ("b", 1, "ok")]
    assert found[0]["time"].startswith("20")
    text = done("writers", prod).out
    assert "host" not in text
    assert [line.split()[0] for line in text.splitlines()[2:]] == ["a", "b"]
    flights(prod.parent / "plain")
    assert "No writers" in done("writers", prod.parent / "plain").err
    assert run("writers", prod.parent / "missing").code == 3


def test_writers_tell_a_fork_and_a_broken_one(forked: Path) -> None:
    damaged = forked / newest(firn.connect(forked).bucket, "b")[0]
    damaged.write_bytes(b"rust")
    found = {w["name"]: w for w in done("writers", forked, "--json").json["writers"]}
    assert found["a"]["health"] == "fork"
    assert "open fork at revision 3" in found["a"]["detail"]
    assert found["b"]["health"] == "broken"
    assert "is not a transaction" in found["b"]["detail"]
    assert "fork" in done("writers", forked).out


def test_log_of_a_writers_table(prod: Path) -> None:
    found = done("log", prod / "cpu", "--json").json["history"]
    assert [(c["version"], c["op"]) for c in found] == [
        ("a=1", "create"),
        ("a=2", "append"),
        ("b=1", "append"),
        ("a=3", "delete"),
    ]
    only = done("log", prod / "cpu", "--writer", "b", "--json").json["history"]
    assert [c["version"] for c in only] == ["b=1"]
    then = done("log", prod / "cpu", "--at", "a=2", "--json").json["history"]
    assert [c["version"] for c in then] == ["a=1", "a=2"]
    assert done("log", "cpu", "--db", prod, "--limit", "1").out.count("delete") == 1


def test_log_of_a_database(prod: Path) -> None:
    found = done("log", prod, "--json").json
    assert [w["name"] for w in found["writers"]] == ["a", "b"]
    lines = found["transactions"]
    assert [(x["writer"], x["revision"], x["op"], x["status"]) for x in lines] == [
        ("a", 1, "create", "counts"),
        ("a", 2, "append", "counts"),
        ("b", 1, "append", "counts"),
        ("a", 3, "delete", "counts"),
    ]
    assert (lines[1]["tables"], lines[1]["files_added"], lines[1]["rows_added"]) == (["cpu"], 1, 2)
    assert lines[1]["previous"] == lines[0]["uuid"]
    assert len(lines[0]["uuid"]) == 32
    text = done("log", prod).out
    assert all(x["uuid"][:8] in text for x in lines)
    only = done("log", prod, "--writer", "a", "--limit", "1", "--json").json
    assert [x["revision"] for x in only["transactions"]] == [3]
    assert [w["name"] for w in only["writers"]] == ["a"]
    then = done("log", prod, "--at", "a=2", "--json").json["transactions"]
    assert [(x["writer"], x["revision"]) for x in then] == [("a", 1), ("a", 2)]


@pytest.mark.filterwarnings("ignore::firn.DegradedReadWarning")  # the command prints it
def test_log_shows_both_sides_of_a_fork_and_what_is_damaged(forked: Path) -> None:
    found = done("log", forked, "--json").json["transactions"]
    sides = [x for x in found if x["status"] == "undecided"]
    assert [x["revision"] for x in sides] == [3, 3]
    text = done("log", forked)
    assert text.out.count("undecided") == 2
    assert "open fork" in text.err
    assert "open fork" in done("log", forked / "cpu").err
    keep = sides[0]["uuid"]
    done("repair", forked, "--keep", keep, "--yes", *PUT_AND_LIST)
    after = {x["uuid"]: x["status"] for x in done("log", forked, "--json").json["transactions"]}
    assert (after[keep], after[sides[1]["uuid"]]) == ("counts", "lost")
    damaged = forked / newest(firn.connect(forked).bucket, "b")[0]
    damaged.write_bytes(b"rust")
    lines = done("log", forked, "--writer", "b", "--json").json["transactions"]
    assert [x["status"] for x in lines] == ["damaged"]
    assert "is not a transaction" in lines[0]["detail"]
    assert "damaged" in done("log", forked).out


def test_log_of_what_isnt_there(prod: Path) -> None:
    assert run("log", prod, "--writer", "c").code == 3
    assert run("log", prod / "cpu", "--writer", "c").code == 3
    assert run("log", prod / "mem").code == 3
    assert run("log", prod, "--at", "a=9").code == 3
    flights(prod.parent / "plain")
    found = run("log", prod.parent / "plain" / "flights", "--writer", "a")
    assert (found.code, "leave --writer out" in found.err) == (2, True)
    assert "No writers" in done("log", prod.parent / "plain").err


# -- checkpoint


def test_checkpoint_of_a_writers_table_and_of_a_database(prod: Path) -> None:
    flights(prod)
    assert done("checkpoint", prod / "cpu", "--json").json["transactions"] == 4
    assert "0 transactions" in done("checkpoint", prod / "cpu").out
    found = done("checkpoint", prod, "--json").json
    assert (found["covered"], found["left_out"]) == ({"flights": 6, "a": 0, "b": 0}, {})
    assert "checkpoint of flights: covers 6" in done("checkpoint", prod).out


def test_checkpoint_of_a_database_leaves_out_what_cant_be_read(forked: Path) -> None:
    found = done("checkpoint", forked, "--json", *PUT_AND_LIST).json
    assert (found["covered"], list(found["left_out"])) == ({"b": 1}, ["a"])
    assert "no checkpoint of the writer a" in done("checkpoint", forked, *PUT_AND_LIST).err


# -- prune and sweep


def test_prune_and_sweep_give_the_space_back(tmp_path: Path) -> None:
    prod = tmp_path / "prod"
    done("create", prod / "cpu", "--journal", "writer", "--writer", "a")
    for n in range(3):
        done("append", prod / "cpu", "--writer", "a", stdin=f'{{"host": "w", "cores": {n}}}')
    done("merge", prod / "cpu", "--writer", "a")
    done("append", prod / "cpu", "--writer", "a", stdin='{"host": "w", "cores": 9}')
    done("append", prod / "cpu", "--writer", "a", stdin='{"host": "w", "cores": 10}')
    rows = done("scan", prod / "cpu", "--count").out
    assert "nothing to delete" in done("prune", prod, "--writer", "a").out  # nothing is 7 days old
    planned = done("prune", prod, "--writer", "a", "--older-than", "0s", "--dry-run", "--json").json
    assert (planned["dry_run"], planned["floor"]) == (True, 6)
    text = done("prune", prod, "--writer", "a", "--older-than", "0s", "--dry-run").out
    assert all(key in text for key in planned["deleted"][:5])
    assert "would delete" in text
    assert "nothing to delete" in done("sweep", prod / "cpu", "--writer", "a", "--orphans", "0s").out
    report = done("prune", prod, "--writer", "a", "--older-than", "0s")
    assert f"deleted {len(planned['deleted'])} objects" in report.out
    assert "from revision 6 on" in report.out
    would = done("sweep", prod / "cpu", "--writer", "a", "--orphans", "0s", "--dry-run", "--json").json
    assert len(would["data_files"]) == 3
    found = done("sweep", prod / "cpu", "--writer", "a", "--orphans", "0s")
    assert "deleted 3 replaced files" in found.out

    assert done("scan", prod / "cpu", "--count").out == rows
    assert done("log", prod, "--writer", "a", "--json").json["transactions"][0]["revision"] == 6


def test_prune_can_sweep_all_tables_dropped_ones_too(tmp_path: Path) -> None:
    prod = tmp_path / "prod"
    done("create", prod / "cpu", "--journal", "writer", "--writer", "a")
    done("append", prod / "cpu", "--writer", "a", stdin='{"host": "w"}')
    done("drop", prod / "cpu", "--writer", "a", "--yes")
    for name in ("mem", "disk"):
        done("create", prod / name, "--journal", "writer", "--writer", "a")
    assert run("prune", prod, "--writer", "a", "--orphans", "0s").code == 2
    ages = ("--older-than", "0s", "--sweep", "--orphans", "0s")
    would = done("prune", prod, "--writer", "a", *ages, "--dry-run")
    assert "would delete" in would.out and len(list(prod.glob("a/prod/data/cpu/*"))) == 1
    report = done("prune", prod, "--writer", "a", *ages, "--json").json
    assert len(report["sweep"]["data_files"]) == 1 and report["deleted"]
    assert list(prod.glob("a/prod/data/cpu/*")) == []
    assert "nothing to delete in the writer a" in done("prune", prod, "--writer", "a", "--sweep").out


def test_prune_takes_the_only_writer_and_asks_for_one_of_several(prod: Path, tmp_path: Path) -> None:
    found = run("prune", prod)
    assert (found.code, "2 writers: a, b" in found.err) == (2, True)
    assert run("prune", prod, "--writer", "c").code == 3
    assert run("prune", prod, "--writer", "a", "--older-than", "soon").code == 2
    alone = database(tmp_path / "alone", "only")
    alone.create_table("cpu", journal="writer")
    assert done("prune", tmp_path / "alone" / "prod", "--json").json["writer"] == "only"
    flights(tmp_path / "plain")
    assert "no writer" in run("prune", tmp_path / "plain").err


def test_prune_refuses_a_fork(forked: Path) -> None:
    found = run("prune", forked, "--writer", "a", "--older-than", "0s", "--json")
    assert (found.code, found.json["error"]["kind"]) == (4, "fork")


def test_sweep_of_a_writers_table_takes_no_age_of_what_was_replaced(prod: Path) -> None:
    found = run("sweep", prod / "cpu", "--writer", "a", "--older-than", "0s")
    assert found.code == 2 and "`firn prune " in found.err and "--older-than 0s`" in found.err


def test_sweep_leaves_other_tables_and_what_it_doesnt_know(prod: Path) -> None:
    db = firn.connect(prod, writer="a")
    other = db.create_table("mem", journal="writer")
    for name in ("cpu", "mem"):
        ticket = db.table(name).journal.begin_append()
        db.bucket.put(ticket.namer(""), db.bucket.get(keys(db.bucket, layout().data_prefix)[0]).data)
    other.append([{"n": 1}])
    other.append([{"n": 2}])
    stray = layout().data_prefix + "cpu/notes.txt"
    db.bucket.put(stray, b"mine")
    before = keys(db.bucket, layout().data_prefix)
    found = done("sweep", prod / "cpu", "--writer", "a", "--orphans", "0s")
    assert keys(db.bucket, layout().data_prefix) == before  # their metadata says that they are others
    assert "nothing to delete" in found.out


# -- repair


def test_repair_keeps_the_side_that_was_named(forked: Path) -> None:
    sides = [x for x in done("log", forked, "--json").json["transactions"] if x["status"] == "undecided"]
    keep = sides[1]["uuid"]
    planned = done("repair", forked, "--keep", keep[:8], "--dry-run", "--json", *PUT_AND_LIST).json
    assert (planned["kept"], planned["dry_run"], planned["writer"]) == (keep, True, "a")
    assert done("writers", forked, "--json").json["writers"][0]["health"] == "fork"
    assert "would keep" in done("repair", forked, "--keep", keep[:8], "--dry-run", *PUT_AND_LIST).out
    found = done("repair", forked, "--keep", keep[:8], "--yes", "--writer", "a", *PUT_AND_LIST)
    assert f"repair kept {keep[:8]} of the writer a, at the forks of revision 3" in found.out
    (health,) = (w for w in done("writers", forked, "--json").json["writers"] if w["name"] == "a")
    assert (health["health"], health["revision"]) == ("ok", 4)
    again = done("repair", forked, "--keep", keep, "--yes", "--writer", "a", *PUT_AND_LIST)
    assert "counted already" in again.out
    done("append", forked / "cpu", "--writer", "a", *PUT_AND_LIST, stdin='{"host": "q", "cores": 4}')


def test_repair_asks_whether_all_processes_are_stopped(forked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = newest(firn.connect(forked).bucket)[1].uuid
    found = run("repair", forked, "--keep", keep, "--json", *PUT_AND_LIST)
    assert (found.code, "say --yes" in found.json["error"]["message"]) == (2, True)
    assert "say --yes" in run("repair", forked, "--keep", keep, *PUT_AND_LIST, stdin="y\n").err
    monkeypatch.setattr(output, "stdin_is_terminal", lambda: True)
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr(output, "stderr", lambda: terminal)
    assert run("repair", forked, "--keep", keep, *PUT_AND_LIST, stdin="n\n").code == 1
    assert done("writers", forked, "--json").json["writers"][0]["health"] == "fork"
    asked = done("repair", forked, "--keep", keep, *PUT_AND_LIST, stdin="y\n")
    assert "Are all processes stopped" in asked.err
    assert done("writers", forked, "--json").json["writers"][0]["health"] == "ok"


def test_repair_without_a_fork_or_with_a_wrong_uuid(forked: Path) -> None:
    assert run("repair", forked, "--keep", "zzz", "--yes", *PUT_AND_LIST).code == 2
    assert run("repair", forked, "--keep", "f" * 32, "--yes", *PUT_AND_LIST).code == 3
    assert run("repair", forked).code == 2


def test_repair_of_a_healthy_database(prod: Path) -> None:
    found = run("repair", prod, "--keep", "0badcafe", "--yes")
    assert (found.code, "no forked writer" in found.err) == (2, True)
    assert run("repair", prod, "--keep", "0badcafe", "--yes", "--writer", "a").code == 2
    assert run("repair", prod, "--keep", "0badcafe", "--yes", "--writer", "c").code == 3


# -- rebuild


def lose(prod: Path, *parts: str) -> None:
    bucket = firn.connect(prod).bucket
    for part in parts:
        bucket.delete_many(keys(bucket, f"a/prod/{part}/"))


def test_rebuild_of_a_whole_catalog_does_nothing(prod: Path) -> None:
    before = keys(firn.connect(prod).bucket, "")
    assert "is whole; nothing to do" in done("rebuild", prod, "--writer", "a").out
    assert done("rebuild", prod, "--writer", "a", "--json").json["damage"] == []
    assert keys(firn.connect(prod).bucket, "") == before


def test_rebuild_brings_a_lost_catalog_back(prod: Path) -> None:
    done("append", prod / "cpu", "--writer", "a", stdin='{"host": "w", "cores": 4}')
    rows = sorted(done("scan", prod / "cpu", "--json").out.splitlines())
    lose(prod, "transactions", "claims", "_firn")
    (prod / "_firn" / "database.json").unlink()
    planned = done("rebuild", prod, "--writer", "a", "--dry-run", "--json").json
    assert (planned["dry_run"], planned["rebuilt"]) == (True, [1, 2, 3, 4, 5])
    assert keys(firn.connect(prod).bucket, layout().transactions_prefix) == []
    text = done("rebuild", prod, "--writer", "a", "--dry-run").out
    assert "would write 5 transactions" in text
    assert all(path in text for path in planned["files"])
    found = done("rebuild", prod, "--writer", "a")
    assert "lost: there is no transaction left" in found.out
    assert "wrote 5 transactions" in found.out
    assert sorted(done("scan", prod / "cpu", "--json").out.splitlines()) == rows
    assert (prod / "_firn" / "database.json").exists()
    assert "is whole" in done("rebuild", prod, "--writer", "a").out
    done("append", prod / "cpu", "--writer", "a", stdin='{"host": "v", "cores": 5}')


def test_rebuild_names_what_it_cant_tell(prod: Path) -> None:
    bucket = firn.connect(prod).bucket
    bucket.put(layout().data_prefix + "cpu/notes.txt", b"mine")
    lose(prod, "transactions", "claims")
    found = done("rebuild", prod, "--writer", "a")
    assert "nobody can tell whether these were committed" in found.out
    assert "notes.txt" in found.out


def test_rebuild_of_nobody(prod: Path) -> None:
    assert run("rebuild", prod, "--writer", "c").code == 3
    assert run("rebuild", prod).code == 2
    assert run("rebuild", prod.parent / "missing", "--writer", "a").code == 3


def test_rebuild_of_a_fork_needs_to_be_told(forked: Path) -> None:
    sides = [x for x in done("log", forked, "--json").json["transactions"] if x["status"] == "undecided"]
    (forked / layout().transaction_key(2, sides[0]["previous"])).unlink()
    assert run("rebuild", forked, "--writer", "a", *PUT_AND_LIST).code == 4
    done("rebuild", forked, "--writer", "a", "--keep", sides[0]["uuid"], *PUT_AND_LIST)
    after = {x["uuid"]: x["status"] for x in done("log", forked, "--json").json["transactions"]}
    assert after[sides[0]["uuid"]] == "counts"
