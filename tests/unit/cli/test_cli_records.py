"""`firn records`: commands for record tables, and what the other commands say of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

import firn
from cli_runs import done, run
from firn.inspect.fsck.fsck import check as fsck
from firn.records.apply.apply import settle


@pytest.fixture
def airports(tmp_path: Path) -> str:
    table = str(tmp_path / "airports")
    done("create", table, "--kind", "records", "--index", "state", "--unique", "code")
    for id, document in (
        ("ARB", {"city": "Ann Arbor", "state": "MI", "code": 8}),
        ("DTW", {"city": "Detroit", "state": "MI", "code": 7}),
        ("HNL", {"city": "Honolulu", "state": "HI", "code": 5}),
    ):
        done("records", "put", table, id, orjson.dumps(document).decode())
    return table


def found(*args: Any) -> list[str]:
    return [line["_id"] for line in done(*args, "--json").lines]


def test_get_and_conditional_puts(airports: str) -> None:
    row = done("records", "get", airports, "DTW", "--json").json
    assert row["city"] == "Detroit"
    put = done(
        "records", "put", airports, "DTW", "-", "--etag", row["_etag"], "--json", stdin='{"state": "OH"}'
    )
    assert put.json["etag"] != row["_etag"]
    assert done("records", "get", airports, "DTW").json == {"_id": "DTW", "state": "OH"}
    late = run("records", "put", airports, "DTW", "{}", "--etag", row["_etag"])
    assert late.code != 0 and "read it again" in late.err
    assert "update it" in run("records", "put", airports, "DTW", "{}", "--insert").err
    assert run("records", "delete", airports, "DTW", "--etag", row["_etag"]).code != 0
    done("records", "delete", airports, "DTW")
    assert run("records", "get", airports, "DTW").code == 3


def test_find_and_scan(airports: str) -> None:
    assert found("records", "find", airports, "state=MI", "--order-by", "city desc") == ["DTW", "ARB"]
    assert found("records", "find", airports, "state=M*", "city=Detroit") == ["DTW"]
    assert found("records", "find", airports, "code=5..8") == ["DTW", "HNL"]
    assert found("records", "scan", airports) == ["ARB", "DTW", "HNL"]
    assert found("records", "scan", airports, "--limit", 1, "--after", "ARB") == ["DTW"]
    assert found("records", "scan", airports, "city=A*") == ["ARB"]
    assert "Honolulu" in done("records", "scan", airports).out


def test_find_by_elements(tmp_path: Path) -> None:
    posts = str(tmp_path / "posts")
    done("create", posts, "--kind", "records", "--each", "tags")
    for id, tags in (("1", ["sea", "sun", 7]), ("2", ["sun"]), ("3", [])):
        done("records", "put", posts, id, orjson.dumps({"tags": tags, "ns": tags[2:]}).decode())
    assert found("records", "find", posts, "tags[]=sun") == ["1", "2"]
    assert (
        found("records", "find", posts, "tags[]=se*") == found("records", "scan", posts, "ns[]=5..8") == ["1"]
    )
    assert found("records", "find", posts, "tags[]=7") == ["1"]
    assert found("records", "find", posts, 'tags[]="7"') == []
    assert "needs a field that is indexed (tags by Contains)" in run("records", "find", posts, "tags=sun").err
    done("records", "index", posts, "ns", "--each", "--unique")
    assert done("records", "index", posts, "--json").json["indices"] == [
        {"field": "ns", "unique": True, "ready": True, "each": True},
        {"field": "tags", "unique": False, "ready": True, "each": True},
    ]
    assert "unique each" in done("records", "index", posts).out
    assert "index of each element: tags" in done("schema", posts).out
    done("records", "index", posts, "tags", "--drop")
    assert run("records", "find", posts, "tags[]=sun").code == 2
    assert fsck(firn.connect(tmp_path)).problems == ()


def test_conditions_on_elements_of_columns(tmp_path: Path) -> None:
    posts = str(tmp_path / "posts")
    columns = [f"--column={column}" for column in ("tags=VARCHAR[]", "days=DATE[]", "name=VARCHAR")]
    done("create", posts, "--kind", "records", "--each", "tags", "--each", "days", *columns)
    done("records", "put", posts, "1", '{"tags": ["7"], "days": ["2026-01-31"]}')
    assert found("records", "find", posts, "tags[]=7") == ["1"]
    assert found("records", "find", posts, "days[]=2026-01-31..2026-02-01") == ["1"]
    assert found("records", "find", posts, "days[]=2026-02-01") == []
    assert "only lists contain" in run("records", "scan", posts, "name[]=x").err
    assert "can't be" in run("records", "find", posts, "days[]=soon").err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["find"], "needs a condition"),
        (["find", "city=Detroit"], "needs a field that is indexed"),
        (["find", "state"], "is no condition"),
        (["find", "state=MI", "state=HI"], "two conditions"),
        (["put", "X", "[1]"], "no object"),
        (["put", "X", "{"], "not JSON"),
        (["put", "X", "{}", "--insert", "--etag", "1"], "give one of them"),
        (["put", "X", '{"_id": "Y"}'], "which one?"),
        (["put", "X", '{"_etag": "2.f00"}'], "give etag='2.f00' beside"),
        (["find", "city=Detroit"], "(code, state); scan looks through all rows for city"),
        (["index", "--drop"], "name the field"),
        (["index", "city", "--drop", "--unique"], "--unique and --each are for"),
        (["index", "city", "--drop", "--each"], "--unique and --each are for"),
        (["index", "--each"], "name the field"),
    ],
)
def test_what_is_refused(airports: str, args: list[str], message: str) -> None:
    refused = run("records", args[0], airports, *args[1:])
    assert refused.code == 2 and message in refused.err


def test_a_transaction_from_lines(airports: str, tmp_path: Path) -> None:
    lines = [
        {"op": "get", "table": "airports", "id": "HNL"},
        {"op": "update", "table": "airports", "id": "HNL", "document": {"state": "MI"}},
        {"op": "insert", "table": "airports", "id": "JFK", "document": {"state": "NY"}},
        {"op": "delete", "table": "airports", "id": "DTW"},
    ]
    file = tmp_path / "tx.jsonl"
    file.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    answer = done("records", "tx", tmp_path, file, "--json").json
    assert answer["rows"][0]["city"] == "Honolulu" and answer["operations"] == 4
    assert found("records", "find", airports, "state=MI") == ["ARB", "HNL"]
    # All or nothing: the last line fails.
    lines = [
        {"op": "upsert", "table": "airports", "id": "LAX", "document": {}},
        {"op": "delete", "table": "airports", "id": "DTW"},
    ]
    failed = run("records", "tx", tmp_path, stdin=b"\n".join(map(orjson.dumps, lines)))
    assert failed.code == 3 and "'DTW'" in failed.err
    assert run("records", "get", airports, "LAX").code == 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "no operation"),
        ("{}", "line 1: op is None"),
        ('{"op": "delete", "table": "airports"}', "line 1: table and id"),
        ('{"op": "insert", "table": "airports", "id": "a"}', "insert needs 'document'"),
        ('{"op": "get", "table": "airports", "id": "a", "etag": ""}', "get has no 'etag'"),
        ('{"op": "insert", "table": "airports", "id": "a", "document": 1}', "document has to be"),
        (
            '{"op": "insert", "table": "airports", "id": "a", "document": {"_id": "b"}}',
            "line 1: the document's _id",
        ),
        ('{"op": "insert", "table": "airports", "id": "", "document": {}}', "line 1: an id has"),
        (
            '\n{"op": "insert", "table": "airports", "id": "DTW", "document": {}}',
            "line 2: 'airports' has a row",
        ),
    ],
)
def test_lines_that_are_no_operations(airports: str, tmp_path: Path, line: str, message: str) -> None:
    refused = run("records", "tx", tmp_path, stdin=line)
    assert refused.code == 2 and message in refused.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"op": "get", "table": "airports", "id": "XXX"}', "line 1: 'airports' has no row 'XXX'"),
        ('{"op": "get", "table": "airport", "id": "DTW"}', "line 1: there is no table 'airport'"),
    ],
)
def test_lines_about_what_isnt_there(airports: str, tmp_path: Path, line: str, message: str) -> None:
    missing = run("records", "tx", tmp_path, stdin=line)
    assert missing.code == 3 and message in missing.err


def test_what_a_table_of_columns_has_no_column_for(tmp_path: Path) -> None:
    table = str(tmp_path / "db" / "people")
    done(
        "create",
        table,
        "--kind",
        "records",
        "--index",
        "city",
        "--column",
        "city=VARCHAR",
        "--column",
        "n=BIGINT",
    )
    for command in (("find", table, "city=x", "m=1"), ("scan", table, "m=1")):
        refused = run("records", *command)
        assert refused.code == 2 and "people has no column 'm': city, n" in refused.err
    named = run("log", tmp_path / "db" / "peopl")
    assert named.code == 3 and "there is no table 'peopl'" in named.err and "'people'" in named.err
    assert "no database at" in run("fsck", tmp_path / "nothing").err


def test_a_table_for_its_database_and_the_other_way_round(airports: str, tmp_path: Path) -> None:
    line = '{"op": "get", "table": "airports", "id": "DTW"}'
    named = run("records", "tx", airports, stdin=line)
    assert named.code == 3 and "That is a table itself: name its database" in named.err
    for command in (("records", "scan"), ("records", "sweep"), ("scan",), ("keyed", "scan")):
        named = run(*command, tmp_path)
        assert named.code == 3 and "That is a database: name a table in it, like 'airports'" in named.err


def test_what_scan_prints_can_be_loaded(airports: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(done("records", "scan", airports, "--json").out)
    other = str(tmp_path / "other")
    done("create", other, "--kind", "records")
    done("records", "load", other, rows)
    assert done("records", "get", other, "DTW").json == done("records", "get", airports, "DTW").json


def test_indices(airports: str) -> None:
    done("records", "index", airports, "city")
    assert found("records", "find", airports, "city=Detroit") == ["DTW"]
    listed = done("records", "index", airports, "--json").json["indices"]
    assert [index["field"] for index in listed] == ["city", "code", "state"]
    assert "unique" in done("records", "index", airports).out
    done("records", "index", airports, "city", "--drop")
    missing = run("records", "index", airports, "city", "--drop")
    assert missing.code == 3 and "there is one on code, state" in missing.err


def test_other_commands_know_record_tables(airports: str, tmp_path: Path) -> None:
    settle(firn.connect(tmp_path).table("airports").session.store)
    (listed,) = done("tables", tmp_path, "--json").json["tables"]
    assert (listed["kind"], listed["files"]) == ("records", 3)
    assert done("schema", airports, "--json").json["indices"][0]["field"] == "code"
    assert "unique index: code" in done("schema", airports).out
    commits = done("log", airports, "--json").json["commits"]
    assert [commit["changed"] for commit in commits] == ["create", "", "", ""]
    assert commits[-1]["rows"] == ["HNL"]
    rows = tmp_path / "rows.json"
    rows.write_text('[{"n": 1}]')
    refused = run("append", airports, rows)
    assert refused.code == 2 and "record" in refused.err
    assert "firn records" in run("keyed", "get", airports, "a").err
    done("report", tmp_path, "-o", tmp_path / "report.html")
    assert "last commit" in (tmp_path / "report.html").read_text()


def test_every_object_of_a_record_table_is_dumped_by_its_kind(airports: str, tmp_path: Path) -> None:
    store = firn.connect(tmp_path).table("airports").session.store
    settle(store)
    kinds = {
        done("dump", tmp_path / info.key, "--json").json["kind"] for info in store.bucket.list("").objects
    }
    assert kinds == {
        "commit of record tables",
        "horizon of record tables",
        "index entry",
        "row of a record table",
        "table definition",
    }


def test_fsck_finds_what_is_damaged(airports: str, tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    store = db.table("airports").session.store
    settle(store)
    assert fsck(db).problems == ()
    entry = next(info.key for info in db.bucket.list("airports/indices/state/").objects if "DTW" in info.key)
    db.bucket.delete(entry)
    (problem,) = fsck(db).problems
    assert problem.object.endswith(entry) and "isn't found" in problem.what
    db.bucket.put(entry, b"")
    db.bucket.put("airports/data/ARB.json", b"{}")
    assert any("ARB.json" in problem.object for problem in fsck(db).problems)


def test_what_a_drop_leaves_is_no_problem(airports: str, tmp_path: Path) -> None:
    settle(firn.connect(tmp_path).table("airports").session.store)
    done("drop", airports, "--yes")
    for _ in range(20):  # what the commands before still apply in the background may land late
        if not (left := fsck(firn.connect(tmp_path)).findings):
            break
        assert [finding.remedy for finding in left] == ["Drop it again to end that"]
        done("drop", airports, "--yes")
    assert not left
    assert done("tables", tmp_path, "--json").json["tables"] == []


def test_fsck_finds_a_gap_in_the_log(airports: str, tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    db.bucket.delete("_commits/00000000000000000002")
    assert fsck(firn.connect(tmp_path)).problems


def test_a_table_of_single_rows(tmp_path: Path) -> None:
    stock = str(tmp_path / "stock")
    done("create", stock, "--kind", "records", "--isolation", "row")
    done("records", "put", stock, "DTW", '{"planes": 3}')
    assert found("records", "scan", stock, "planes=3") == ["DTW"]
    for command in (["find", stock, "planes=3"], ["index", stock]):
        assert "isolation='row'" in run("records", *command).err
    assert "without commits" in run("log", stock).err
    assert fsck(firn.connect(tmp_path)).problems == ()
    done("schema", stock)
    (listed,) = done("tables", tmp_path, "--json").json["tables"]
    assert listed["files"] == 1


def test_sweep(airports: str) -> None:
    planned = done("records", "sweep", airports, "--dry-run", "--json").json
    assert planned["dry_run"] and planned["versions"] == 0
    assert "packed" in done("records", "sweep", airports).out
    assert run("records", "sweep", airports, "--older-than", "soon").code == 2
    assert found("records", "scan", airports) == ["ARB", "DTW", "HNL"]


def test_load(airports: str, tmp_path: Path) -> None:
    lines = tmp_path / "more.jsonl"
    lines.write_text(
        '{"iata": "DTW", "state": "OH"}\n\n{"iata": "CMH", "state": "OH", "runways": [1, null]}\n'
    )
    loaded = done("records", "load", airports, lines, "--id", "iata", "--batch", 1, "--json").json
    assert (loaded["table"], loaded["rows"], loaded["commits"]) == ("airports", 2, 2)
    assert found("records", "find", airports, "state=OH") == ["CMH", "DTW"]
    row = done("records", "get", airports, "CMH").json
    assert row == {"_id": "CMH", "iata": "CMH", "state": "OH", "runways": [1, None]}
    stdin = '[{"_id": "X", "state": "MI"}]'
    said = done("records", "load", airports, stdin=stdin)
    assert "loaded 1 row into airports in 1 commit" in said.out
    (tmp_path / "more.csv").write_text("_id;state\n007;AK\n8;\n")
    done("records", "load", airports, tmp_path / "more.csv", "--delimiter", ";")
    assert done("records", "get", airports, "007").json == {"_id": "007", "state": "AK"}
    assert done("records", "get", airports, "8").json == {"_id": "8"}


def test_load_into_declared_columns(tmp_path: Path) -> None:
    table = str(tmp_path / "people")
    done("create", table, "--kind", "records", "--column", "born=DATE")
    done("records", "load", table, stdin='{"_id": "ada", "born": "1815-12-10"}')
    assert done("records", "get", table, "ada").json == {"_id": "ada", "born": "1815-12-10"}
    wrong = run("records", "load", table, stdin='{"_id": "ada"}\n{"_id": "bob", "born": 7}')
    assert wrong.code == 2 and "line 2" in wrong.err and "born is DATE" in wrong.err
    assert "standard input, line 1 is not JSON" in run("records", "load", table, stdin="{nothing").err
    assert run("records", "load", table, tmp_path / "nothing.csv").code == 3


def test_copy(airports: str, tmp_path: Path) -> None:
    copied = done("records", "copy", airports, "history", "--changes", "--json").json
    assert (copied["table"], copied["target"], copied["rows"], copied["since"]) == (
        "airports",
        "history",
        3,
        None,
    )
    done("records", "delete", airports, "HNL")
    said = done("records", "copy", airports, "history", "--changes").out
    assert said.startswith("copied 1 row of airports into history, up to commit ")
    assert "copied 0 rows" in done("records", "copy", airports, "history", "--changes").out
    rows = firn.connect(tmp_path).table("history").scan().to_arrow().sort_by("_seq").to_pylist()
    assert [(row["_id"], row["_kind"]) for row in rows][-1] == ("HNL", "delete") and len(rows) == 4
    done("records", "copy", airports, "now")
    again = done("records", "copy", airports, "now").out
    assert again.startswith("now has airports up to commit ")
    assert done("records", "copy", airports, "then", "--at", 3, "--json").json["rows"] == 2
    assert "--changes" in run("records", "copy", airports, "now", "--follow", "1s").err


def test_copy_follows(airports: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        if len(paused) == 2:
            firn.connect(tmp_path).table("airports").delete("HNL")
        if len(paused) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("firn.cli.records.load.time", SimpleNamespace(sleep=pause))
    stopped = run("records", "copy", airports, "history", "--changes", "--follow", "5s", "--json")
    assert [line["rows"] for line in stopped.lines if "rows" in line] == [3, 1]
    assert paused == [5, 5, 5]
