"""A kind of table is one object a room: nothing else asks of what kind a table is."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import firn
from firn.cli.kind import ShellKind
from firn.database.kinds.definitions import EARLIEST
from firn.database.kinds.kind import TableKind, kind_named
from firn.database.kinds.records import AnyRecordTable
from firn.inspect.fsck.findings import TableCheck
from firn.keyed.table import KeyedTable
from firn.kinds import FORMAT_VERSIONS, KINDS, PARTS, part_of
from firn.lake.table import LakeTable
from firn.reads import ReadPlanner
from firn.spark.plan import SparkKind
from firn.sql.kinds.kind import SqlKind

SOURCE = Path(firn.__file__).parent

CLASSES = {table.__name__ for table in get_args(LakeTable | KeyedTable | AnyRecordTable)} | {
    kind_named(kind).decode.__annotations__["return"] for kind in KINDS
}
"""The classes by which code could tell kinds apart."""


def own_places() -> set[Path]:
    """The rooms of each kind, and its modules in the rooms above."""
    places = {SOURCE / kind for kind in KINDS}
    for kind in KINDS:
        for part in PARTS.values():
            module = SOURCE.joinpath(*part.format(kind).split(".")[1:])
            places.add(module.parent if module.name == "kind" else module.with_suffix(".py"))
    return places


def ladders(tree: ast.AST) -> Iterator[int]:
    """Lines that ask by class, or by name, of what kind something is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            named = {getattr(n, "id", getattr(n, "attr", "")) for n in ast.walk(node.args[1])}
        elif isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
            about = any(getattr(n, "attr", getattr(n, "id", "")) == "kind" for n in asked)
            values = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
            if about and values & set(KINDS):
                yield node.lineno
            continue
        elif isinstance(node, ast.MatchClass):
            named = {getattr(node.cls, "id", getattr(node.cls, "attr", ""))}
        else:
            continue
        if named & CLASSES:
            yield node.lineno


def test_nothing_above_asks_which_kind_a_table_is() -> None:
    assert {
        "LakeTable",
        "KeyedTable",
        "RecordTable",
        "RowTable",
        "LakeDefinition",
        "KeyedDefinition",
    } <= CLASSES
    own = own_places()
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        if not {path, *path.parents} & own
        for line in ladders(ast.parse(path.read_text()))
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(x, LakeTable)",
        "isinstance(x, firn.KeyedTable | RowTable)",
        "issubclass(t, (int, RecordTable))",
        "x.kind == 'keyed'",
        "'lake' != kind",
        "kind in ('keyed', 'records')",
        "match x:\n    case LakeDefinition(): pass",
    ],
)
def test_a_ladder_is_seen(text: str) -> None:
    assert list(ladders(ast.parse(text)))


@pytest.mark.parametrize("text", ["isinstance(x, StoredDefinition)", "x.kind == 'put'", "name == 'lake'"])
def test_what_is_no_ladder_is_left_alone(text: str) -> None:
    assert not list(ladders(ast.parse(text)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_all_its_parts(kind: Any) -> None:
    table = part_of(kind, "table")
    assert issubclass(table, TableKind) and not inspect.isabstract(table)
    assert table.name == kind
    statements = type(part_of(kind, "sql"))
    assert issubclass(statements, SqlKind) and not inspect.isabstract(statements)
    assert statements.title == table.title
    for part, protocol, answered in (
        ("shell", ShellKind, {"key"}),
        ("spark", SparkKind, {"dataframe", "fields", "frame"}),
    ):
        found = type(part_of(kind, part))
        assert protocol in found.__mro__
        verbs = {name for name, verb in vars(protocol).items() if inspect.isfunction(verb) and name[0] != "_"}
        assert verbs - vars(found).keys() <= answered, part  # by the protocol itself
    asked = inspect.signature(part_of(kind, "check")).parameters
    assert set(inspect.signature(TableCheck.__call__).parameters) - {"self"} <= asked.keys()
    assert callable(part_of(kind, "report"))
    planned = inspect.signature(part_of(kind, "read")).parameters
    assert inspect.signature(ReadPlanner.__call__).parameters.keys() - {"self"} == set(planned)


@pytest.mark.parametrize("kind", KINDS)
def test_tables_and_definitions_say_their_kind(kind: Any) -> None:
    db = firn.connect("memory://")
    assert db.create_table("t", kind=kind).kind == kind
    assert [db.table("t").kind, db.tables(kind)] == [kind, ["t"]]
    db.drop_table("t")
    assert db.tables() == []


def test_kinds_share_no_format_version() -> None:
    assert len(set(FORMAT_VERSIONS.values())) == len(FORMAT_VERSIONS)
    assert set(KINDS) - FORMAT_VERSIONS.keys() == {EARLIEST}  # what nothing tells apart is its
