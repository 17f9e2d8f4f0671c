"""ALTER TABLE and COMMENT ON: what they read, what they ask of a table's verb, and what lake tables make of it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

import firn
from firn.alter import AlterResult
from firn.errors import FirnError, InvalidInputError, TableNotFoundError, UnsupportedError
from firn.keyed.table import KeyedTable
from firn.predicate.parameters import literal
from firn.predicate.words import words
from firn.records.table import RecordTable
from firn.sql.on_spark import spark_words
from firn.sql.syntax.heads import read_statement
from firn.sql.syntax.statements import AlterTable

READ: list[tuple[str, dict[str, Any]]] = [
    ("RENAME COLUMN a TO b", {"rename": {"a": "b"}}),
    ("RENAME a TO b, rename b to a", {"rename": {"a": "b", "b": "a"}}),
    ("ADD COLUMN c DECIMAL(4, 2)", {"add": {"c": "DECIMAL(4, 2)"}}),
    ("ADD c STRUCT(x INT, y VARCHAR[]) NULL", {"add": {"c": "STRUCT(x INT, y VARCHAR[])"}}),
    ("ADD COLUMN c INT DEFAULT -5 COMMENT 'new'", {"add": {"c": ("INT", -5)}, "comments": {"c": "new"}}),
    (
        "ADD COLUMNS (c INT COMMENT 'x' DEFAULT 5, d DATE DEFAULT DATE '2020-01-01')",
        {"add": {"c": ("INT", 5), "d": ("DATE", "2020-01-01")}, "comments": {"c": "x"}},
    ),
    ("ADD COLUMNS c INT, d INT, DROP e", {"add": {"c": "INT", "d": "INT"}, "drop": ["e"]}),
    ("ADD c BOOLEAN DEFAULT false", {"add": {"c": ("BOOLEAN", False)}}),
    ("ADD c DOUBLE DEFAULT 1.5", {"add": {"c": ("DOUBLE", 1.5)}}),
    ("ADD c DECIMAL(38, 20) DEFAULT 1.00000000000000001", {"add": {"c": ("DECIMAL(38, 20)", "1.00000000000000001")}}),
    ("ADD c VARCHAR DEFAULT 'NULL'", {"add": {"c": ("VARCHAR", "NULL")}}),
    ("ADD c BIGINT DEFAULT CAST('7' AS BIGINT)", {"add": {"c": ("BIGINT", 7)}}),
    ("ADD c TIMESTAMP DEFAULT TIMESTAMP '2020-01-01 12:00:00'", {"add": {"c": ("TIMESTAMP", "2020-01-01 12:00:00")}}),
    ("DROP COLUMN a", {"drop": ["a"]}),
    ("DROP COLUMNS (a, b)", {"drop": ["a", "b"]}),
    ("DROP a, b, ADD a INT", {"drop": ["a", "b"], "add": {"a": "INT"}}),
    ("ALTER COLUMN c SET DATA TYPE DOUBLE", {"types": {"c": "DOUBLE"}}),
    ("ALTER c SET TYPE DOUBLE", {"types": {"c": "DOUBLE"}}),
    ("ALTER c TYPE DECIMAL(4, 1), d COMMENT NULL", {"types": {"c": "DECIMAL(4, 1)"}, "comments": {"d": None}}),
    ("SET (codec = 'zstd', a.b = 1)", {"set_properties": {"codec": "zstd", "a.b": 1}}),
    ("SET TBLPROPERTIES ('codec' = 'zstd'), RESET (b)", {"set_properties": {"codec": "zstd", "b": None}}),
    ("UNSET TBLPROPERTIES IF EXISTS ('codec')", {"set_properties": {"codec": None}}),
    ("SET PARTITIONED BY (day(date), origin)", {"partition_by": ["day(date)", "origin"]}),
    ("RESET PARTITIONED BY, RESET SORTED BY", {"partition_by": [], "sort_by": []}),
    ("SET SORTED BY (date DESC, id)", {"sort_by": ["date DESC", "id"]}),
    ("ADD CONSTRAINT k CHECK (a > (1) AND b <> ')')", {"checks": {"k": "a > (1) AND b <> ')'"}}),
    ("DROP CONSTRAINT k", {"checks": {"k": None}}),
]  # fmt: skip


@pytest.mark.parametrize(("action", "changes"), READ, ids=[action for action, _ in READ])
@pytest.mark.parametrize("tokens", [words, spark_words])
def test_actions_are_the_arguments_of_the_verb(action: str, changes: dict[str, Any], tokens: Any) -> None:
    text = f"alter table t {action};"
    assert read_statement(text, tokens(text)) == AlterTable("t", changes=changes)


def test_names_are_quoted_as_each_engine_does() -> None:
    for quote, tokens in (('"', words), ("`", spark_words)):
        text = 'ALTER TABLE main."a b" DROP "drop", "x y", ADD "set" INT, RENAME "to" TO "T", SET SORTED BY ("x y")'
        text = text.replace('"', quote)
        changes = {"drop": ["drop", "x y"], "add": {"set": "INT"}, "rename": {"to": "T"}, "sort_by": ["x y"]}
        assert read_statement(text, tokens(text)) == AlterTable("a b", changes=changes)


@pytest.mark.parametrize("tokens", [words, spark_words])
def test_comments(tokens: Any) -> None:
    for text, table, changes in (
        ("COMMENT ON TABLE firn.t IS 'all flights'", "t", {"comment": "all flights"}),
        ("COMMENT ON TABLE t IS NULL;", "t", {"comment": ""}),
        ("COMMENT ON COLUMN t.c IS 'a;b'", "t", {"comments": {"c": "a;b"}}),
        ("comment on column main.t.c is null", "t", {"comments": {"c": None}}),
    ):
        assert read_statement(text, tokens(text)) == AlterTable(table, changes=changes)
    text = r"COMMENT ON TABLE t IS 'a\b'"
    assert read_statement(text) == AlterTable("t", changes={"comment": r"a\b"})
    with pytest.raises(InvalidInputError, match="without backslashes"):
        read_statement(text, spark_words(text))


WRONG: list[tuple[str, str]] = [
    ("ALTER TABLE t", "RENAME, ADD, DROP, ALTER COLUMN, SET or RESET should stand here, at its end"),
    ("ALTER TABLE t FOO", "SET or RESET should stand here, and not 'FOO' (line 1, column 15)"),
    ("ALTER TABLE t\nRENAME TO u", "(line 2, column 1): a table keeps its name"),
    ("ALTER TABLE t RENAME TO \"u 2\"", 'Write CREATE TABLE "u 2" AS SELECT * FROM t, then DROP TABLE t.'),
    ("ALTER TABLE t ALTER c SET DEFAULT 5", "DROP COLUMN c, ADD COLUMN c … DEFAULT …"),
    ("ALTER TABLE t ALTER c DROP DEFAULT", "(line 1, column 23): a default is of rows that were written without"),
    ("ALTER TABLE t ALTER c SET NOT NULL", "Write ADD CONSTRAINT c_there CHECK (c IS NOT NULL)"),
    ("ALTER TABLE t ALTER c DROP NOT NULL", "DROP CONSTRAINT to take it back"),
    ("ALTER TABLE t ALTER c TYPE INT USING c::INT", "Leave USING out"),
    ("ALTER TABLE t ALTER c.x TYPE INT", "fields inside of structs stay as they are"),
    ("ALTER TABLE t ALTER c", "TYPE or COMMENT should stand here, at its end"),
    ("ALTER TABLE t ADD c", "a type should stand here, at its end"),
    ("ALTER TABLE t ADD c DEFAULT 5", "a type should stand here, and not 'DEFAULT'"),
    ("ALTER TABLE t ADD c.x INT", "fields inside of structs can't be added"),
    ("ALTER TABLE t ADD c INT NOT NULL", "CHECK (c IS NOT NULL)"),
    ("ALTER TABLE t ADD c INT DEFAULT NULL", "leave DEFAULT out for NULL), and not 'NULL' (line 1, column 33)"),
    ("ALTER TABLE t ADD c INT DEFAULT (NULL)", "Leave DEFAULT out."),
    ("ALTER TABLE t ADD c DATE DEFAULT now()", "the default 'now()' isn't a literal"),
    ("ALTER TABLE t ADD c DATE DEFAULT current_date", "isn't a literal"),
    ("ALTER TABLE t ADD c INT DEFAULT d", "'d' isn't a literal"),
    ("ALTER TABLE t ADD c INT CHECK (c > 1)", "write ADD CONSTRAINT name CHECK (…)"),
    ("ALTER TABLE t ADD c INT AFTER b", "a new column comes last"),
    ("ALTER TABLE t ADD c INT UNIQUE", "nobody would enforce it"),
    ("ALTER TABLE t ADD CHECK (a > 1)", "Write ADD CONSTRAINT name CHECK (predicate)"),
    ("ALTER TABLE t ADD CONSTRAINT k UNIQUE (a)", "a constraint can't be UNIQUE"),
    ("ALTER TABLE t ADD PRIMARY KEY (a)", "A key is given in CREATE TABLE"),
    ("ALTER TABLE t ADD PARTITION FIELD day(date)", "SET PARTITIONED BY (day(date), origin)"),
    ("ALTER TABLE t WRITE ORDERED BY a", "ALTER TABLE has no WRITE. Write SET SORTED BY"),
    ("ALTER TABLE t SET codec = 'zstd'", "(property = value), PARTITIONED BY (…) or SORTED BY (…) should stand"),
    ("ALTER TABLE t SET (codec = 'zstd') now", "should end here, and not 'now'"),
    ("ALTER TABLE t DROP a, DROP A", "(line 1, column 28): 'A' stands twice"),
    ("ALTER TABLE t SET (a = 1), RESET (A)", "'A' stands twice"),
    ("ALTER TABLE t SET (a = 1, A = 2)", "'A' stands twice"),
    ("ALTER TABLE t RESET SORTED BY, SET SORTED BY (a)", "SORTED BY stands twice"),
    ("COMMENT ON VIEW v IS 'x'", "TABLE or COLUMN should stand here, and not 'VIEW'"),
    ("COMMENT ON COLUMN t IS 'x'", "COMMENT ON COLUMN t.c"),
    ("COMMENT ON COLUMN other.t.c IS 'x'", "without a schema"),
    ("COMMENT ON TABLE t IS 5", "a text in single quotes should stand here, and not '5'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "says"), WRONG, ids=[text for text, _ in WRONG])
def test_what_is_refused_says_what_to_write(text: str, says: str) -> None:
    for tokens in (words, spark_words):
        each = tokens(text.replace('"', "`")) if tokens is spark_words else tokens(text)
        with pytest.raises(FirnError) as found:
            read_statement(text, each)
        assert says in str(found.value), found.value


# -- what the verb is asked


CREATE = {
    "lake": "CREATE TABLE t (id BIGINT, n INTEGER)",
    "keyed": "CREATE TABLE t (id BIGINT PRIMARY KEY, n INTEGER) WITH (kind = 'keyed')",
    "records": "CREATE TABLE t (n INTEGER) WITH (kind = 'records')",
    "writer": "CREATE TABLE t (id BIGINT, n INTEGER) WITH (journal = 'writer')",
}


def connected(kind: str) -> firn.Database:
    db = firn.connect("memory://", writer="me" if kind == "writer" else None)
    db.sql(CREATE[kind])
    return db


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What verbs of keyed tables and of record tables were asked, which know these arguments alone."""
    found: list[dict[str, Any]] = []

    def fenced(table: Any, *, rename: Any = None, drop: Any = (), add: Any = None, comments: Any = None,
               set_properties: Any = None, fence: bool = False) -> AlterResult:  # fmt: skip
        given = {"rename": rename, "drop": drop, "add": add, "comments": comments, "fence": fence}
        found.append({name: value for name, value in given.items() if value})
        return AlterResult("9", ("changed",))

    def plain(
        table: Any, *, types: Any = None, comment: Any = None, set_properties: Any = None
    ) -> AlterResult:
        found.append({"types": types, "comment": comment})
        return AlterResult("9", ("changed",))

    monkeypatch.setattr(KeyedTable, "alter", fenced)
    monkeypatch.setattr(RecordTable, "alter", plain)
    return found


def test_the_verb_gets_what_it_takes(asked: list[dict[str, Any]]) -> None:
    keyed, records = connected("keyed"), connected("records")
    done = keyed.sql("ALTER TABLE t RENAME n TO m, ADD n INT DEFAULT 5, DROP x", fence=True).outcome
    assert done is not None and (done.op, done.version) == ("alter_table", "9")
    assert asked.pop() == {"rename": {"n": "m"}, "add": {"n": ("INT", 5)}, "drop": ["x"], "fence": True}
    records.sql("COMMENT ON TABLE t IS ?", ["a table"])
    assert asked.pop() == {"types": None, "comment": "a table"}
    with pytest.raises(UnsupportedError) as found:
        keyed.sql("ALTER TABLE t DROP n, SET PARTITIONED BY (n)", fence=True)
    assert "t is a keyed table, for which there is no SET PARTITIONED BY (…); there is RENAME COLUMN" in str(
        found.value
    )
    with pytest.raises(
        UnsupportedError, match=r"t is a record table, for which there is no COMMENT ON COLUMN t\.c"
    ):
        records.sql("COMMENT ON COLUMN t.n IS 'x'")
    assert asked == []


def test_conditions_leave_out_what_is_so_already(asked: list[dict[str, Any]]) -> None:
    db = connected("keyed")

    def alter(actions: str) -> dict[str, Any]:
        db.sql(f"ALTER TABLE t {actions}")
        return asked.pop() if asked else {}

    assert alter("ADD COLUMN IF NOT EXISTS N INT DEFAULT 5 COMMENT 'x'") == {}
    assert alter("ADD IF NOT EXISTS n INT COMMENT 'x', ALTER id COMMENT 'y'") == {"comments": {"id": "y"}}
    assert alter("ADD IF NOT EXISTS n INT, ALTER n COMMENT 'y'") == {"comments": {"n": "y"}}
    assert alter("DROP IF EXISTS nope, N") == {"drop": ["N"]}
    assert alter("DROP IF EXISTS nope, ADD IF NOT EXISTS m INT") == {"add": {"m": "INT"}}
    # A name that the statement lets go of is free, and one that it gives is taken.
    assert alter("DROP n, ADD IF NOT EXISTS n INT") == {"drop": ["n"], "add": {"n": "INT"}}
    assert alter("RENAME n TO m, ADD IF NOT EXISTS n INT") == {"rename": {"n": "m"}, "add": {"n": "INT"}}
    assert alter("RENAME n TO m, ADD IF NOT EXISTS m INT") == {"rename": {"n": "m"}}


@pytest.mark.parametrize("kind", CREATE)
def test_conditions_know_the_columns_of_every_kind(kind: str) -> None:
    db = connected(kind)
    for actions in (
        "ADD COLUMN IF NOT EXISTS n INTEGER",
        "DROP COLUMN IF EXISTS nope",
        "DROP CONSTRAINT IF EXISTS nope",
    ):
        done = db.sql(f"ALTER TABLE t {actions}").outcome
        assert done is not None and (done.op, done.version) == ("alter_table", None)


@pytest.mark.parametrize("kind", CREATE)
def test_properties_of_each_kind(kind: str) -> None:
    db = connected(kind)
    name, value = {"keyed": ("flush_ms", 20), "records": ("inline", "1MB")}.get(kind, ("codec", "snappy"))

    def shown() -> str:
        return str(next(iter(db.sql("SHOW CREATE TABLE t")))["sql"])

    assert db.sql(f"ALTER TABLE t SET ({name} = {literal(value)})", fence=True).outcome.version  # type: ignore[union-attr]
    assert f"{name} = {literal(value)}" in shown()
    db.sql(f"ALTER TABLE IF EXISTS t UNSET TBLPROPERTIES IF EXISTS ('{name}')", fence=True)
    assert name not in shown()
    db.sql(f"ALTER TABLE t SET TBLPROPERTIES ('{name}' = {literal(value)})", fence=True)
    db.sql(f"ALTER TABLE t RESET ({name})", fence=True)
    assert name not in shown()


@pytest.mark.parametrize("kind", ["records", "writer"])
def test_transactions_change_no_definitions(kind: str) -> None:
    db = connected(kind)
    alter = f"ALTER TABLE t SET ({'inline' if kind == 'records' else 'codec'} = NULL)"
    for block in (f"BEGIN; {alter}", f"BEGIN; INSERT INTO t VALUES ('1', 1); {alter}"):
        with pytest.raises(UnsupportedError, match="definitions"):
            db.sql(block, script=True)
    assert db.sql("FROM t").count() == 0


# -- lake tables


@pytest.mark.parametrize("kind", ["lake", "writer"])
def test_a_lake_table_evolves(kind: str) -> None:
    db = connected(kind)
    db.sql("INSERT INTO t VALUES (1, 5)")
    version = db.table("t", kind="lake").version
    db.sql(
        "ALTER TABLE t RENAME n TO m, ALTER N TYPE DOUBLE, DROP id, ADD id VARCHAR DEFAULT 'x' COMMENT 'new'"
    )
    db.sql("INSERT INTO t (m) VALUES (2.5)")
    db.sql(
        "ALTER TABLE t ADD COLUMNS (day DATE DEFAULT DATE '2020-01-01', f DECIMAL(4,2) DEFAULT ?)", ["-1.25"]
    )
    rows = [{"id": "x", "m": m, "day": dt.date(2020, 1, 1), "f": Decimal("-1.25")} for m in (2.5, 5)]
    assert list(db.sql("SELECT id, m, day, f FROM t ORDER BY m")) == rows
    assert list(db.sql(f"FROM t AT (VERSION => '{version}')")) == [{"id": 1, "n": 5}]
    db.sql("ALTER TABLE t RENAME m TO id, RENAME ID TO m")
    assert list(db.sql("SELECT id, m FROM t ORDER BY 1")) == [{"id": 2.5, "m": "x"}, {"id": 5, "m": "x"}]
    db.sql('ALTER TABLE t SET PARTITIONED BY (month(day)), SET SORTED BY (day DESC, "id")')
    found = db.table("t", kind="lake").definition()
    assert ([str(each) for each in found.partition.fields], list(found.sort_by)) == (
        ["month(day)"],
        ["day desc", "id"],
    )
    db.sql("ALTER TABLE t RESET PARTITIONED BY, RESET SORTED BY")
    assert db.table("t", kind="lake").definition().partition.fields == ()


def test_the_statement_that_is_shown_makes_the_table_again(db: firn.Database) -> None:
    db.sql("CREATE TABLE t (day DATE, n INTEGER)")
    db.sql(
        "ALTER TABLE t ADD \"a b\" VARCHAR DEFAULT 'it''s' COMMENT 'x', ADD CONSTRAINT Small CHECK (n < 10)"
    )
    db.sql("ALTER TABLE t ADD place VARCHAR DEFAULT 'DTW', SET PARTITIONED BY (place)")
    db.sql("COMMENT ON TABLE t IS 'all of it'")
    text = next(iter(db.sql("SHOW CREATE TABLE t")))["sql"]
    assert text.splitlines()[-4:] == [
        "ALTER TABLE t ADD COLUMN \"a b\" VARCHAR DEFAULT 'it''s';",
        'ALTER TABLE t ADD CONSTRAINT Small CHECK ("n" < 10);',
        "COMMENT ON TABLE t IS 'all of it';",
        "COMMENT ON COLUMN t.\"a b\" IS 'x';",
    ]
    db.sql("DROP TABLE t")
    db.sql(text, script=True)
    assert next(iter(db.sql("SHOW CREATE TABLE t")))["sql"] == text
    db.sql("ALTER TABLE t DROP CONSTRAINT small")
    assert db.table("t", kind="lake").definition().checks == {}


@pytest.mark.parametrize(
    ("create", "instead", "behind"),
    [
        ("a INT, b INT DEFAULT 5", "CREATE TABLE has no DEFAULT.", "ALTER TABLE t ADD COLUMN b INT DEFAULT 5"),
        ("a INT, b INT CHECK (b > 1)", "CREATE TABLE has no CHECK.", "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 1)"),
        ("a INT, CONSTRAINT k CHECK (a > 1)", "has no CHECK", "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 1)"),
        (
            "a INT NOT NULL",
            "NOT NULL of 'a': nobody would enforce it",
            "ALTER TABLE t ADD CONSTRAINT a_there CHECK (a IS NOT NULL)",
        ),
        ("a INT COMMENT 'x'", "CREATE TABLE has no COMMENT.", "COMMENT ON COLUMN t.a IS 'x'"),
        ("a INT) COMMENT 'x' WITH (codec = 'zstd'", "CREATE TABLE has no COMMENT.", "COMMENT ON TABLE t IS 'x'"),
    ],
)  # fmt: skip
def test_what_creating_has_not_altering_has(
    create: str, instead: str, behind: str, db: firn.Database
) -> None:
    with pytest.raises(UnsupportedError) as found:
        db.sql(f"CREATE TABLE t ({create})")
    head = (
        behind.replace("'x'", "'…'")
        .replace("DEFAULT 5", "DEFAULT …")
        .replace("c CHECK (a > 1)", "name CHECK (…)")
    )
    assert instead in str(found.value) and head in str(found.value), found.value
    db.sql("CREATE TABLE t (a INT)")
    db.sql(behind)


def test_a_refused_call_changes_nothing(db: firn.Database) -> None:
    db.sql("CREATE TABLE t (n INTEGER)")
    for actions, error, says in (
        ("DROP nope", InvalidInputError, "'nope'"),
        ("SET (nope = 1)", InvalidInputError, "'nope'"),
        ("ADD m INTEGER DEFAULT 'x'", InvalidInputError, "doesn't fit the column 'm'"),
        ("ADD m NOTATYPE", InvalidInputError, "NOTATYPE"),
    ):
        with pytest.raises(error, match=says):
            db.sql(f"ALTER TABLE t RENAME n TO o, {actions}")
    with pytest.raises(TableNotFoundError, match="'nope'"):
        db.sql("ALTER TABLE nope DROP n")
    assert db.sql("ALTER TABLE IF EXISTS nope DROP n").outcome.version is None  # type: ignore[union-attr]
    assert db.sql("FROM t").columns == {"n": "INTEGER"}
