"""The benchmark programs run, at tiny sizes and without their peers, and write what they promise."""

from __future__ import annotations

import importlib
import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
KEYS = {"program", "settings", "machine", "measures", "targets", "notes"}
MEASURE_KEYS = {"name", "engine", "seconds", "median_s", "cpu_seconds", "ratio_to_firn"}


@pytest.fixture
def bench(monkeypatch):
    """Imports a module of bench/, which is no part of what is installed."""
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"bench.{name}")


@pytest.fixture
def run(bench, tmp_path):
    """Runs a program; the JSON that it wrote."""

    def running(name, *arguments):
        bench(name).main(["--no-peers", "--out", str(tmp_path), *arguments])
        return json.loads((tmp_path / f"{name}.json").read_text())

    return running


def measures(result):
    assert result.keys() == KEYS
    assert all(m.keys() >= MEASURE_KEYS for m in result["measures"])
    assert {t.keys() >= {"name", "value", "bound", "kind", "met"} for t in result["targets"]} == {True}
    return {(m["name"], m["engine"]): m for m in result["measures"]}


def test_log_amplification(run):
    result = run("log_amplification", "--appends", "12", "--rows", "8", "--partitions", "2")
    found = measures(result)
    appends = found["12 appends of 8 rows to 2 partitions", "firn"]
    merge = found["one merge of all of it", "firn"]
    assert appends["put"] == 12 * 3
    assert merge["requests"] < appends["put"] + 20
    assert merge["live_files"] == 2
    assert found["one merge of all of it", "reference"]["requests"] == 58_029
    assert all(t["met"] for t in result["targets"])


def test_open_table(run):
    result = run("open_table", "--logs", "40", "--slow-logs", "0", "--newer", "3", "--rounds", "2")
    found = measures(result)
    for place in ("directory", "memory"):
        plain = found[f"{place}, 40 logs", "firn"]
        assert len(plain["seconds"]) == 2
        assert (plain["list"], plain["get"]) == (1, 42)  # the definition, the missing checkpoint, 40 logs
        saved = found[f"{place}, 40 logs, checkpoint + 3 logs", "firn"]
        assert (saved["list"], saved["get"]) == (1, 5)
    assert [t["met"] for t in result["targets"]] == [True, True]


def test_first_answer(run):
    found = measures(run("first_answer", "--rounds", "1"))
    assert {engine for _, engine in found} == {"firn"}
    assert all(m["cpu_s"] > 0 for m in found.values())


def test_keeping(run):
    found = measures(run("keeping", "--writers", "2", "--commits", "100", "--pause", "0", "--rounds", "1"))
    kept = next(m for (_, engine), m in found.items() if engine == "firn")
    assert kept["live_most"] > 0 and {"folds", "lock_misses", "held_p50_ms", "bytes_ratio"} <= kept.keys()


def test_inlined(run):
    found = measures(run("inlined", "--commits", "5", "--more", "6", "--many", "5", "--rounds", "1"))
    assert len(found) == 8 and all(m["seconds"] for m in found.values())


def test_streaming(run):
    found = measures(run("streaming", "--rows", "500", "--seconds", "60"))
    stream = {engine: m for (name, engine), m in found.items() if "one by one" in name}
    assert {m["rows"] for m in stream.values()} == {500} and len(found) == 4
    assert stream["firn"]["commits"] < stream["Firn, by tens"]["commits"] == 50


def test_sql_spill(run):
    found = measures(run("sql_spill", "--gb", "0.001"))
    assert {m["answer"] for m in found.values()} == {67_108, 33_554} and len(found) == 2


def test_merge_into(run):
    sizes = ("--rows", "600", "--changes", "100", "--files", "2", "--rounds", "1", "--appenders", "2")
    found = measures(run("merge_into", *sizes))
    assert {m["rows"] for (name, _), m in found.items() if "appenders" not in name} == {650}
    beside = [m for (name, _), m in found.items() if "appenders" in name]
    assert [(m["failed"], m["merges_failed"]) for m in beside] == [(0, 0)] * 2 and len(found) == 4


@pytest.mark.stores
def test_sql_objects(run):
    found = measures(run("sql_objects", "--rows", "6000", "--small", "3", "--latency", "0", "--rounds", "1"))
    assert {engine for _, engine in found} == {"firn", "Firn's reader"}
    assert {m["rows"] for (name, _), m in found.items() if name != "aggregates of most rows (as Q1)"} == {1}


def test_sql_suites(bench, tmp_path):
    """Without what generates the data, which comes from a registry."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    suites, data, figures = bench("sql_suites"), bench("tpc_data"), bench("figures")
    pq.write_table(pa.table({"k": [1, 2, 2], "x": [0.5, 1.5, None]}), tmp_path / "t.parquet")
    texts = {
        1: "SELECT k, sum(x) AS x FROM t GROUP BY k",
        2: "SELECT k AS a, x AS a FROM t ORDER BY k DESC LIMIT 1",
        3: "SELECT nothing FROM t",
    }
    suite = data.Suite("tiny", 1, {"t": tmp_path / "t.parquet"}, texts)
    found = figures.Figures("sql_suites", {})
    suites.in_process(found, suites.load(tmp_path, suite), suite, texts, rounds=1, peers=True)
    assert (found.settings["agree"], found.settings["differ"]) == ([1, 2], [3])
    assert {m.name for m in found.measures.values() if m.seconds} == {"tiny 1", "tiny 2"}
    assert len(found.targets) == 1


@pytest.mark.parametrize(
    ("mine", "theirs", "same"),
    [
        (({"a": "INTEGER"}, [(1,), (None,)]), ({"a": "INTEGER"}, [(None,), (1,)]), True),
        (({"a": "INTEGER"}, [(1,)]), ({"a": "BIGINT"}, [(1,)]), False),
        (({"a": "INTEGER"}, [(1,)]), ({"a": "INTEGER"}, [(1,), (1,)]), False),
        (({"a": "DOUBLE"}, [(1.0,)]), ({"a": "DOUBLE"}, [(1.0 + 1e-12,)]), True),
        (({"a": "DOUBLE"}, [(1.0,)]), ({"a": "DOUBLE"}, [(1.0 + 1e-6,)]), False),
        (({"a": "INTEGER", "b": "INTEGER"}, []), ({"b": "INTEGER", "a": "INTEGER"}, []), False),
    ],
)
def test_answers_of_sql_suites(bench, mine, theirs, same):
    assert (bench("sql_suites").differs(mine, theirs) is None) == same


def test_many_files(run):
    found = measures(run("many_files", "--files", "3", "--rounds", "1"))
    assert {(name, m["files"], m["rows"]) for (name, _), m in found.items()} == {
        ("all rows", 3, 1),
        ("one key", 3, 0),
    }


def test_small_appends(run):
    result = run(
        "small_appends",
        *("--commits", "3", "--rounds", "2", "--long", "4", "--step", "2", "--writers", "2", "--each", "2"),
        *("--files", "3"),
    )
    found = measures(result)
    paired = found["3 appends of 10 rows", "firn"]
    assert len(paired["seconds"]) == 2
    assert paired["appends_a_s"] > 0
    assert {"appends 0–2", "appends 2–4"} <= {name for name, _ in found}
    together = found["2 processes, 2 appends each", "firn"]
    assert (together["failed"], together["rows_missing"]) == (0, 0)
    assert {
        ("read 3 files of 10 rows in memory", engine) for engine in ("firn", "plain Parquet")
    } <= found.keys()


def test_bloom_pruning(run):
    result = run(
        "bloom_pruning",
        *("--files", "12", "--rows", "300", "--lookups", "6", "--group-rows", "600", "--rounds", "1"),
    )
    found = measures(result)
    appended = found["12 appends of 300 rows", "firn"]
    assert 0 < appended["of_which_filters"] < appended["marker_bytes_a_file"]
    assert found["12 appends of 300 rows", "no filters"]["of_which_filters"] == 0
    for column in ("id", "account"):
        there = found[f"plan 6 lookups by {column}, there", "firn"]
        assert (
            there["files_that_match"],
            found[f"plan 6 lookups by {column}, absent", "firn"]["files_that_match"],
        ) == (1, 0)
        assert 1 <= there["files_opened_a_lookup"] <= 2
        assert found[f"plan 6 lookups by {column}, there", "no filters"]["files_opened_a_lookup"] > 11
    read = {engine: found["read 12 files: 6 lookups", engine]["get"] for engine in ("firn", "no filters")}
    assert read["firn"] < read["no filters"]
    assert {t["met"] for t in result["targets"] if "false positives" in t["name"]} == {True}


def test_keyed_lake(run):
    found = measures(
        run("keyed_lake", "--rows", "2000", "--batches", "2", "--batch-rows", "100", "--rounds", "2")
    )
    for engine in ("firn", "no key"):  # a key costs an upsert no request
        assert found["upsert 100 rows", engine]["put"] == 4 + 1
        assert len(found["upsert 100 rows", engine]["seconds"]) == 2
    unmerged, merged = (
        {engine: found[f"read all, {when}", engine] for engine in ("firn", "no key")}
        for when in ("2 batches unmerged", "everything merged")
    )
    assert unmerged["firn"]["rows"] == merged["firn"]["rows"] == 2100
    assert unmerged["no key"]["rows"] == 2200
    assert merged["no key"]["rows"] == 2100
    assert merged["firn"]["get"] == merged["no key"]["get"]
    assert found["look 10 keys up, everything merged", "firn"]["rows"] == 10


def test_writer_catalog(run):
    result = run(
        "writer_catalog",
        *("--transactions", "30", "--newer", "3", "--writers", "3", "--each", "12", "--appends", "3"),
        *("--rows", "10", "--rounds", "1", "--latency", "0", "--small", "4"),
    )
    found = measures(result)
    small = "4 appends of 10 rows by claims"
    assert found[small, "firn"]["put_an_append"] == 2 and found[small, "firn"]["get_an_append"] == 1
    assert found[small, "Firn, a file a commit"]["put_an_append"] == 3
    commits = {name: found[f"append 2 files by {name}", "firn"] for name in ("PUT and LIST", "claims")}
    assert [(c["put"], c["list"], c["get"]) for c in commits.values()] == [(3, 2, 0), (4, 0, 1)]
    opened = found["open, 30 transactions, checkpoint + 3", "firn"]
    assert opened["get"] == 7
    assert found["open, 30 transactions", "firn"]["get"] == 33
    for step in ("append", "scan before the merge", "merge", "scan"):
        assert {e for n, e in found if n == f"3 × 10 rows: {step}"} == {"leaderless log", "writer's catalog"}
    assert {t["met"] for t in result["targets"] if "over" not in t["name"]} == {True}


def test_rebuild(run):
    result = run("rebuild", *("--files", "12", "--commits", "3", "--rows", "5", "--large", "5", "--no-spark"))
    found = measures(result)
    # of 12 files, and the markers of the table's definition and of its first columns
    assert found["rebuild 12 files of 5 rows, 3 commits", "firn"]["footers"] == 14
    assert found["rebuild 5 files of 60,000 rows, 5 commits", "firn"]["share_of_stored_bytes"] < 0.5
    assert {t["met"] for t in result["targets"]} == {True}


def test_planning(run):
    found = measures(run("memory", "--no-spark", "--markers", "200", "--per-log", "20"))
    for name in ("plan a scan over 200 files", "plan a scan over 200 files, checkpoint"):
        measure = found[name, "firn"]
        assert measure["files_left"] == 100  # ten rows a file: ids 1000 to 1999
        assert measure["peak_mb"] > 0


def test_ratios_pair_the_rounds(bench):
    figures = bench("figures").Figures("p", {})
    for firn, peer in [(1.0, 2.0), (10.0, 40.0), (2.0, 6.0)]:
        figures.record("w", "firn", firn)
        figures.record("w", "peer", peer)
    assert figures.ratio("w", "peer") == 3
    assert figures.ratio("w", "other") is None
    figures.record("w", "slow", 5.0)
    assert figures.fastest("w", ["peer", "slow", "other"]) == 3


def test_engines_take_turns(bench):
    figures = bench("figures").Figures("p", {})
    turns = []
    figures.pairs("w", {e: (lambda e=e: turns.append(e)) for e in "ab"}, rounds=3)
    assert turns == ["a", "b", "b", "a", "a", "b"]
    assert len(figures.measure("w", "a").seconds) == 3


def test_missed_targets_are_shown_and_fail_nothing(bench):
    figures = bench("figures").Figures("p", {})
    figures.target("few", 3, at_most=2)
    figures.target("many", 3.0, at_least=2)
    figures.target("unknown", None, at_least=2)
    assert [t["met"] for t in figures.as_dict()["targets"]] == [False, True, None]
    text = io.StringIO()
    figures.show(Console(file=text, width=120))
    assert [word in text.getvalue() for word in ("missed", "met", "not measured")] == [True] * 3


def test_unknown_programs_are_named(bench, capsys):
    with pytest.raises(SystemExit):
        bench("__main__").main(["nothing"])
    assert "there is no 'nothing'" in capsys.readouterr().err


def test_every_program_is_in_the_readme(bench):
    text = (ROOT / "bench" / "README.md").read_text()
    for program in bench("__main__").PROGRAMS:
        assert f"| `{program.name}` |" in text
        assert importlib.util.find_spec(f"bench.{program.name}") is not None


def test_the_proxy_counts_and_waits(bench):
    slow_store = bench("slow_store")
    if slow_store.server_program() is None:
        with pytest.raises(FileNotFoundError, match="versitygw"), slow_store.slow_store(0.0):
            pass
        return
    import firn

    with slow_store.slow_store(0.0) as store:
        db = firn.connect(f"{store.url}/db", options=store.firn_options)
        before = db.bucket.counters.requests
        facts: dict[str, int] = {}
        with store.counted(facts):
            db.create_table("t").append([{"a": 1}])
            assert db.table("t").scan().count() == 1
        assert facts["requests"] == db.bucket.counters.requests - before


def test_keyed(run):
    found = measures(run("keyed", "--keys", "400", "--samples", "20", "--rounds", "1"))
    for store in ("memory", "directory"):
        assert found[f"{store}, 400 keys: flush", "firn"]["put"] == 8
        assert found[f"{store}, 400 keys: cold get", "firn"]["gets_a_key"] <= 1
        assert found[f"{store}, 400 keys: compact", "firn"]["written_bytes"] > 0


def test_records(bench, tmp_path):
    program = bench("records")
    program.main(
        [
            *("--out", str(tmp_path), "--rows", "1", "3", "--indices", "0", "2", "--stores", "memory", "directory"),
            *("--clients", "1", "2", "--conflicts", "50", "--seconds", "0.01", "--readers", "1"),
            *("--commits", "20", "40", "--entries", "200", "--samples", "5"),
            *("--load-rows", "30", "--scanned", "40", "--rounds", "1", "--no-spark"),
        ]
    )  # fmt: skip
    result = json.loads((tmp_path / "records.json").read_text())
    found = measures(result)
    assert found["n = 3, c = 0: get, change and commit rows", "firn"]["requests"] == 3 + 2
    assert found["n = 3, c = 1: apply that", "firn"]["requests"] == "6 12"
    for store, peers in (("memory", set()), ("directory", {"SQLite"})):
        alone, both = (
            f"{store}, {n} at once, {share}% of changes to one row" for n, share in ((1, 0), (2, 50))
        )
        assert {engine for name, engine in found if name == alone} == {"firn", *peers}
        assert {engine for name, engine in found if name == both} == {"firn", "firn, a Database each", *peers}
        assert found[both, "firn"]["changes_a_s"] > 0
        assert found[f"{store}, 1 readers, 1 writers", "firn"]["changes_a_s"] > 0
        read = f"{store}: read 40 rows in one process"
        assert (
            found[read, "firn"]["requests"] == 40 + 2
        )  # the LIST, and the definition: the table may be dropped meanwhile
        assert found[read, "plain GETs"]["rows_a_s"] > 0
    assert found["40 commits: begin", "firn"]["requests_each"] == 1
    # A row and two entries; besides, the commit, and that it is applied.
    for engine in ("firn", "plain puts"):
        assert 3 <= found["directory: 30 rows, 2 indices", engine]["puts_a_row"] < 3.1
    assert found["truncate 40 commits", "firn"]["records"] == 39
    assert found["find 10 of 200", "SQLite"]["ratio_to_firn"] > 0
    assert {t["met"] for t in result["targets"] if "requests" in t["name"]} == {True}


def test_s3_is_left_out_where_there_is_no_server(bench, monkeypatch, tmp_path):
    monkeypatch.setattr(bench("record_places"), "server_program", lambda: None)
    figures = bench("records").main(["--parts", "readers", "--stores", "S3", "--out", str(tmp_path)])
    assert figures.measures == {}
    assert "S3 was left out" in figures.notes[0]


def test_a_bucket_of_ones_own_is_left_as_it_was(bench, tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("mine")
    program, url = bench("records"), str(tmp_path / "bucket")
    figures = program.main(
        [
            "--parts",
            "readers",
            "--stores",
            "--url",
            url,
            "--seconds",
            "0.01",
            "--readers",
            "1",
            "--out",
            str(tmp_path),
        ]
    )
    assert figures.measure(f"{url}, 1 readers, 1 writers", "firn").detail["reads_a_s"] > 0
    assert [
        file for file in (tmp_path / "bucket").rglob("*") if file.is_file() and ".firn" not in str(file)
    ] == []


def test_percentiles(bench):
    percentile = bench("record_clients").percentile
    hundred = list(range(1, 101))
    assert [percentile(hundred, share) for share in (0.5, 0.99, 1)] == [50, 99, 100]
    assert percentile([7], 0.5) == percentile([7], 0.99) == 7


def test_a_change_that_is_lost_is_seen(bench, monkeypatch):
    """No engine is fast by losing what it was told."""
    clients = bench("record_clients")

    client = SimpleNamespace(change=lambda id: 1)
    losing = SimpleNamespace(clients=[client], spent=dict, total=lambda: 1)
    with pytest.raises(AssertionError, match="1 changes are there"):
        clients._changes(bench("figures").Figures("p", {}), "w", "e", losing, 0.0, 0.001)
