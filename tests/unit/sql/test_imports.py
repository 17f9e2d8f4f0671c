"""Modules that a query in this process loads, in a fresh interpreter: a list of names, as times say less."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import firn

KINDS = {
    "lake": {"kind": "lake"},
    "keys": {"kind": "lake", "key": ["id"], "schema": {"id": "BIGINT", "n": "BIGINT"}},
    "keyed": {"kind": "keyed", "key": {"id": "BIGINT"}, "schema": {"n": "BIGINT"}},
    "records": {"kind": "records", "schema": {"n": "BIGINT"}},
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with a table of each kind, each with one row."""
    root = tmp_path_factory.mktemp("db")
    db = firn.connect(root)
    for name, options in KINDS.items():
        db.create_table(name, **options)  # type: ignore[call-overload]
    db.table("lake", kind="lake").append([{"id": 1, "n": 7}])
    db.table("keys", kind="lake").append([{"id": 1, "n": 7}])
    with db.table("keyed", kind="keyed").open() as kv:
        kv.put({"id": 1}, {"n": 7})
    db.table("records", kind="records").insert("a", {"n": 7})
    return str(root)


def loaded(program: str, *arguments: str) -> set[str]:
    """The modules that a program has loaded when it ends."""
    tail = "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    src = str(Path(firn.__file__).parents[1])
    text = f"import sys; sys.path.insert(0, {src!r})\n{program}{tail}"
    done = subprocess.run(
        [sys.executable, "-c", text, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def below(modules: set[str], *names: str) -> set[str]:
    return {module for module in modules for name in names if module == name or module.startswith(f"{name}.")}


QUERY = """
import firn
db = firn.connect(sys.argv[1])
for name in sys.argv[2:]:
    found = db.sql(f"SELECT n FROM {name} WHERE n > 1")
    assert found.to_arrow().to_pylist() == [{"n": 7}] and found.count() == 1, found
"""


def test_a_query_in_this_process_loads_nothing_of_spark(url: str) -> None:
    assert below(loaded(QUERY, url, *KINDS), "pyspark", "py4j", "firn.spark") == set()


def test_connect_loads_no_kind_and_no_arrow(url: str) -> None:
    found = loaded("import firn\nfirn.connect(sys.argv[1])", url)
    heavy = ("pyarrow", "numpy", "duckdb", "sqlglot", "google.protobuf", "asyncio", "ssl", "typer")
    assert below(found, *heavy, "firn.lake", "firn.keyed", "firn.records", "firn.sql") == {
        "firn.records",
        "firn.records.definition",
        "firn.records.definition.settings",
    }
    assert len(below(found, "firn")) < 60


def test_the_first_answer_of_a_lake_table_loads_no_other_kind(url: str) -> None:
    found = loaded("import firn\nassert len(list(firn.connect(sys.argv[1]).sql('FROM lake'))) == 1", url)
    idle = (
        "google.protobuf",
        "asyncio",
        "ssl",
        "pyarrow.fs",
        "pyarrow.parquet",
        "pyarrow.compute",
        "jsonschema",
        "sqlglot",
    )
    assert (
        below(found, *idle, "firn.keyed", "firn.database.kinds.keyed", "firn.database.kinds.records") == set()
    )
    assert len(below(found, "firn")) < 170


def test_files_of_this_machine_are_grouped_without_a_parser(tmp_path: Path) -> None:
    table = firn.connect(tmp_path).create_table("t", properties={"inline": "64KB"})
    for n in range(70):
        table.append([{"n": n}])
    for n in range(3):
        table.append(pa.table({"n": np.random.default_rng(n).integers(0, 1 << 62, 100_000)}))
    assert sum(file.size for file in table.snapshot().files) > 2 << 20
    program = "import firn\nassert len(list(firn.connect(sys.argv[1]).sql('SELECT max(n) FROM t'))) == 1"
    assert below(loaded(program, str(tmp_path)), "sqlglot") == set()
    assert "sqlglot" in loaded(program.replace("t'", "t WHERE n > 5'"), str(tmp_path))


def test_the_shell_answers_plain_words_without_a_parser(url: str) -> None:
    program = f"""
sys.argv = ["firn", "sql", "SELECT n FROM lake", "--db", {url!r}, "--csv"]
from firn.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code
"""
    heavy = ("typer", "click", "rich.console", "pydantic", "pyarrow.compute", "sqlglot")
    assert below(loaded(program), *heavy) == set()


def test_the_shell_builds_the_command_that_is_asked_for_alone(url: str) -> None:
    program = f"""
sys.argv = ["firn", "sql", "SELECT n FROM lake", "--db", {url!r}, "--"]
from firn.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code
from firn.cli.app import app
assert [command.callback.__name__ for command in app.registered_commands] == ["sql"]
"""
    assert (
        below(loaded(program), "firn.keyed.table", "firn.records.table", "google.protobuf", "pyspark")
        == set()
    )


def test_each_public_name_is_found_in_a_fresh_process() -> None:
    loaded(
        """
import firn
found = {name: getattr(firn, name) for name in firn.__all__}
others = {name for name, one in found.items() if not isinstance(one, type)}
assert others == {"__version__", "connect"}, others
"""
    )
