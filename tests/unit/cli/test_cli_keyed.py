"""`firn keyed`: commands for keyed tables."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

import firn
from cli_runs import done, run
from firn.cli.keyed.group import keyed
from firn.cli.keyed.kind import KeyedInShell

# -- the group


def test_the_help_of_the_group_names_its_commands() -> None:
    words = set(done("keyed", "--help").out.split())
    assert words.issuperset(command.callback.__name__ for command in keyed.registered_commands)  # type: ignore[union-attr]
    assert len(KeyedInShell.verbs) <= len(keyed.registered_commands)
    assert "keyed" in done("--help").out


def test_without_a_command_there_is_help_and_no_message() -> None:
    found = run("keyed")
    assert found.code == 2
    assert "size" in found.out and "error" not in found.err
    assert run("keyed", "nonsense").code == 2


# -- size


def test_size_prints_the_papers_table() -> None:
    lines = {line.split()[0]: line.split()[-1] for line in done("keyed", "size").out.splitlines()[2:]}
    assert lines["Q"] == "86,400"
    assert lines["S"] == "0.56"
    assert lines["T"] == "259,200,000"


def test_size_of_another_workload_as_json() -> None:
    rows = done("keyed", "size", "--flush-ms", 100, "--price", 0.05, "--json").json["rows"]
    found = {row["id"]: row["value"] for row in rows}
    assert found["T"] == 25_920_000
    assert found["R"] == 0.05
    assert run("keyed", "size", "--block-mb", 0).code == 2


# -- a table


@pytest.fixture
def delays(tmp_path: Path) -> Path:
    """Keys and values of bytes, in three flushes."""
    db = firn.connect(tmp_path / "db")
    with db.create_table("delays", kind="keyed", properties={"flush_ms": 5}).open(compaction=False) as kv:
        for key, value in ((b"ATL", b"9"), (b"DTW", b"66"), (b"HNL", b"95")):
            kv.put(key, value)
    return tmp_path / "db" / "delays"


@pytest.fixture
def years(tmp_path: Path) -> Path:
    """Typed keys and values."""
    where = tmp_path / "db" / "years"
    done(
        "create", where, "--kind", "keyed", "--key", "state=VARCHAR", "--key", "year=BIGINT",
        "--column", "flights=BIGINT", "--column", "seen=TIMESTAMP", "--merge-operator", "flights=add,seen=max",
        "--property", "flush_ms=5",
    )  # fmt: skip
    with firn.connect(tmp_path / "db").table("years", kind="keyed").open(compaction=False) as kv:
        kv.put(("MI", 2001), {"flights": 10, "seen": datetime(2001, 2, 3, 4, 5, 6)}, durable=False)
        kv.put(("MI", -5), {"flights": 20}, durable=False)
        kv.put(("HI", 2001), {"flights": 5})
    return where


def test_put_is_durable_when_it_returns(tmp_path: Path) -> None:
    where = tmp_path / "db" / "t"
    done("create", where, "--kind", "keyed", "--key", "id=BIGINT", "--column", "at=TIMESTAMP", "--ttl", "7d")
    assert done("keyed", "put", where, "7", '{"at": "2001-02-03T04:05:06"}').out == "put 7 in t\n"
    found = done("keyed", "put", where, "8", '{"at": null}', "--ttl", "1h", "--json").json
    assert found["durable"] and found["requests"]["put"] >= 2
    assert done("keyed", "get", where, "7").out == '{"at":"2001-02-03T04:05:06"}\n'


def test_get_prints_values(delays: Path) -> None:
    assert done("keyed", "get", delays, "DTW").out == "66\n"
    assert done("keyed", "get", delays, "DTW", "ATL").out == "DTW  66\nATL  9\n"
    assert done("keyed", "get", "delays", "DTW", "--db", delays.parent, "--raw").out == "66"
    found = done("keyed", "get", delays, "DTW", "--json").json
    assert found["values"] == [{"key": "DTW", "found": True, "value": "66"}]
    assert found["table"] == "delays" and found["requests"]["put"] == 0


def test_get_of_a_missing_key_exits_with_3(delays: Path) -> None:
    found = run("keyed", "get", delays, "XXX")
    assert (found.code, found.out) == (3, "")
    assert "has no key XXX" in found.err
    both = run("keyed", "get", delays, "XXX", "ATL", "--json")
    assert both.code == 3
    assert [v["found"] for v in both.json["values"]] == [False, True]
    assert run("keyed", "get", delays, "XXX", "--raw").code == 3


def test_scan_prints_a_range(delays: Path) -> None:
    assert [row["key"] for row in done("keyed", "scan", delays, "--json").lines] == ["ATL", "DTW", "HNL"]
    assert done("keyed", "scan", delays, "--start", "B", "--end", "E", "--json").lines == [
        {"key": "DTW", "value": "66"}
    ]
    assert done("keyed", "scan", delays, "--prefix", "H", "--csv").out == "key,value\nHNL,95\n"
    rows = done("keyed", "scan", delays, "--reverse", "--limit", 2, "--json").lines
    assert [row["key"] for row in rows] == ["HNL", "DTW"]
    assert done("keyed", "scan", delays, "--count").out == "3\n"
    assert "DTW" in done("keyed", "scan", delays).out
    assert done("keyed", "scan", delays, "--start", "X", "--json").out == ""
    assert done("keyed", "scan", delays, "--start", "X", "--csv").out == "key,value\n"


def test_typed_keys_and_rows(years: Path) -> None:
    assert done("keyed", "get", years, '["MI", -5]').out == '{"flights":20,"seen":null}\n'
    rows = done("keyed", "scan", years, "--prefix", '["MI"]', "--json").lines
    assert [(row["state"], row["year"], row["flights"]) for row in rows] == [("MI", -5, 20), ("MI", 2001, 10)]
    assert rows[1]["seen"] == "2001-02-03T04:05:06"
    done("keyed", "merge", years, '["MI", 2001]', '{"flights": 7, "seen": "2000-01-01"}')
    found = done("keyed", "get", years, '["MI", 2001]', "--json").json["values"][0]
    assert found["key"] == ["MI", 2001]
    assert found["value"] == {"flights": 17, "seen": "2001-02-03T04:05:06"}
    rows = done("keyed", "scan", years, "--start", '["MI"]', "--json").lines
    assert len(rows) == 2


def test_bytes_in_hexadecimal(delays: Path) -> None:
    done("keyed", "put", delays, "ff00", "80", "--hex")
    refused = run("keyed", "scan", delays, "--json")
    assert refused.code == 2 and "--hex" in refused.err + refused.out
    rows = done("keyed", "scan", delays, "--hex", "--start", "ff", "--json").lines
    assert rows == [{"key": "ff00", "value": "80"}]
    assert done("keyed", "get", delays, "ff00", "--hex").out == "80\n"
    assert run("keyed", "get", delays, "xyz", "--hex").code == 2


def test_a_value_from_standard_input(delays: Path) -> None:
    done("keyed", "put", delays, "BIG", "-", stdin="a\nb\n")
    assert done("keyed", "get", delays, "BIG", "--raw").out == "a\nb\n"


def test_delete_is_one_batch(delays: Path) -> None:
    done("keyed", "delete", delays, "ATL", "DTW", "nobody")
    assert [row["key"] for row in done("keyed", "scan", delays, "--json").lines] == ["HNL"]


def test_load_files(years: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"state": "CA", "year": 1, "flights": 3}\n{"state": "CA", "year": 2, "flights": 4}\n')
    found = done("keyed", "load", years, file, "--json").json
    assert found["rows"] == 2
    assert done("keyed", "scan", years, "--prefix", '["CA"]', "--count").out == "2\n"
    assert run("keyed", "load", years, file, "--format", "nonsense").code == 2


def test_load_bytes(delays: Path) -> None:
    done("keyed", "load", delays, "-", stdin="key,value\nSEA,on time\nPHX,late\n")
    assert done("keyed", "get", delays, "SEA").out == "on time\n"


@pytest.mark.parametrize(
    ("command", "key", "value"),
    [
        ("put", '["MI"]', '{"flights": 1}'),
        ("put", '["MI", 1, 2]', '{"flights": 1}'),
        ("put", "MI", '{"flights": 1}'),
        ("put", '["MI", "x"]', '{"flights": 1}'),
        ("put", "[1, 2001]", '{"flights": 1}'),
        ("put", '["MI", 2001]', "7"),
        ("put", '["MI", 2001]', '{"nonsense": 1}'),
        ("put", '["MI", 2001]', '{"flights": "x"}'),
        ("put", '["MI", 2001]', "{}"),
        ("merge", '["MI", 2001]', "nonsense"),
    ],
)
def test_words_that_cant_be_are_refused(years: Path, command: str, key: str, value: str) -> None:
    found = run("keyed", command, years, key, value)
    assert found.code == 2, found
    assert "error" in found.err
    assert done("keyed", "scan", years, "--count").out == "3\n"


def test_messages_name_the_column_and_the_type(years: Path, delays: Path, tmp_path: Path) -> None:
    for key, value, said in (
        ('["MI", "x"]', '{"flights": 1}', "'x' can't be the key's column year, which is BIGINT"),
        (
            '["MI", 1]',
            '{"seen": "yesterday"}',
            "'yesterday' can't be the value's column seen, which is TIMESTAMP",
        ),
    ):
        assert said in run("keyed", "put", years, key, value).err
    found = run("keyed", "put", years, '["MI", 1]', "-", stdin=b"\xff\xfe")
    assert found.code == 2 and "isn't UTF-8 text" in found.err
    assert "an empty key can't be" in run("keyed", "get", delays, "").err
    assert "is not a version of delays" in run("keyed", "get", delays, "DTW", "--at", "x@1").err
    found = run("create", tmp_path / "db" / "t", "--kind", "keyed", "--key", "state")
    assert found.code == 2 and "--key state=VARCHAR" in found.err
    found = run(
        "create", tmp_path / "db" / "t", "--kind", "keyed", "--column", "a=VARCHAR", "--merge-operator", "add"
    )
    assert found.code == 2 and "a VARCHAR" in found.err


def test_keys_of_decimals_and_uuids(tmp_path: Path) -> None:
    fares = tmp_path / "db" / "fares"
    done("create", fares, "--kind", "keyed", "--key", "price=DECIMAL(38,2)", "--key", "id=UUID")
    id, other = "6fa1c2e0-93b5-4c7e-8d21-5b0a9e4f7c38", "ffffffff-93b5-4c7e-8d21-5b0a9e4f7c38"
    long = "123456789012345678901234567890123456.78"
    for price in ("12.5", '"-12.50"', "7", long):
        done("keyed", "put", fares, f'[{price}, "{id.upper()}"]', "v")
    done("keyed", "put", fares, f'["7.00", "{other}"]', "w")
    assert done("keyed", "get", fares, f'[7.0, "{other}"]').out == "w\n"
    rows = done("keyed", "scan", fares, "--json").lines
    assert [(row["price"], row["id"]) for row in rows] == [
        ("-12.50", id), ("7.00", id), ("7.00", other), ("12.50", id), (long, id)
    ]  # fmt: skip
    assert done("keyed", "scan", fares, "--prefix", "[7]", "--count").out == "2\n"
    assert (
        done("keyed", "scan", fares, "--start", "[-1.5]", "--end", f'[12.5, "{id}"]', "--count").out == "2\n"
    )
    assert done("keyed", "get", fares, f'[7, "{id}"]', "--json").json["values"][0]["key"] == ["7.00", id]
    done("keyed", "delete", fares, f'[12.50, "{id}"]')
    for key, said in (
        (f'[1.234, "{id}"]', "key's column price, which is DECIMAL(38,2)"),
        (f'[true, "{id}"]', "key's column price, which is DECIMAL(38,2)"),
        ('[1, "nonsense"]', "doesn't fit the key column 'id', which is UUID: give"),
    ):
        found = run("keyed", "put", fares, key, "v")
        assert found.code == 2 and said in found.err
    done("keyed", "compact", fares, "--full")
    assert f'["-12.50","{id}"]' in done("keyed", "manifest", fares).out
    done("report", fares, "--out", tmp_path / "report.html")
    for command in ("fsck", "dump", "log", "schema"):
        done(command, fares)
    sole = tmp_path / "db" / "sole"
    done("create", sole, "--kind", "keyed", "--key", "price=DECIMAL(5,2)")
    done("keyed", "put", sole, "1.5", "v")
    assert done("keyed", "get", sole, "1.50").out == "v\n"


def test_options_that_exclude_one_another(delays: Path) -> None:
    for words in (
        ["get", delays, "A", "--raw", "--json"],
        ["get", delays, "A", "B", "--raw"],
        ["scan", delays, "--prefix", "A", "--start", "B"],
        ["scan", delays, "--csv", "--json"],
        ["checkpoint", delays, "x", "--refresh", "--delete"],
        ["checkpoint", delays, "--ttl", "7d"],
        ["checkpoint", delays, "--delete"],
    ):
        assert run("keyed", *words).code == 2, words


def test_manifest_tells_what_there_is(delays: Path) -> None:
    shown = done("keyed", "manifest", delays, "--files").out
    assert "flushes since" in shown and "/l0/" in shown
    done("keyed", "compact", delays, "--full")
    found = done("keyed", "manifest", delays, "--json").json
    assert len(found["ssts"]) == 1 and found["l0"] == []
    assert found["ssts"][0]["rows"] == 3
    assert bytes.fromhex(found["ssts"][0]["min_key"]) == b"ATL"
    shown = done("keyed", "manifest", delays, "--files").out
    assert "ATL" in shown and "HNL" in shown and "ssts/" in shown
    empty = delays.parent / "empty"
    done("create", empty, "--kind", "keyed")
    assert "none yet" in done("keyed", "manifest", empty).out


def test_manifest_shows_typed_keys_as_they_are(years: Path) -> None:
    done("keyed", "compact", years, "--full")
    shown = done("keyed", "manifest", years).out
    assert '["HI",2001]' in shown and '["MI",2001]' in shown


def test_manifest_shows_bytes_of_keys_in_hexadecimal(delays: Path) -> None:
    long = "ff" * 30
    done("keyed", "put", delays, long, "80", "--hex")
    done("keyed", "compact", delays, "--full")
    row = done("keyed", "manifest", delays, "--hex").out.splitlines()[-1].split()
    assert row[-2:] == [b"ATL".hex(), long]
    row = done("keyed", "manifest", delays).out.splitlines()[-1].split()
    assert row[-2:] == ["ATL", long[:48] + "…"]


def test_manifest_shows_bytes_of_typed_keys_in_hexadecimal(tmp_path: Path) -> None:
    chunks = tmp_path / "db" / "chunks"
    done("create", chunks, "--kind", "keyed", "--key", "digest=BLOB", "--key", "part=BIGINT")
    done("keyed", "put", chunks, '["ff00", 7]', "80", "--hex")
    done("keyed", "compact", chunks, "--full")
    assert '["ff00",7]' in done("keyed", "manifest", chunks, "--hex").out
    assert '["/wA=",7]' in done("keyed", "manifest", chunks).out


def test_compact_says_what_it_did(delays: Path) -> None:
    planned = done("keyed", "compact", delays, "--dry-run").out
    assert "would begin with 3 flushes" in planned
    found = done("keyed", "compact", delays, "--json").json
    assert found["l0_files"] == 3 and found["rows_out"] == 3
    assert found["write_amplification"] > 0
    assert "nothing to do" in done("keyed", "compact", delays).out


def test_checkpoints(delays: Path) -> None:
    assert done("keyed", "checkpoint", delays).out == ""
    made = done("keyed", "checkpoint", delays, "monday", "--ttl", "7d", "--json").json
    done("keyed", "put", delays, "DTW", "1")
    assert done("keyed", "get", delays, "DTW", "--at", "monday").out == "66\n"
    assert done("keyed", "get", delays, "DTW", "--at", made["id"]).out == "66\n"
    listed = done("keyed", "checkpoint", delays, "--json").json["checkpoints"]
    assert [c["name"] for c in listed] == ["monday"]
    assert "monday" in done("keyed", "checkpoint", delays).out
    longer = done("keyed", "checkpoint", delays, "monday", "--refresh", "--ttl", "70d", "--json").json
    assert longer["expires_ms"] > made["expires_ms"] and longer["id"] == made["id"]
    done("keyed", "checkpoint", delays, "monday", "--delete")
    assert done("keyed", "checkpoint", delays, "--json").json["checkpoints"] == []
    assert run("keyed", "checkpoint", delays, "monday", "--delete").code == 3
    assert run("keyed", "get", delays, "DTW", "--at", "monday").code == 3


def test_sweep_deletes_what_was_compacted(delays: Path) -> None:
    done("keyed", "compact", delays, "--full")
    planned = done("keyed", "sweep", delays, "--older-than", "0s", "--dry-run").out
    assert "would delete 3 flushes" in planned and "/l0/" in planned
    found = done("keyed", "sweep", delays, "--older-than", "0s", "--json").json
    assert len(found["l0"]) == 3
    assert "nothing to delete" in done("keyed", "sweep", delays, "--older-than", "0s").out
    assert done("keyed", "scan", delays, "--count").out == "3\n"


def test_clone(delays: Path) -> None:
    done("keyed", "checkpoint", delays, "monday")
    done("keyed", "put", delays, "DTW", "1")
    assert "cloned delays as then" in done("keyed", "clone", delays, "then", "--at", "monday").out
    made = done("keyed", "clone", "delays", "now", "--db", delays.parent, "--json").json
    assert (made["table"], made["parent"], made["at"]) == ("now", "delays", None)
    assert done("keyed", "get", delays.parent / "then", "DTW").out == "66\n"
    assert done("keyed", "get", delays.parent / "now", "DTW").out == "1\n"
    assert run("keyed", "clone", delays, "now").code == 2
    assert run("keyed", "clone", delays, "a/b").code == 2
    missing = run("keyed", "clone", delays, "other", "--at", "sunday")
    assert missing.code == 3 and "sunday" in missing.err


def test_changes_tell_what_was_written_since_a_version(delays: Path) -> None:
    first = done("keyed", "changes", delays, "--json")
    assert [(row["key"], row["_kind"]) for row in first.lines] == [
        ("ATL", "put"),
        ("DTW", "put"),
        ("HNL", "put"),
    ]
    version = first.err.split()[-1]
    done("keyed", "delete", delays, "DTW")
    found = done("keyed", "changes", delays, "--since", version, "--json").lines
    assert [(row["key"], row["value"], row["_kind"]) for row in found] == [("DTW", None, "delete")]
    assert done("keyed", "changes", delays, "--since", version, "--upto", version, "--json").out == ""
    csv = done("keyed", "changes", delays, "--since", version, "--csv").out
    assert csv.splitlines()[0] == "key,value,_kind,_seq,_expire_at" and csv.count("\n") == 2
    assert "DTW" in done("keyed", "changes", delays).out
    some = done("keyed", "changes", delays, "--limit", 1, "--json")
    assert len(some.lines) == 1 and "version" not in some.err, "that is where all of it would end"
    assert run("keyed", "changes", delays, "--since", "7").code == 2
    done("keyed", "compact", delays)
    done("keyed", "sweep", delays, "--older-than", "0s")
    gone = run("keyed", "changes", delays, "--since", version, "--json")
    assert gone.code == 3 and "swept" in gone.json["error"]["message"]


def test_changes_go_on_where_they_ended(delays: Path, tmp_path: Path) -> None:
    state = tmp_path / "delays.version"
    again = ("keyed", "changes", delays, "--state", state, "--json")
    assert len(done(*again).lines) == 3
    assert done(*again).out == ""
    done("keyed", "put", delays, "DTW", "1")
    assert [row["value"] for row in done(*again).lines] == ["1"]
    assert [path.name for path in tmp_path.iterdir() if "version" in path.name] == [state.name]
    for words in (["--since", "x"], ["--limit", "3"]):
        assert run(*again, *words).code == 2
    assert run("keyed", "changes", delays, "--state", tmp_path).code == 2
    unwritable = run("keyed", "changes", delays, "--state", tmp_path / "nowhere" / "file")
    assert unwritable.code == 6 and "--since" in unwritable.err


def test_log_prints_manifests_the_newest_last(delays: Path) -> None:
    empty = run("log", delays)
    assert (empty.code, empty.out) == (0, "") and "no manifest yet" in empty.err
    done("keyed", "compact", delays)
    done("keyed", "checkpoint", delays, "monday")
    done("keyed", "put", delays, "DTW", "1")
    done("keyed", "compact", delays)
    done("keyed", "compact", delays, "--full")
    found = done("log", delays, "--json").json
    history = found["history"]
    assert found["table"] == "delays"
    assert [c["state"] for c in history] == ["kept", "replaced", "current"]
    assert [(c["flushes"], len(c["adds"]), len(c["deletes"])) for c in history] == [
        (3, 1, 0),
        (1, 1, 0),
        (0, 1, 2),
    ]
    assert [c["ssts"] for c in history] == [1, 2, 1]
    assert [c["compactor_epoch"] for c in history] == sorted(c["compactor_epoch"] for c in history)
    assert len(done("log", delays, "--limit", 1, "--json").json["history"]) == 1
    text = done("log", delays).out
    assert "current" in text and "a checkpoint's" in text and history[-1]["version"] in text
    assert (
        done("keyed", "changes", delays, "--since", history[0]["version"], "--json").lines[0]["key"] == "DTW"
    )
    assert run("log", delays, "--writer", "x").code == 2
    assert run("log", delays, "--at", "2001-01-01").code == 2


# -- where kinds matter


def test_ingest_refuses_what_a_keyed_table_hasnt(delays: Path, years: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("key,value\nA,1\n")
    for option, *words in (
        ("--partition-by", "key"),
        ("--upsert",),
        ("--batch-id", "x"),
        ("--query", "SELECT * FROM _rows"),
    ):
        found = run("ingest", rows, "--to", delays, option, *words)
        assert found.code == 2 and option in found.err, option
    found = run("ingest", rows, "--to", years, "--key", "state")
    assert found.code == 2 and "its key is state, year" in found.err
    assert run("ingest", rows, "--to", delays, "--property", "flush_ms=1").code == 2
    lake = delays.parent / "lake"
    done("create", lake)
    assert run("ingest", rows, "--to", lake, "--kind", "keyed").code == 2
    assert run("ingest", rows, "--to", delays, "--kind", "lake").code == 2
    assert run("ingest", rows, "--to", delays.parent / "new", "--kind", "nonsense").code == 2


def test_commands_of_the_other_kind_say_so(delays: Path) -> None:
    for words in (
        ["scan", delays],
        ["merge", delays],
        ["append", delays],
        ["sweep", delays],
        ["checkpoint", delays],
    ):
        found = run(*words, stdin="{}")
        assert found.code == 2, words
        assert "keyed" in found.err
    lake = delays.parent / "lake"
    done("create", lake)
    for words in (["get", lake, "A"], ["put", lake, "A", "b"], ["compact", lake], ["manifest", lake]):
        assert run("keyed", *words).code == 2
    assert run("keyed", "get", delays.parent / "nobody", "A").code == 3


def test_tables_and_schema_know_the_kind(delays: Path, years: Path) -> None:
    done("create", delays.parent / "lake")
    listed = done("tables", delays.parent, "--json").json["tables"]
    assert {t["name"]: t["kind"] for t in listed} == {"delays": "keyed", "lake": "lake", "years": "keyed"}
    done("keyed", "compact", delays, "--full")
    listed = done("tables", delays.parent, "--json").json["tables"]
    assert {t["name"]: t["rows"] for t in listed}["delays"] == 3
    assert "keyed" in done("tables", delays.parent).out
    found = done("schema", years, "--json").json
    assert [c["name"] for c in found["columns"] if c["key"]] == ["state", "year"]
    assert "flights" in done("schema", years).out and "merge operator" in done("schema", years).out
    assert run("schema", years, "--at", "x").code == 2


def test_create_refuses_what_the_kind_hasnt(tmp_path: Path) -> None:
    for words in (["--partition-by", "day(x)"], ["--journal", "writer"], ["--property", "retention=7d"]):
        found = run("create", tmp_path / "db" / "t", "--kind", "keyed", *words)
        assert found.code == 2, words
    assert run("create", tmp_path / "db" / "t", "--merge-operator", "add").code == 2
    assert run("create", tmp_path / "db" / "t", "--kind", "nonsense").code == 2
    assert run("create", tmp_path / "db" / "t", "--kind", "keyed", "--merge-operator", "nonsense").code == 2


def test_drop(delays: Path) -> None:
    assert "would drop delays" in done("drop", delays, "--dry-run").out
    done("drop", delays, "--yes")
    assert run("keyed", "get", delays, "DTW").code == 3
    left = [p.name for p in delays.rglob("*") if p.is_file()]
    assert left == ["table.json"], "the definition stays, marked as dropped"


def test_fsck_and_report(delays: Path, tmp_path: Path) -> None:
    done("keyed", "checkpoint", delays, "monday")
    done("keyed", "compact", delays)
    found = done("fsck", delays, "--blocks", "--json").json
    assert found["ok"] and found["checked"]["SSTs"] == 1
    sst = next(p for p in (delays / "ssts").iterdir())
    data = bytearray(sst.read_bytes())
    data[20] ^= 1
    sst.write_bytes(bytes(data))
    assert run("fsck", delays, "--quick").code == 0
    broken = run("fsck", delays, "--blocks")
    assert broken.code == 1 and sst.name in broken.out
    page = tmp_path / "page.html"
    done("report", delays.parent, "--out", page)
    text = page.read_text()
    assert "level 1, run" in text and "monday" in text


def test_dump_of_every_object(delays: Path) -> None:
    done("keyed", "put", delays, "SEA", "1")  # a second writer, who leaves a fence
    done("keyed", "checkpoint", delays, "monday")
    done("keyed", "compact", delays)
    done("keyed", "sweep", delays)  # which asks for the store's time
    kinds = set()
    assert (delays / "_firn" / "clock").is_file()
    for path in delays.rglob("*"):
        if path.is_file():
            found = done("dump", path, "--json").json
            assert found["problems"] == [], found
            kinds.add(found["kind"])
    own = {"pointer", "manifest", "snapshot", "flush", "SST", "fence"}
    assert kinds >= {"table definition", *(f"{kind} of a keyed table" for kind in own)}
