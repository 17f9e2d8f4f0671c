"""A version that isn't there was answered from another state, and restoring it emptied the table."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

import firn
from cli_runs import run
from lake_journals import EVERY_LAKE


@pytest.fixture(params=sorted(EVERY_LAKE))
def table(request):
    table = EVERY_LAKE[request.param]().create("t")
    for n in range(3):
        table.append([{"n": n}])
    return table


def looks(table, at):
    return [
        lambda: table.scan(at=at).count(),
        lambda: table.snapshot(at),
        lambda: table.schema(at),
        lambda: table.partitions(at),
        lambda: table.restore(at),
    ]


def invented(table):
    known = table.snapshot().version
    if table.context.definition.journal == "writer":
        return ["w=9", "w=1000000", "nobody=1", "9"]
    return [
        "1000000000000_nohost-ffffffffffffffff",
        f"{known}0",
        known[:-1],
        "9999999999999_x-0123456789abcdef",
    ]


def test_a_version_that_isnt_there_is_an_error_that_names_near_ones(table):
    for version in invented(table):
        for look in looks(table, version):
            with pytest.raises(firn.NotFoundError) as raised:
                look()
            assert not isinstance(raised.value, firn.SnapshotTooOldError)
            known = [line.version for line in table.history()]
            near = (
                ["the newest is 4", "there are: w"] if table.context.definition.journal == "writer" else known
            )
            assert any(version in str(raised.value) for version in near), raised.value
    assert table.scan().count() == 3


@pytest.mark.parametrize("at", ["2001-01-01", datetime(2001, 1, 1, tzinfo=timezone.utc)])
def test_a_time_before_the_first_commit_is_an_error(table, at):
    for look in looks(table, at):
        with pytest.raises(firn.NotFoundError, match="as of 2001-01-01"):
            look()
    assert table.scan().count() == 3


@pytest.mark.parametrize("at", ["typo", "w=", "=3", "", "1000000000000"])
def test_what_is_neither_version_nor_time_is_refused(table, at):
    for look in looks(table, at):
        with pytest.raises((firn.InvalidInputError, firn.NotFoundError)) as raised:
            look()
        assert repr(at) in str(raised.value) or at in str(raised.value)
    assert table.scan().count() == 3


def test_what_is_there_is_read_still(table):
    versions = [line.version for line in table.history()]
    assert [table.scan(at=version).count() for version in versions[-3:]] == [1, 2, 3]
    assert table.scan(at=datetime.now(timezone.utc) + timedelta(days=1)).count() == 3
    table.merge()
    assert [table.scan(at=version).count() for version in versions[-3:]] == [1, 2, 3]
    table.restore(versions[-2])
    assert table.scan().count() == 2


def test_the_empty_version_of_a_table_without_commits_is_there():
    table = firn.connect("memory://").create_table("t")
    empty = table.snapshot().version
    assert table.scan(at=empty).count() == table.scan(at="2001-01-01").count() == 0
    table.append([{"n": 1}])
    assert table.scan(at=empty).count() == 0


def test_the_shell_says_that_there_was_no_table(tmp_path):
    firn.connect(tmp_path).create_table("t").append([{"n": 1}])
    found = run("scan", tmp_path / "t", "--at", "2001-01-01")
    assert found.code == 3
    assert "no commit as of 2001-01-01" in found.err
    assert run("restore", tmp_path / "t", "--at", "1000000000000_nohost-ffffffffffffffff").code == 3
