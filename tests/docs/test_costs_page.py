"""The page of costs is what the model says, and the model's requests are those that a bucket counts."""

from __future__ import annotations

import importlib.util
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import firn
from firn.bucket import store
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.leaderless.replay import checkpoint_writer
from firn.lake.keep.table_keeper import TableKeeper

ROOT = Path(__file__).parents[2]
COMMITS = 64
BEHIND = checkpoint_writer.BEHIND


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_costs", ROOT / "scripts/write_costs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


COSTS = _loaded()


def test_the_page_is_current() -> None:
    text = COSTS.PAGE.read_text("utf-8")
    assert COSTS.TABLE.search(text)
    assert COSTS.written(text) == text, "run `make docs`"


def _rows(number: int) -> pa.Table:
    ids = range(number * 10, number * 10 + 10)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"device-{i % 97}" for i in ids],
            "value": [i * 0.25 for i in ids],
            "at": pa.array([1_700_000_000_000_000 + i for i in ids], pa.timestamp("us", "UTC")),
        }
    )


def _charge(table: Any, operation: Callable[[], object]) -> Any:
    """The requests of an operation, as the model has them."""
    before = table.bucket.counters.as_dict()
    operation()
    spent = table.bucket.counters.since(before)
    return COSTS.Requests(**{verb: spent[verb] for verb in ("get", "put", "list", "delete")})


class _Kept:
    """A table with an appender and a keeper, each a process of its own, as far as the bucket can tell."""

    def __init__(self, inline: bool) -> None:
        self.url = f"memory://{secrets.token_hex(8)}"
        self.inline = inline
        self.appender = firn.connect(self.url).create_table(
            "t", properties={"inline": "64KB" if inline else "0", "schema_refresh": "1h"}
        )
        self.appender.append(_rows(0))
        self.commits = 1
        self.keeper = firn.connect(self.url).table("t")
        self.rounds = TableKeeper(self.keeper.context)
        self.rounds.round(force=True)
        if inline:
            self.keeper.checkpoint()

    def add(self) -> None:
        for _ in range(COMMITS):
            self.appender.append(_rows(self.commits))
            self.commits += 1

    def keep(self) -> None:
        """A fold: of rows by a keeper's round."""
        if self.inline:
            assert self.rounds.round().folds == 1
        else:
            self.keeper.merge()

    def read(self) -> Any:
        db = firn.connect(self.url)
        return _charge(db, lambda: db.table("t").scan().to_arrow())

    def objects(self, below: str) -> list[Any]:
        return list(self.appender.bucket.list(f"t/{below}").objects)


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "files"])
def test_the_model_asks_what_the_bucket_counts(inline: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_PAGE", {"memory": 100})
    monkeypatch.setattr(COSTS, "KEYS_A_PAGE", 100)
    table = _Kept(inline)
    assert _charge(table.appender, lambda: table.appender.append(_rows(1))) == COSTS.append(inline=inline)
    if inline:
        table.add()
    table.keep()
    for folds in (2, 3, 4):  # since the last merge
        table.add()
        logs = len(table.objects("_log/"))
        # The first fold's log is in the checkpoint.
        waiting, files = (COMMITS + folds - 1, folds) if inline else (COMMITS + 1, COMMITS + 1)
        assert table.read() == COSTS.read(waiting, files, logs, checkpoint=inline)
        assert _charge(table.keeper, table.keep) == COSTS.fold(COMMITS, logs, inline=inline)
    logs, files = len(table.objects("_log/")), len(table.objects("_data/"))
    if inline:
        assert _charge(table.keeper, table.keeper.merge) == COSTS.merge(files, logs)
        assert _charge(table.keeper, table.keeper.checkpoint) == COSTS.checkpoint(logs + 1)
        logs, files = logs + 1, files + 1
    before = len(table.objects("")) + 1  # the sweep adds its record
    swept = _charge(table.keeper, lambda: table.keeper.sweep(older_than="0s"))
    assert swept == COSTS.sweep(before - len(table.objects("")), logs, files, inline=inline)


def test_an_appender_looks_for_columns_by_one_page(monkeypatch: pytest.MonkeyPatch) -> None:
    table = firn.connect("memory://").create_table("t", properties={"inline": "64KB"})
    clock = table.journal.clock
    rest, monotonic = [0], clock.monotonic
    monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + rest[0])
    for number in range(4):
        looked = _charge(table, lambda number=number: table.append(_rows(number)))
        rest[0] += COSTS.LOOK_S
    assert looked == COSTS.append(inline=True) + COSTS.look()


def test_an_appender_catches_up_with_the_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_PAGE", {"memory": 100})
    monkeypatch.setattr(COSTS, "KEYS_A_PAGE", 100)
    monkeypatch.setattr(checkpoint_writer, "BEHIND", 10)
    table = firn.connect("memory://").create_table("t", properties={"inline": "64KB", "schema_refresh": "1h"})
    journal = table.journal
    assert isinstance(journal, LeaderlessJournal) and COSTS.BEHIND == BEHIND
    written: list[bool] = []
    lacking = 0
    for number in range(0, 120, 10):
        for each in range(number, number + 10):
            table.append(_rows(each))
        lacking += 10
        spent = _charge(table, lambda: written.append(checkpoint_writer.write_if_behind(journal).written))
        read = lacking if written[-1] else 0
        # The first one looks once more whether the table was dropped meanwhile.
        first = COSTS.Requests(list=1 if number == 0 else 0)
        assert spent == COSTS.catch_up(read, number + 10, writes=written[-1]) + first
        lacking = 0 if written[-1] else lacking
    monkeypatch.setattr(COSTS, "BEHIND", 10)
    assert sum(written) == COSTS._checkpoints(120) < len(written)


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "files"])
def test_the_sizes_are_about_those_of_objects(inline: bool) -> None:
    table = _Kept(inline)
    start = len(table.objects("_log/")), len(table.objects("_data/"))
    table.add()
    sizes = COSTS.Sizes()
    logs = [info.size for info in table.objects("_log/")][start[0] :]
    assert sum(logs) / COMMITS == pytest.approx(sizes.inlined_log if inline else sizes.log, rel=0.1)
    if not inline:
        files = sorted(info.size for info in table.objects("_data/"))[-COMMITS:]
        assert sum(files) / COMMITS == pytest.approx(sizes.file, rel=0.1)
    table.keep()
    live = table.keeper.snapshot().files
    assert max(file.size for file in live) / COMMITS == pytest.approx(sizes.merged, rel=0.25)


def test_the_model_by_hand() -> None:
    prices = COSTS.Prices()
    unkept = COSTS.first_month(1, inline=False, keeper=None)
    assert prices.cents(unkept.requests) == pytest.approx(64.8)
    inlined = COSTS.first_month(1, inline=True, keeper=None)
    assert 43_200 < inlined.requests.put < 43_300 and 43_200 < inlined.requests.get < 43_300
    often = COSTS.first_month(100, inline=True, keeper=COSTS.Keeper(rest_s=1))
    seldom = COSTS.first_month(100, inline=True, keeper=COSTS.Keeper(rest_s=600))
    assert often.requests.put > seldom.requests.put and often.read.get < seldom.read.get
