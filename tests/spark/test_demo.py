"""The demo, run as a user runs it, and what it tells them to try next."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

import firn
from firn.cli.demo.command import MARKER, prepare
from firn.cli.demo.flying import fly, pilot
from firn.cli.demo.lake import ERASED, MONTH, search_everything
from firn.cli.demo.processes import Worker
from firn.cli.demo.stage import Stage
from firn.cli.demo.stands import Stands
from firn.inspect.fsck.fsck import check as fsck

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory, child_environment: dict[str, str]) -> dict[str, str]:
    """An environment with `firn` on its path, as in an installed one."""
    programs = tmp_path_factory.mktemp("bin")
    script = programs / "firn"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from firn.cli import main; main()' \"$@\"\n")
    script.chmod(0o755)
    return {**child_environment, "PATH": f"{programs}{os.pathsep}{child_environment['PATH']}"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, shell: dict[str, str]) -> dict[str, Any]:
    """One run of the demo, in a directory with a space in its name."""
    where = tmp_path_factory.mktemp("a place")
    found = subprocess.run(
        ["firn", "demo", "demo db", "--json"], cwd=where, env=shell, capture_output=True, text=True, timeout=900,
        check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert found.stderr == ""
    return {**orjson.loads(found.stdout), "where": where}


def step(demo: dict[str, Any], words: str) -> dict[str, Any]:
    (found,) = (s for s in demo["steps"] if words in s["step"])
    return found  # type: ignore[no-any-return]


def test_all_flights_of_four_processes_are_there(demo: dict[str, Any]) -> None:
    appended = step(demo, "Four processes")
    assert appended["after"]["rows"] == 20_000
    assert appended["measured"][0]["commits"] == 200
    assert appended["measured"][0]["requests"]["put"] >= 200


def test_merge_changes_files_and_no_row(demo: dict[str, Any]) -> None:
    merged = step(demo, "Merge")
    assert merged["before"]["rows"] == merged["after"]["rows"] == 20_000
    assert 3 <= merged["after"]["files"] <= 6  # of three months, and those of rows that stood in logs
    assert step(demo, "mistake")["after"]["rows"] < 20_000


def test_nothing_of_the_erased_rows_is_left_in_any_object(demo: dict[str, Any]) -> None:
    db = firn.connect(demo["where"] / "demo db")
    flights = db.table("flights")
    searched = search_everything(flights, word=ERASED, since=MONTH[0], until=MONTH[1])
    assert vars(searched) == step(demo, "Sweep")["searched"]
    assert searched.rows == flights.scan().count() == step(demo, "January")["after"]["rows"]
    # An independent look: no word of it in any byte that isn't compressed, no row of it in any file.
    for path in (demo["where"] / "demo db" / "flights").rglob("*"):
        if path.is_file():
            lines = path.read_bytes().split(b"\n")
            # The names of deleted files stay for the grace.
            text = b"\n".join(
                line for line in lines if not line.startswith(b'{"p":') or b'"tmb":' not in line
            )
            assert ERASED.encode() not in text
            assert b"2001-01" not in text
    rows = flights.scan().to_arrow()
    assert ERASED not in {*rows["origin"].to_pylist(), *rows["destination"].to_pylist()}


def test_the_search_finds_what_it_should(demo: dict[str, Any], tmp_path: Path) -> None:
    from datetime import datetime

    table = firn.connect(tmp_path).create_table("t", partition_by=["month(date)"])
    table.append([{"date": datetime(2001, 2, 1), "origin": "HNL"}])
    assert search_everything(table, word="DTW", since=MONTH[0], until=MONTH[1]).rows == 1
    for row in (
        {"date": datetime(2001, 2, 1), "origin": "DTW"},
        {"date": datetime(2001, 1, 31, 23), "origin": "HNL"},
    ):
        version = table.snapshot().version
        table.append([row])
        with pytest.raises(firn.FirnError, match="is still in"):
            search_everything(table, word="DTW", since=MONTH[0], until=MONTH[1])
        table.restore(version)
        with pytest.raises(firn.FirnError, match="is still in"):  # not swept yet
            search_everything(table, word="DTW", since=MONTH[0], until=MONTH[1])
        table.sweep(older_than="0s", orphans="0s")
        assert search_everything(table, word="DTW", since=MONTH[0], until=MONTH[1]).rows == 1
    table.bucket.put("t/_firn/note", b"about DTW")
    with pytest.raises(firn.FirnError, match="note"):
        search_everything(table, word="DTW", since=MONTH[0], until=MONTH[1])


def test_airports_are_writers_of_their_own_and_a_lost_catalog_comes_back(demo: dict[str, Any]) -> None:
    departures = step(demo, "airports keep their departures")["measured"][0]
    db = firn.connect(demo["where"] / "demo db")
    assert {(w.name, w.health) for w in db.writers()} == {(n, "ok") for n in ("atlanta", "chicago", "dallas")}
    assert db.table("departures").scan().count() == departures["rows"] > 1000
    lost = step(demo, "the whole catalog of atlanta is deleted")["measured"][0]
    assert lost["title"] == "rebuild" and lost["requests"]["put"] > 0


def test_delays_are_counted_once_by_two_writers(demo: dict[str, Any]) -> None:
    merges = [
        step(demo, words)["measured"][0] for words in ("counts each airport", "A second writer takes over")
    ]
    assert sum(measured["flights"] for measured in merges) == 20_000
    # 20 batches of 500: each waits for its own flush, and nothing is read for an operand.
    assert merges[0]["requests"]["put"] < 30
    delays = firn.connect(demo["where"] / "demo db").table("delays", kind="keyed")
    with delays.reader() as reader:
        counted = dict(reader.scan())
    assert sum(row["flights"] for row in counted.values()) == 20_000
    assert counted[ERASED]["flights"] == 458  # of Detroit; the erasure was of the lake's rows
    view = delays.view()
    assert len(view.pointer.infos) >= 1 and not view.l0
    assert step(demo, "Spark compacts the keyed table")["measured"][0]["requests"]["put"] > 0


def test_aircraft_are_neither_lost_nor_made_when_processes_are_killed(demo: dict[str, Any]) -> None:
    flown = step(demo, "two processes fly aircraft")["measured"][-1]
    assert flown["flights"] == 120
    assert step(demo, "SIGKILL")["counts"] > 0
    db = firn.connect(demo["where"] / "demo db")
    assert sum(row["aircraft"] for row in db.table("stands", kind="records").scan()) == 20_000
    assert db.table("flown", kind="records").scan().to_arrow().num_rows == 240
    assert fsck(db).problems == ()
    assert step(demo, "Spark SQL joins record tables")
    # Two tables, the airports, and 240 flights, of which none was committed twice.
    assert db.table("stands", kind="records").session.store.log.refresh().number == 2 + 1 + 240
    # A row each, the LIST, and the end of the log, not all 224 rows.
    assert step(demo, "found through an index")["measured"][0]["requests"]["get"] < 10


@pytest.fixture
def stands(tmp_path: Path) -> Stands:
    found = Stands(Stage(str(tmp_path), quiet=True))
    found.load()
    with found.db.begin() as tx:
        fly(tx, found.flights[0])
    return found


def test_flights_are_checked(stands: Stands) -> None:
    first, second = stands.flights[:2]
    assert stands.flown() == {first.number}
    stands.check_flown([first], "one")
    for flights in ([], [second], [first, second]):
        with pytest.raises(firn.FirnError, match="one"):
            stands.check_flown(flights, "one")


def test_half_a_flight_is_found(stands: Stands) -> None:
    with stands.db.begin() as tx:
        row = tx.get("stands", stands.flights[1].origin)
        tx.update("stands", row.id, {**row, "aircraft": row["aircraft"] - 1})
    with pytest.raises(firn.FirnError, match="doesn't hold"):
        stands.flown()


def test_what_a_process_raises_is_heard_and_one_that_was_ended_is_missed() -> None:
    with Worker(math.sqrt, "four") as worker, pytest.raises(firn.FirnError, match="exactly one argument"):
        worker.hear()
    with Worker(pilot, "memory://one", {}) as worker:
        assert worker.hear() == "ready"
        worker.process.kill()
        with pytest.raises(firn.OutcomeUnknownError, match="from outside"):
            worker.hear()


def test_the_report_is_written(demo: dict[str, Any]) -> None:
    text = (demo["where"] / demo["report"]).read_text()
    assert "What it took" in text
    assert "airports" in text


def test_the_commands_to_try_next_work(demo: dict[str, Any], shell: dict[str, str]) -> None:
    assert len(demo["try_next"]) >= 5
    for command in demo["try_next"]:
        found = subprocess.run(
            ["bash", "-c", command], cwd=demo["where"], env=shell, capture_output=True, text=True, timeout=600,
            check=False,
        )  # fmt: skip
        assert found.returncode == 0, (command, found.stderr)
        assert found.stdout.strip(), command


def test_it_tells_a_person_what_it_does_and_ctrl_c_ends_everything(
    tmp_path: Path, shell: dict[str, str]
) -> None:
    children: dict[int, psutil.Process] = {}
    said: list[str] = []
    with subprocess.Popen(
        ["firn", "demo", "db"], cwd=tmp_path, env=shell, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        stdout = process.stdout
        reader = threading.Thread(target=lambda: said.extend(iter(stdout.readline, "")))
        reader.start()
        try:
            deadline = time.monotonic() + 300
            # As soon as the processes are there, or later: wherever the interrupt falls, all must end.
            while len(children) < 4 and process.poll() is None and time.monotonic() < deadline:
                children.update({p.pid: p for p in _descendants(process.pid)})
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(timeout=120) == 130
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            reader.join()
        complained = process.stderr.read()
    assert len(children) >= 4
    _, alive = psutil.wait_procs(list(children.values()), timeout=60)
    assert alive == []
    assert complained == "error: interrupted\n"
    assert "Four processes append" in "".join(said)
    # What it left is a demo's: it can be started over.
    assert prepare(str(tmp_path / "db"), {}, fresh=True, keep=False) == str(tmp_path / "db")


def test_ctrl_c_while_spark_starts_leaves_no_jvm(tmp_path: Path, shell: dict[str, str]) -> None:
    command = ["firn", "sql", "SELECT 1", "--engine", "spark", "--db", str(tmp_path), "--json"]
    with subprocess.Popen(
        command, env=shell, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if any(
                "SparkSubmit" in " ".join(_words(p)) or "spark-submit" in _words(p)
                for p in _descendants(process.pid)
            ):
                break
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert orjson.loads(out)["error"]["kind"] == "interrupted"
    assert err == ""
    left = [p for p in psutil.process_iter() if _session(p) == process.pid]
    _, alive = psutil.wait_procs(left, timeout=60)
    assert alive == []


def _words(process: psutil.Process) -> list[str]:
    try:
        return [Path(word).name for word in process.cmdline()]
    except psutil.Error:
        return []


def _session(process: psutil.Process) -> int | None:
    try:
        return os.getsid(process.pid)
    except ProcessLookupError:
        return None


def _descendants(pid: int) -> Iterator[psutil.Process]:
    try:
        yield from psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return


def test_it_prints_at_most_80_columns_and_breaks_no_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = Stage(str(tmp_path), quiet=False)
    stage.step("step " * 30)
    stage.say("word " * 30)
    stage.quote("SELECT 1\n  FROM " + "x" * 90)
    stage.table(["name", "n", "mean"], [("a name " * 20, 1_000, 0.5)])
    with stage.work("work " * 10, look=lambda: {"rows": 2_000, "size": 1024}) as facts:
        facts["detail"] = "as long as " * 10
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and len(lines) > 12
    assert any(line.startswith("       FROM x") for line in lines)
    assert "   rows 2,000 → 2,000    size 1.0 KB → 1.0 KB" in lines
    stage.quote("firn " * 30, wrap=False)
    assert capsys.readouterr().out.count("\n") == 1


# -- the place


def test_an_earlier_demo_is_kept_unless_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = str(tmp_path / "d")
    assert prepare(url, {}, fresh=False, keep=False) == url
    (tmp_path / "d" / "mine").write_text("x")
    assert prepare(url, {}, fresh=False, keep=False) == f"{url}-2"
    assert "--fresh" in capsys.readouterr().err
    assert prepare(url, {}, fresh=False, keep=True) == f"{url}-3"
    assert (tmp_path / "d" / "mine").exists()
    assert prepare(url, {}, fresh=True, keep=False) == url
    assert not (tmp_path / "d" / "mine").exists()
    assert (tmp_path / "d" / MARKER).exists()


def test_a_directory_that_isnt_a_demos_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    for fresh in (False, True):
        with pytest.raises(firn.InvalidInputError, match="not an earlier demo"):
            prepare(str(tmp_path), {}, fresh=fresh, keep=False)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_store_of_one_process_cant_hold_it() -> None:
    with pytest.raises(firn.InvalidInputError, match="process"):
        prepare("memory://demo", {}, fresh=False, keep=False)
