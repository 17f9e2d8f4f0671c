"""Type names, their joins, and what a table and an append agree on."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.errors import InvalidInputError, SchemaConflictError
from firn.journal.columns import evolve, join, join_loose
from firn.journal.typenames import canonical, parse, quoted

SCALARS = [
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "UHUGEINT",
    "FLOAT",
    "DOUBLE",
    "BOOLEAN",
    "VARCHAR",
    "BLOB",
    "UUID",
    "JSON",
    "ENUM('a', 'b')",
    "ENUM('b')",
    "DATE",
    "TIME",
    "TIME_NS",
    "TIMESTAMP",
    "TIMESTAMP_S",
    "TIMESTAMP_MS",
    "TIMESTAMP_NS",
    "TIMESTAMP WITH TIME ZONE",
    "INTERVAL",
    '"NULL"',
]
decimals = st.integers(1, 38).flatmap(
    lambda p: st.integers(0, p).map(lambda s: f"DECIMAL({p},{s})"),
)
NUMBERS = [*SCALARS[:9], "FLOAT", "DOUBLE"]
scalars = st.sampled_from(SCALARS) | decimals
fields = st.lists(
    st.sampled_from(["a", "b", "A", "year", "x y"]), min_size=1, max_size=3, unique_by=str.lower
)


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    structs = fields.flatmap(
        lambda names: st.tuples(*[inner for _ in names]).map(
            lambda kinds: (
                "STRUCT("
                + ", ".join(f"{quoted(n.lower())} {k}" for n, k in zip(names, kinds, strict=True))
                + ")"
            )
        )
    )
    lists = st.tuples(inner, st.sampled_from(["[]", "[2]", "[3]"])).map("".join)
    return structs | lists | inner.map(lambda kind: f"MAP(VARCHAR, {kind})")


types = st.recursive(scalars, _nested, max_leaves=4)
mostly_joining = st.sampled_from(NUMBERS) | decimals | types


def _unordered(name: str | None) -> object:
    """A type with the order of its struct fields forgotten."""

    def walk(kind: object) -> object:
        if hasattr(kind, "fields"):
            return frozenset((name, walk(inner)) for name, inner in kind.fields)
        if hasattr(kind, "item"):
            return ("list", walk(kind.item), kind.size)
        if hasattr(kind, "key"):
            return ("map", walk(kind.key), walk(kind.value))
        return kind

    return None if name is None else walk(parse(name))


def _join(a: str | None, b: str | None) -> str | None:
    return None if a is None or b is None else join(a, b)


@given(types)
def test_canonical_text_parses_to_itself(name: str) -> None:
    assert str(parse(canonical(name))) == canonical(name)
    assert join(name, name) == canonical(name)


@given(mostly_joining, mostly_joining)
def test_join_is_commutative(a: str, b: str) -> None:
    assert _unordered(join(a, b)) == _unordered(join(b, a))
    assert _unordered(join_loose(a, b)) == _unordered(join_loose(b, a))


@given(mostly_joining, mostly_joining, mostly_joining)
def test_join_is_associative(a: str, b: str, c: str) -> None:
    assert _unordered(_join(_join(a, b), c)) == _unordered(_join(a, _join(b, c)))


def test_join_is_associative_over_all_numbers() -> None:
    names = [*NUMBERS, "DECIMAL(3,0)", "DECIMAL(10,0)", "DECIMAL(12,2)", "DECIMAL(20,0)", "DECIMAL(38,20)"]
    for a in names:
        for b in names:
            for c in names:
                assert _join(_join(a, b), c) == _join(a, _join(b, c)), (a, b, c)


@given(mostly_joining, mostly_joining)
def test_a_join_absorbs_both_sides(a: str, b: str) -> None:
    joined = join(a, b)
    if joined is not None:
        assert join(joined, a) == joined
        assert join(joined, b) == joined


@pytest.mark.parametrize(
    ("a", "b", "joined"),
    [
        ("TINYINT", "BIGINT", "BIGINT"),
        ("UTINYINT", "TINYINT", "SMALLINT"),
        ("UINTEGER", "TINYINT", "BIGINT"),
        ("UBIGINT", "BIGINT", "DECIMAL(20,0)"),
        ("UBIGINT", "HUGEINT", "HUGEINT"),
        ("USMALLINT", "UBIGINT", "UBIGINT"),
        ("FLOAT", "DOUBLE", "DOUBLE"),
        ("INTEGER", "DOUBLE", "DOUBLE"),
        ("SMALLINT", "FLOAT", "DOUBLE"),
        ("BIGINT", "DOUBLE", None),
        ("UINTEGER", "DOUBLE", None),
        ("DECIMAL(5,2)", "DECIMAL(4,3)", "DECIMAL(6,3)"),
        ("DECIMAL(38,0)", "DECIMAL(5,2)", None),
        ("INTEGER", "DECIMAL(5,2)", "DECIMAL(12,2)"),
        ("BIGINT", "DECIMAL(30,20)", None),
        ("DECIMAL(10,0)", "HUGEINT", "HUGEINT"),
        ("DECIMAL(10,1)", "HUGEINT", None),
        ("DECIMAL(10,1)", "DOUBLE", None),
        ("BOOLEAN", "TINYINT", None),
        ("BIGINT", "VARCHAR", None),
        ("VARCHAR", "BLOB", None),
        ("UUID", "VARCHAR", "VARCHAR"),
        ("ENUM('a')", "ENUM('b')", "VARCHAR"),
        ("TIMESTAMP_S", "TIMESTAMP", "TIMESTAMP"),
        ("TIMESTAMP", "TIMESTAMP_NS", None),
        ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE", None),
        ("DATE", "TIMESTAMP", None),
        ("TIME", "TIME_NS", "TIME_NS"),
        ('"NULL"', "DATE", "DATE"),
        ('"NULL"[]', "DATE[]", "DATE[]"),
        ("INTEGER[]", "BIGINT[]", "BIGINT[]"),
        ("INTEGER[3]", "BIGINT[3]", "BIGINT[3]"),
        ("INTEGER[3]", "BIGINT[4]", "BIGINT[]"),
        ("INTEGER[]", "INTEGER", None),
        ("MAP(VARCHAR, INTEGER)", "MAP(VARCHAR, BIGINT)", "MAP(VARCHAR, BIGINT)"),
        ("MAP(DATE, INTEGER)", "MAP(VARCHAR, INTEGER)", None),
        ("STRUCT(a INTEGER, b DATE)", "STRUCT(b DATE, a BIGINT)", "STRUCT(a BIGINT, b DATE)"),
        ("STRUCT(a INTEGER)", 'STRUCT("select" DATE)', 'STRUCT(a INTEGER, "select" DATE)'),
        ("STRUCT(a INTEGER)", "STRUCT(A BIGINT)", "STRUCT(a BIGINT)"),
        ("STRUCT(a INTEGER)", "STRUCT(a DATE)", None),
        ("INT8", "BIGINT", "BIGINT"),
    ],
)
def test_join(a: str, b: str, joined: str | None) -> None:
    assert join(a, b) == joined


@pytest.mark.parametrize(
    ("a", "b", "joined"),
    [
        ("INTEGER", "BIGINT", "BIGINT"),
        ("BIGINT", "DOUBLE", "DOUBLE"),
        ("DECIMAL(38,0)", "DECIMAL(5,2)", "DOUBLE"),
        ("BOOLEAN", "BIGINT", "VARCHAR"),
        ("DATE", "TIMESTAMP", "VARCHAR"),
        ("BIGINT[]", "DOUBLE[]", "DOUBLE[]"),
        ("BIGINT[]", "BIGINT", "VARCHAR"),
        ("STRUCT(a BIGINT)", "STRUCT(a DATE, b DATE)", "STRUCT(a VARCHAR, b DATE)"),
        ("MAP(VARCHAR, BIGINT)", "MAP(VARCHAR, DATE)", "MAP(VARCHAR, VARCHAR)"),
        ("MAP(BIGINT, BIGINT)", "MAP(DOUBLE, BIGINT)", "VARCHAR"),
    ],
)
def test_join_loose(a: str, b: str, joined: str) -> None:
    assert join_loose(a, b) == joined


@pytest.mark.parametrize(
    "name",
    [
        "INT8",
        "LONG",
        "STRING",
        "TIMESTAMPTZ",
        "DATETIME",
        "INT",
        "REAL",
        "FLOAT8",
        "NUMERIC",
        "DECIMAL(5)",
        "TEXT",
        "VARCHAR(10)",
        "BYTEA",
        "BOOL",
        "GUID",
        "INT128",
        "TIMETZ",
        "BITSTRING",
        "INT ARRAY",
        "INT ARRAY[3]",
        "BIGINT[3][]",
        "ROW(a INT)",
        "MAP(VARCHAR,INT)",
        "TIMESTAMP WITHOUT TIME ZONE",
        "TIMESTAMP(0)",
        "TIMESTAMP(3)",
        "TIMESTAMP(6)",
        "TIMESTAMP(9)",
        "DOUBLE PRECISION",
        "UINT8",
        "CHARACTER VARYING",
        '"NULL"',
        "ENUM('a', 'it''s')",
        'STRUCT(a INT, "b c" TEXT, "q""x" INT, "select" INT, "Year" INT, "é" INT, "1a" INT, B INT, _x INT[])',
    ],
)
def test_canonical_text_is_what_duckdb_prints(name: str) -> None:
    printed = duckdb.sql(f"SELECT typeof(CAST(NULL AS {name})) AS t").to_arrow_table()["t"][0].as_py()
    assert canonical(name) == printed
    assert canonical(name.lower() if "'" not in name and '"' not in name else name) == printed
    assert canonical(printed) == printed


def test_an_unknown_type_is_kept_as_it_stands() -> None:
    assert canonical("union(a INTEGER, b VARCHAR)[]") == "UNION(a INTEGER, b VARCHAR)[]"
    assert join("GEOMETRY", "GEOMETRY") == "GEOMETRY"
    assert join("GEOMETRY", "BLOB") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "INT)",
        "INT(",
        "a b",
        '"x',
        "STRUCT(a",
        "STRUCT(a INT",
        "STRUCT(a INT, A INT)",
        "MAP(INT)",
        "DECIMAL(39,1)",
        "DECIMAL(3,4)",
        "DECIMAL()",
        "DECIMAL(0)",
        "ENUM()",
        "TIMESTAMP WITH",
        "INT[-1]",
        "ARRAY<INT>",
        "UNION(a INT",
        "TIMESTAMP(10)",
        "INT" + "[]" * 100,
        "STRUCT(a " * 100 + "INT" + ")" * 100,
    ],
)
def test_what_is_no_type_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="isn't a DuckDB type name"):
        parse(text)


def test_evolve_adds_and_widens() -> None:
    current = {"a": "INTEGER", "b": "DECIMAL(5,2)", "s": "STRUCT(x INTEGER)"}
    incoming = {"z": "DATE", "b": "SMALLINT", "a": "BIGINT", "s": "STRUCT(y DATE)", "n": '"NULL"'}
    assert list(evolve(current, incoming, allow_widening=True).items()) == [
        ("a", "BIGINT"),
        ("b", "DECIMAL(7,2)"),
        ("s", "STRUCT(x INTEGER, y DATE)"),
        ("z", "DATE"),
    ]


def test_evolve_of_an_empty_table() -> None:
    assert evolve({}, {"a": "int8", "n": "NULL"}, allow_widening=False) == {"a": "BIGINT"}


def test_a_narrower_type_leaves_a_shared_table_as_it_is() -> None:
    assert evolve({"a": "BIGINT"}, {"a": "INTEGER"}, allow_widening=False) == {"a": "BIGINT"}


def test_a_shared_table_refuses_to_widen() -> None:
    with pytest.raises(
        SchemaConflictError, match=r"'a' is INTEGER in the table and BIGINT.*cast.*to INTEGER"
    ):
        evolve({"a": "INTEGER"}, {"a": "BIGINT"}, allow_widening=False)


def test_evolve_refuses_conflicts_and_names_that_differ_by_case() -> None:
    with pytest.raises(SchemaConflictError, match="'a' is DATE in the table and VARCHAR in the data"):
        evolve({"a": "DATE"}, {"a": "VARCHAR"}, allow_widening=True)
    with pytest.raises(SchemaConflictError, match="'A' differs from 'a' only by case"):
        evolve({"a": "DATE"}, {"A": "DATE"}, allow_widening=True)
    with pytest.raises(SchemaConflictError, match="'B' differs from 'b' only by case"):
        evolve({}, {"b": "DATE", "B": "DATE"}, allow_widening=True)
