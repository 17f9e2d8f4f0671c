"""alter: what each option asks of the table, and what is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import firn
from cli_runs import done, run
from firn.alter import AlterResult
from firn.lake.table import LakeTable


@pytest.fixture
def url(tmp_path: Path) -> str:
    db = firn.connect(tmp_path)
    db.create_table("t", schema={"day": "DATE", "delay": "INTEGER", "tail": "VARCHAR"})
    db.create_table("k", kind="keyed", key={"id": "BIGINT"}, schema={"n": "BIGINT"})
    return str(tmp_path)


def test_options_are_the_arguments_of_the_verb(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def alter(
        table: LakeTable, *, rename: Any = None, drop: Any = (), add: Any = None, types: Any = None,
        comments: Any = None, comment: Any = None, set_properties: Any = None, partition_by: Any = None,
        sort_by: Any = None, checks: Any = None, dry_run: bool = False,
    ) -> AlterResult:  # fmt: skip
        given = {name: value for name, value in locals().items() if name not in ("table", "asked")}
        asked.update({name: value for name, value in given.items() if value not in (None, (), False)})
        return AlterResult("9", ("changed",))

    monkeypatch.setattr(LakeTable, "alter", alter)
    found = done(
        "alter", f"{url}/t", "--rename", "delay=minutes", "--drop", "tail", "--type", "delay=DOUBLE",
        "--add", "n DECIMAL(4, 2) DEFAULT -5 COMMENT 'x'", "--add", '"a b" VARCHAR',
        "--comment", "day=of = departure", "--comment", "a b=", "--comment-table", "",
        "--set", "codec=zstd", "--unset", "retention", "--sort-by", "",
        "--partition-by", "day(day)", "--partition-by", "n",
        "--check", "sane=minutes >= -200", "--drop-check", "old", "--dry-run",
    )  # fmt: skip
    assert asked == {
        "rename": {"delay": "minutes"},
        "drop": ["tail"],
        "add": {"n": ("DECIMAL(4, 2)", -5), "a b": "VARCHAR"},
        "types": {"delay": "DOUBLE"},
        "comments": {"n": "x", "day": "of = departure", "a b": None},
        "comment": "",
        "set_properties": {"codec": "zstd", "retention": None},
        "partition_by": ["day(day)", "n"],
        "sort_by": [],
        "checks": {"sane": "minutes >= -200", "old": None},
        "dry_run": True,
    }
    assert "t would change (dry run: nothing was changed)\n  changed" in found.out


def test_a_lake_table_is_altered(url: str) -> None:
    firn.connect(url).table("t", kind="lake").append([{"delay": 5}])
    found = done(
        "alter", f"{url}/t", "--rename", "delay=minutes", "--drop", "tail", "--add", "n INT DEFAULT 7"
    ).out
    assert "rename delay to minutes" in found and "t changed; version " in found
    assert list(firn.connect(url).sql("FROM t")) == [{"day": None, "minutes": 5, "n": 7}]
    assert "nothing to change in t" in done("alter", f"{url}/t", "--unset", "codec").out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--partition-by", "n"], "leave --partition-by out"),
        (["--check", "a=n > 1", "--set", "flush_ms=20"], "leave --check out"),
        (["--set", "a=1", "--unset", "a"], "both --set and --unset name 'a'"),
        (["--check", "a=n > 1", "--drop-check", "a"], "both --check and --drop-check name 'a'"),
        (["--add", "m"], "a type should stand here"),
        (["--add", "m INT, DROP n"], "the statement should end here, and not ','"),
        (["--add", "m INT", "--add", "m INT"], "--add names 'm' twice"),
        (["--add", "m INT COMMENT 'x'", "--comment", "m=y"], "both --add and --comment say what 'm' is"),
        (["--rename", "n"], "isn't NAME=VALUE"),
    ],
)
def test_what_is_refused(options: list[str], says: str, url: str) -> None:
    found = run("alter", f"{url}/k", *options, "--fence")
    assert found.code == 2 and says in found.err


def test_a_keyed_table_is_written_and_read_by_its_columns_of_now(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    db.create_table("k", kind="keyed", key={"id": "BIGINT"}, schema={"n": "BIGINT"})
    place = str(tmp_path / "k")
    assert run("keyed", "put", place, "1", '{"n": 5}').code == 0
    assert run("alter", place, "--rename", "n=m", "--add", "c BIGINT DEFAULT 3", "--fence").code == 0
    assert run("keyed", "put", place, "2", '{"m": 6, "c": 7}').code == 0
    assert run("keyed", "get", place, "1").out.strip() == '{"m":5,"c":3}'
    assert run("keyed", "get", place, "2").out.strip() == '{"m":6,"c":7}'
