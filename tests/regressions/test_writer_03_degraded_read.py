"""A writer that couldn't be read was left out of every answer in silence, and a shell couldn't ask for an error."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import pytest

import firn
from cli_runs import done, run
from firn.degraded import forget_warnings
from writer_databases import UNCLAIMED, fork, keys, layout, two_writers


def spoil(db: firn.Database) -> None:
    """One flipped bit in a transaction of the writer `b`."""
    key = keys(db.bucket, layout("b").transactions_prefix)[0]
    body = bytearray(db.bucket.get(key).data)
    body[len(body) // 2] ^= 1
    db.bucket.put(key, bytes(body))


def test_a_writer_that_is_left_out_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spoil(two_writers(tmp_path))
    scan = firn.connect(tmp_path / "prod").table("cpu").scan()
    with pytest.warns(firn.DegradedReadWarning, match="writer b is left out.*`firn rebuild`") as warned:
        assert scan.count() == 1
    assert len(warned) == 1 and str(tmp_path / "prod/cpu") in str(warned[0].message)
    assert "the writer b is left out" in scan.explain()
    result = firn.connect(tmp_path / "prod").sql("FROM cpu")
    assert "\n  warning: the writer b is left out" in result.explain()
    assert [text[:29] for text in result.warnings] == ["cpu: the writer b is left out"]
    said = [record for record in caplog.records if record.name == "firn"]
    assert [record.levelno for record in said] == [logging.WARNING]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        firn.connect(tmp_path / "prod").table("cpu").scan().count()  # once a process
    with pytest.raises(firn.CorruptObjectError):
        firn.connect(tmp_path / "prod", strict=True).table("cpu")


def test_a_fork_is_said(tmp_path: Path) -> None:
    db = two_writers(tmp_path, options=UNCLAIMED)
    fork(db.bucket)
    with pytest.warns(firn.DegradedReadWarning, match="writer a has an open fork.*`firn repair --keep UUID`"):
        firn.connect(tmp_path / "prod", options=UNCLAIMED).table("cpu").scan().count()


@pytest.mark.parametrize("read", ["snapshot", "partitions", "schema", "merge"])
def test_every_way_of_reading_says_it(tmp_path: Path, read: str) -> None:
    spoil(two_writers(tmp_path))
    table = firn.connect(tmp_path / "prod", writer="a").table("cpu")
    forget_warnings()
    with pytest.warns(firn.DegradedReadWarning, match="writer b is left out"):
        getattr(table, read)()


def test_the_shell_fails_if_it_is_told_to(tmp_path: Path) -> None:
    spoil(two_writers(tmp_path))
    prod = tmp_path / "prod"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as the command does
        assert "writer b is left out" in done("scan", prod / "cpu", "--count").err
    for command in (
        ["scan", prod / "cpu", "--count"],
        ["schema", prod / "cpu"],
        ["tables", prod],
    ):
        refused = run(*command, "--strict")
        assert refused.code and "`firn rebuild`" in refused.err
