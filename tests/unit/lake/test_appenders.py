"""Appenders: when they commit, how they wait, what they reject, and how they end."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import firn
from firn.concurrency import at_exit
from firn.concurrency.at_exit import close_of
from firn.errors import OutcomeUnknownError, StoreUnavailableError
from firn.lake import aio
from firn.lake.appender import batch_writer
from firn.lake.appender.appender import Appender
from firn.lake.appender.queue import RowQueue
from firn.lake.table import LakeTable

IDLE = {"seconds": 3600}
"""No commit begins by time."""


@pytest.fixture
def table() -> LakeTable:
    db = firn.connect("memory://")
    return db.create_table("t", properties={"inline": "64KB"})


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A try that failed is followed by the next one at once."""
    monkeypatch.setattr(batch_writer, "_FIRST_PAUSE_S", 0.0)


class Gate:
    """Stops the log PUTs of a table's bucket, or has them fail."""

    def __init__(self, table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open, self.reached, self.error = threading.Event(), threading.Event(), None
        put = table.bucket.put

        def gated(key: str, data: bytes, **more: Any) -> str:
            if "/_log/" in key:
                self.reached.set()
                assert self.open.wait(30)
                if self.error is not None:
                    raise self.error
            return put(key, data, **more)

        monkeypatch.setattr(table.bucket, "put", gated)


@pytest.fixture
def gate(table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(table, monkeypatch)
    yield gate
    gate.open.set()


def numbers(table: LakeTable) -> list[int]:
    return sorted(table.scan().to_arrow().column("n").to_pylist())


def appends(table: LakeTable) -> list[int | None]:
    return [line.rows_added for line in table.history() if line.op == "append"]


# -- when it commits


def test_leaving_the_block_appends_what_is_left(table: LakeTable) -> None:
    with table.appender(**IDLE) as out:
        for n in range(100):
            out.add({"n": n})
        assert out.stats.commits == 0 and out.stats.pending == 100
    assert numbers(table) == list(range(100)) and appends(table) == [100]
    assert (out.stats.rows, out.stats.commits, out.stats.pending) == (100, 1, 0)
    assert out.stats.version == table.version


def test_an_error_of_the_block_appends_what_is_left_too(table: LakeTable) -> None:
    with pytest.raises(ZeroDivisionError), table.appender(**IDLE) as out:
        out.add({"n": 1})
        raise ZeroDivisionError
    assert numbers(table) == [1]


def test_a_commit_begins_with_enough_rows(table: LakeTable) -> None:
    with table.appender(rows=3, **IDLE) as out:
        out.add({"n": 1})
        out.add({"n": 2})
        out.add({"n": 3}, wait=True)
        assert appends(table) == [3]


def test_a_commit_begins_with_enough_bytes(table: LakeTable) -> None:
    with table.appender(bytes=1000, **IDLE) as out:
        out.add({"n": 1, "text": "x" * 900})
        out.add({"n": 2, "text": "x" * 100}, wait=True)
        assert appends(table) == [2]


def test_a_commit_begins_in_time(table: LakeTable) -> None:
    with table.appender(seconds=0.01) as out:
        out.add({"n": 1}, wait=True)
        assert appends(table) == [1]


def test_rows_gather_behind_the_commit_under_way(table: LakeTable, gate: Gate) -> None:
    with table.appender(rows=1, **IDLE) as out:
        out.add({"n": 0})
        assert gate.reached.wait(30)
        for n in range(1, 50):
            out.add({"n": n})
        assert out.stats.pending == 50
        gate.open.set()
    assert appends(table) == [1, 49]


def test_a_flush_returns_when_all_before_it_is_durable(table: LakeTable) -> None:
    with table.appender(**IDLE) as out:
        out.flush()
        out.add({"n": 1})
        out.flush()
        assert numbers(table) == [1]
        out.flush()
    assert appends(table) == [1]


def test_a_row_is_what_it_was_when_it_was_added(table: LakeTable) -> None:
    row = {"n": 0}
    with table.appender() as out:
        for n in range(3):
            row["n"] = n
            out.add(row)
    assert numbers(table) == [0, 1, 2]


def test_a_commit_is_one_request(table: LakeTable) -> None:
    table.append([{"n": -1}])
    before = table.bucket.counters.as_dict()
    with table.appender(**IDLE) as out:
        for n in range(5):
            out.add({"n": n})
            out.flush()
    spent = table.bucket.counters.since(before)
    assert sum(spent[verb] for verb in ("get", "put", "list", "head", "delete")) == spent["put"] == 5


def test_threads_add_each_row_once(table: LakeTable) -> None:
    with table.appender(seconds=0, rows=50) as out, ThreadPoolExecutor(8) as pool:
        for start in range(8):
            pool.submit(lambda start=start: [out.add({"n": n}) for n in range(start, 4000, 8)])
    assert numbers(table) == list(range(4000))


def test_columns_without_a_type_yet_are_left_out(table: LakeTable) -> None:
    with table.appender() as out:
        out.add({"n": 1, "m": None})
        out.flush()
        out.add({"n": 2, "m": "x"})
    assert table.scan().to_arrow().sort_by("n").to_pylist() == [{"n": 1, "m": None}, {"n": 2, "m": "x"}]


# -- back pressure


def test_adding_waits_while_too_much_is_unsent(table: LakeTable, gate: Gate) -> None:
    with table.appender(max_pending=1000, **IDLE) as out:
        for n in range(4):
            out.add({"n": n})
        with pytest.raises(firn.BackPressureError, match="add it again later"):
            out.add({"n": 4}, timeout=0)
        assert gate.reached.wait(30)  # though no limit of a commit was reached
        waiting = threading.Thread(target=out.add, args=({"n": 4},))
        waiting.start()
        gate.open.set()
        waiting.join()
    assert numbers(table) == [0, 1, 2, 3, 4]


# -- a store that fails


def test_failures_are_told_and_tried_again(table: LakeTable, gate: Gate) -> None:
    told: list[Exception] = []

    def on_retry(error: Exception) -> None:
        told.append(error)
        if len(told) == 3:
            gate.error = None

    gate.error = StoreUnavailableError("down")
    gate.open.set()
    with table.appender(on_retry=on_retry, seconds=0) as out:
        out.add({"n": 1}, wait=True)
    assert [str(error) for error in told] == ["down"] * 3 and out.stats.retries == 3
    assert numbers(table) == [1] and out.stats.last_error is None


def test_failures_are_logged_where_nobody_is_told(
    table: LakeTable, gate: Gate, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned = threading.Event()
    warning = batch_writer.log.warning
    monkeypatch.setattr(batch_writer.log, "warning", lambda *args: (warning(*args), warned.set()))
    gate.error = StoreUnavailableError("down")
    gate.open.set()
    with table.appender(seconds=0) as out:
        out.add({"n": 1})
        assert warned.wait(30)
        gate.error = None
    assert numbers(table) == [1] and "trying again" in caplog.text and "down" in caplog.text


def test_closing_in_time_says_what_is_left(table: LakeTable, gate: Gate) -> None:
    out = table.appender(**IDLE)
    out.add({"n": 1})
    out.add({"n": 2})
    with pytest.raises(firn.AppenderError, match="2 rows of it aren't known") as failed:
        out.close(timeout=0)
    assert list(failed.value.unsent) == [{"n": 1}, {"n": 2}]
    with pytest.raises(firn.AppenderError):
        out.add({"n": 3})


# -- rows that don't fit


BAD = [3, 4, 9]


def mixed() -> Iterator[dict[str, Any]]:
    for n in range(12):
        yield {"n": n, "m": "text" if n in BAD else n}


def test_rows_that_dont_fit_are_handed_over_and_the_others_appended(table: LakeTable) -> None:
    table.append([{"n": -1, "m": 0}])
    seen: list[tuple[list[dict[str, Any]], Exception]] = []
    with table.appender(on_reject=lambda rows, error: seen.append((list(rows), error)), **IDLE) as out:
        for row in mixed():
            out.add(row)
    assert [row["n"] for rows, _ in seen for row in rows] == BAD
    assert all(isinstance(error, firn.SchemaConflictError) for _, error in seen)
    assert numbers(table) == [n for n in range(-1, 12) if n not in BAD]
    assert appends(table) == [1, 9] and (out.stats.rows, out.stats.rejected) == (9, 3)


def test_a_check_rejects(table: LakeTable) -> None:
    table.append([{"n": 0}])
    table.alter(checks={"small": "n < 10"})
    seen: list[int] = []
    with table.appender(
        on_reject=lambda rows, error: seen.extend(row["n"] for row in rows), seconds=0
    ) as out:
        for n in (1, 20, 2, 30):
            out.add({"n": n})
        out.add({"n": 3}, wait=True)
        with pytest.raises(firn.CheckFailedError):
            out.add({"n": 40}, wait=True)
    assert numbers(table) == [0, 1, 2, 3] and seen == [20, 30, 40]


def test_the_first_rows_say_what_a_new_column_is(table: LakeTable) -> None:
    seen: list[Any] = []
    with table.appender(on_reject=lambda rows, error: seen.extend(rows), **IDLE) as out:
        for value in (1, 2, "x", 3):
            out.add({"n": value})
    assert numbers(table) == [1, 2, 3] and seen == [{"n": "x"}]


def test_rows_may_be_mended_and_added_again(table: LakeTable) -> None:
    table.append([{"n": 0}])
    out: Appender

    def mend(rows: Any, error: Exception) -> None:
        for row in rows:
            out.add({"n": int(row["n"])})
        with pytest.raises(firn.InvalidInputError, match="would wait for itself"):
            out.flush()

    with table.appender(on_reject=mend, max_pending=1, **IDLE) as out:
        out.add({"n": "7"})
    assert numbers(table) == [0, 7]


def test_without_on_reject_the_appender_fails_and_gives_all_rows_back(table: LakeTable) -> None:
    table.append([{"n": 0}])
    out = table.appender(**IDLE)
    for n in (1, "x", 2):
        out.add({"n": n})
    for call in (out.flush, lambda: out.add({"n": 3}), out.close):
        with pytest.raises(firn.AppenderError) as failed:
            call()
        assert isinstance(failed.value.__cause__, firn.InvalidInputError)
        assert [row["n"] for row in failed.value.unsent] == [1, "x", 2]
    assert numbers(table) == [0]


def test_a_callback_that_fails_keeps_the_rows(table: LakeTable) -> None:
    def fail(rows: Any, error: Exception) -> None:
        raise ZeroDivisionError

    table.append([{"n": 0}])
    with pytest.raises(firn.AppenderError) as failed, table.appender(on_reject=fail) as out:
        out.add({"n": 1})
        out.add({"n": "x"})
    assert isinstance(failed.value.__cause__, ZeroDivisionError) and len(failed.value.unsent) == 2


@pytest.mark.parametrize("row", [5, [{"n": 1}], {}, None, "n", pd.DataFrame({"n": [1]})])
def test_what_isnt_a_row_is_refused_at_once(table: LakeTable, row: Any) -> None:
    with table.appender() as out:
        with pytest.raises(firn.InvalidInputError, match="isn't a row"):
            out.add(row)
        out.add({"n": 1})
    assert numbers(table) == [1]


# -- batch ids


def test_a_source_that_is_read_again_from_its_beginning(table: LakeTable) -> None:
    def load(rows: int) -> None:
        with table.appender(batch_ids="file-1/", rows=10, seconds=0) as out:
            for n in range(rows):
                out.add({"n": n})

    load(20)  # and the process dies
    load(37)
    load(37)
    assert numbers(table) == list(range(37)) and appends(table) == [10, 10, 10, 7]


@pytest.mark.parametrize("end", ["error", "connection", "flush"])
def test_a_source_that_stops_within_a_batch_is_read_again(table: LakeTable, end: str) -> None:
    out = table.appender(batch_ids="file-1/", rows=10)
    with pytest.raises((ZeroDivisionError, firn.FirnError)), out:
        for n in range(15):
            out.add({"n": n})
        if end == "connection":
            close_of(table.context.engines)
        if end == "flush":
            out.flush()
        raise ZeroDivisionError
    assert numbers(table) == list(range(10))
    with table.appender(batch_ids="file-1/", rows=10) as again:
        for n in range(25):
            again.add({"n": n})
    assert numbers(table) == list(range(25))


@pytest.fixture(params=["leaderless", "writer"])
def counting(request: pytest.FixtureRequest) -> LakeTable:
    db = firn.connect("memory://", writer="w" if request.param == "writer" else None)
    return db.create_table("t", journal=request.param, properties={"inline": "64KB"})


def add_to(out: Appender, rows: range) -> None:
    for n in rows:
        out.add({"n": n})


def test_a_batch_that_was_closed_short_is_completed(counting: LakeTable) -> None:
    for read in (15, 33, 38, 38, 36, 52):
        out = counting.appender(batch_ids="file-1/", rows=10)
        with suppress(ZeroDivisionError):
            try:
                add_to(out, range(read))
                raise ZeroDivisionError
            finally:
                out.close()
        assert out.stats.pending == 0 and out.stats.rows == read
    assert numbers(counting) == list(range(52))
    assert appends(counting) == [10, 5, 5, 10, 3, 5, 2, 10, 2]


def test_of_a_short_batch_rejected_rows_are_counted(counting: LakeTable) -> None:
    counting.append([{"n": -1}])
    bad = list[Any]()
    for read in (5, 8):
        with counting.appender(
            batch_ids="file-1/", rows=10, on_reject=lambda rows, error: bad.extend(r["n"] for r in rows)
        ) as out:
            for n in range(read):
                out.add({"n": n if n not in (2, 6) else f"x{n}"})
    assert numbers(counting) == [-1, 0, 1, 3, 4, 5, 7] and bad == ["x2", "x6"]


def test_a_batch_that_another_appender_closes_short_meanwhile_is_completed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    db = firn.connect("memory://")
    table = db.create_table("t", properties={"inline": "64KB"})
    other = db.table("t").appender(batch_ids="file-1/", rows=10)
    add_to(other, range(4))
    seen = table.journal.seen_batch

    def before_the_other(id: str) -> str | None:
        found = seen(id)
        other.close()
        return found

    monkeypatch.setattr(table.journal, "seen_batch", before_the_other)
    with table.appender(batch_ids="file-1/", rows=10) as out:
        add_to(out, range(10))
    assert numbers(table) == list(range(10)) and appends(table) == [4, 6]


def test_batches_that_others_counted_otherwise_are_refused(counting: LakeTable) -> None:
    with counting.appender(batch_ids="file-1/", rows=10) as out:
        add_to(out, range(25))
    for rows in (5, 20):
        out = counting.appender(batch_ids="file-1/", rows=rows)
        with pytest.raises(firn.AppenderError, match=f"rows=10, and this one has rows={rows}"), out:
            add_to(out, range(25))
    assert numbers(counting) == list(range(25))


def ids(position: int) -> str | None:
    return f"topic-7/{position}" if position % 5 == 4 else None


def test_a_source_names_the_positions_where_batches_end(table: LakeTable) -> None:
    out = table.appender(batch_ids=ids, seconds=0, rows=1)
    for n in range(12):
        out.add({"n": n}, position=n)
    with pytest.raises(firn.InvalidInputError, match="2 rows are in a batch that hasn't ended"):
        out.flush()
    assert numbers(table) == list(range(10)) and appends(table) == [5, 5]
    with pytest.raises(firn.AppenderError) as failed:
        out.close()
    assert [row["n"] for row in failed.value.unsent] == [10, 11]
    with table.appender(batch_ids=ids) as again:  # from what the source knew to be done
        for n in range(5, 20):
            again.add({"n": n}, position=n, wait=ids(n) is not None)
    assert numbers(table) == list(range(20)) and appends(table) == [5, 5, 5, 5]


def test_rejected_rows_leave_their_batch_one_commit(table: LakeTable) -> None:
    table.append([{"n": -1}])
    for _ in range(2):
        with table.appender(batch_ids=ids, on_reject=lambda rows, error: None) as out:
            for n in range(5):
                out.add({"n": n if n != 2 else "x"}, position=n)
    assert numbers(table) == [-1, 0, 1, 3, 4] and appends(table) == [1, 4]


def test_what_batch_ids_cant_be(table: LakeTable) -> None:
    with (
        table.appender() as out,
        pytest.raises(firn.InvalidInputError, match="says nothing to this appender"),
    ):
        out.add({"n": 1}, position=1)
    with table.appender(batch_ids="a/") as out, pytest.raises(firn.InvalidInputError, match="wait for rows"):
        out.add({"n": 1}, wait=True)
    number: Any = 5
    with (
        table.appender(batch_ids=lambda position: number) as out,
        pytest.raises(firn.InvalidInputError, match="it must be the id"),
    ):
        out.add({"n": 1}, position=1)
    out = table.appender(batch_ids=ids, max_pending=300)
    out.add({"n": 1})
    out.add({"n": 2})
    with pytest.raises(firn.InvalidInputError, match="End batches sooner"):
        out.add({"n": 3}, position=4)
    with pytest.raises(firn.AppenderError):
        out.close()


# -- how it ends


def test_after_closing_nothing_is_taken(table: LakeTable) -> None:
    out = table.appender()
    out.close()
    out.close()
    with pytest.raises(firn.InvalidInputError, match="open another one"):
        out.add({"n": 1})


def test_a_connection_that_is_closed_ends_its_appenders() -> None:
    with firn.connect("memory://") as db:
        table = db.create_table("t")
        first, second = table.appender(**IDLE), table.appender(**IDLE)
        first.add({"n": 1})
        second.add({"n": 2})
    assert numbers(table) == [1, 2]
    for call in (lambda: first.add({"n": 3}), table.appender):
        with pytest.raises(firn.DatabaseClosedError, match="connect again"):
            call()


def test_closing_a_connection_waits_for_all_appenders_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("firn.concurrency.at_exit.END_S", 0.05)
    db = firn.connect("memory://")
    table = db.create_table("t")
    gate = Gate(table, monkeypatch)
    outs = [table.appender(**IDLE) for _ in range(3)]
    for n, out in enumerate(outs):
        out.add({"n": n})
    with pytest.raises(firn.AppenderError) as failed:
        db.close()
    assert len(failed.value.unsent) == 1
    for out in outs:
        with pytest.raises(firn.AppenderError):
            out.flush()
    gate.open.set()


def test_at_exit_appenders_have_their_time_together(
    table: LakeTable, gate: Gate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("firn.concurrency.at_exit.END_S", 0.05)
    monkeypatch.setattr("firn.concurrency.at_exit.unclosed", handles := set())
    monkeypatch.setattr("firn.concurrency.at_exit._ending", [])
    for n in range(3):
        out = table.appender(**IDLE)
        handles.add(out._queue)
        out.add({"n": n})
    at_exit._close_all()
    assert len([r for r in caplog.records if "1 rows of it aren't known to be appended" in r.message]) == 3


def test_a_dropped_table_fails_the_appender(table: LakeTable) -> None:
    table.append([{"n": 0}])
    with firn.connect("memory://") as db:
        table = db.create_table("t", properties={"schema_refresh": "0s"})
        table.append([{"n": 0}])
        out = table.appender(**IDLE)
        db.drop_table("t")
        out.add({"n": 1})
        with pytest.raises(firn.AppenderError) as failed:
            out.flush()
        assert isinstance(failed.value.__cause__, firn.TableNotFoundError)


def test_a_forked_child_refuses_and_the_parent_goes_on(table: LakeTable) -> None:
    with table.appender(**IDLE) as out:
        out.add({"n": 1})
        read, write = os.pipe()
        if (child := os.fork()) == 0:
            said = b""
            for call in (lambda: out.add({"n": 2}), out.flush, out.close, lambda: out.stats):
                try:
                    call()
                except firn.InvalidInputError as error:
                    said += b"." if "forked from" in str(error) else b"?"
            os.write(write, said)
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read, 10) == b"...."
        os.close(read), os.close(write)
        out.add({"n": 3})
    assert numbers(table) == [1, 3]


def test_arguments_are_checked(table: LakeTable) -> None:
    for bad in ({"rows": 0}, {"bytes": "0B"}, {"max_pending": 0}, {"seconds": "soon"}, {"rows": "many"}):
        for verb in (table.appender, table.aio.appender):
            with pytest.raises(firn.InvalidInputError):
                verb(**bad)


def test_a_transaction_has_no_appender() -> None:
    db = firn.connect("memory://", writer="w")
    db.create_table("cpu", journal="writer", schema={"n": "BIGINT"}).append([{"n": 1}])
    with (
        db.writer_transaction() as tx,
        pytest.raises(firn.InvalidInputError, match="a transaction has no appender"),
    ):
        tx.table("cpu").appender()


def test_a_connection_without_a_writer_has_none(tmp_path: Path) -> None:
    firn.connect(tmp_path, writer="w").create_table("cpu", journal="writer").append([{"n": 1}])
    with pytest.raises(firn.InvalidInputError, match="only reads"):
        firn.connect(tmp_path).table("cpu", kind="lake").appender()


# -- other tables


def test_a_table_with_a_key_keeps_the_last_row(table: LakeTable) -> None:
    stock = firn.connect("memory://").create_table("stock", key=["id"], properties={"inline": "64KB"})
    with stock.appender(**IDLE) as out:
        for n in range(10):
            out.add({"id": n % 2, "n": n})
    assert sorted(row["n"] for row in stock.scan().to_arrow().to_pylist()) == [8, 9]


def test_a_shared_table_gets_files() -> None:
    table = firn.connect("memory://").create_table("t", properties={"shared": "icedb"})
    with table.appender() as out:
        out.add({"n": 1})
    assert numbers(table) == [1] and len(table.snapshot().objects) == 1


class Catalog:
    """A writer's catalog whose next requests of a verb are done and not answered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.table = firn.connect("memory://", writer="w").create_table("cpu", journal="writer")
        self.table.append([{"n": 0}])
        self.silent = 0
        for verb in ("put", "put_if_absent"):
            monkeypatch.setattr(self.table.bucket, verb, self.unanswered(getattr(self.table.bucket, verb)))

    def unanswered(self, verb: Callable[..., str]) -> Callable[..., str]:
        def call(key: str, *arguments: Any, **more: Any) -> str:
            if self.silent <= 0 or not ("/transactions/" in key or "/claims/" in key):
                return verb(key, *arguments, **more)
            self.silent -= 1
            if self.silent % 2:
                verb(key, *arguments, **more)
            raise OutcomeUnknownError("not answered")

        return call


@pytest.mark.parametrize("silent", range(1, 14))
def test_a_writers_catalog_settles_what_was_in_doubt(monkeypatch: pytest.MonkeyPatch, silent: int) -> None:
    catalog = Catalog(monkeypatch)
    monkeypatch.setattr(catalog.table.bucket, "get", _seldom(catalog, catalog.table.bucket.get))
    with catalog.table.appender(**IDLE, on_retry=lambda error: None) as out:
        for n in range(1, 4):
            catalog.silent = silent
            out.add({"n": n})
            out.flush()
    assert numbers(catalog.table) == [0, 1, 2, 3]


def _seldom(catalog: Catalog, get: Callable[..., Any]) -> Callable[..., Any]:
    def call(key: str) -> Any:
        if catalog.silent > 0 and "/claims/" in key:
            raise StoreUnavailableError("down")
        return get(key)

    return call


# -- asyncio


def test_tasks_add_and_wait(table: LakeTable) -> None:
    async def main() -> None:
        async with table.aio.appender(seconds=0.01) as out:
            await asyncio.gather(*(out.add({"n": n}, wait=n % 10 == 0) for n in range(100)))
            await out.add({"n": 100})
            await out.flush()
            assert out.stats.rows == 101
            await out.add({"n": 101})
        with pytest.raises(firn.InvalidInputError):
            await out.add({"n": 0})

    asyncio.run(main())
    assert numbers(table) == list(range(102))


def test_a_cancelled_task_has_added_its_row_or_not(table: LakeTable, gate: Gate) -> None:
    async def main() -> None:
        out = await table.aio.appender(max_pending=300, **IDLE)
        await out.add({"n": 0})
        await out.add({"n": 1})
        waits_for_room = asyncio.create_task(out.add({"n": 2}))
        with pytest.raises(firn.BackPressureError):
            await out.add({"n": 3}, timeout=0)
        await asyncio.sleep(0)
        waits_for_room.cancel()
        flush = asyncio.create_task(out.flush())
        await asyncio.sleep(0)
        flush.cancel()
        gate.open.set()
        await out.flush()
        await out.add({"n": 4})
        closing = asyncio.create_task(out.close())
        await asyncio.sleep(0)
        closing.cancel()
        await out.close()

    asyncio.run(main())
    assert numbers(table) == [0, 1, 4]


def test_the_threads_of_a_table_are_those_of_all_its_calls(table: LakeTable) -> None:
    async def main() -> None:
        await asyncio.gather(*(table.aio.append([{"n": n}]) for n in range(3)))
        await table.aio.run(table.merge)

    asyncio.run(main())
    assert numbers(table) == [0, 1, 2] and table.aio is table.aio


def test_a_close_that_is_cancelled_leaves_no_thread_that_waits(table: LakeTable, gate: Gate) -> None:
    tables, others = table.aio, set(threading.enumerate())

    async def main() -> list[threading.Thread]:
        out = await tables.appender(**IDLE)
        await out.add({"n": 1})
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(out.close(), 0.01)
        return [t for t in set(threading.enumerate()) - others if t.name.startswith("firn-aio")]

    threads = asyncio.run(main())
    tables._threads.close()
    for thread in threads:  # the interpreter would wait for them at its end
        thread.join(10)
        assert not thread.is_alive()


def test_a_task_that_is_cancelled_as_it_opens_leaves_no_appender(
    table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, go_on = threading.Event(), threading.Event()
    queues: list[RowQueue] = []

    class Slow(RowQueue):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            queues.append(self)
            opening.set()
            assert go_on.wait(30)

    monkeypatch.setattr(aio, "RowQueue", Slow)

    async def main() -> None:
        async def open_one() -> None:
            await table.aio.appender()

        task = asyncio.create_task(open_one())
        await asyncio.to_thread(opening.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()

    asyncio.run(main())
    queues[0].ended.result(30)
