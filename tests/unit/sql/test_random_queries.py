"""Random queries over tables that grow at random: answers as of plain tables of DuckDB's with the same rows."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from answers import Answers
from hard_queries import QUERIES
from random_queries import Queries, Source, quoted

import firn
from firn.arrow.types import arrow_type
from seeds import seeds

COLUMNS = {
    "id": "BIGINT", "k": "BIGINT", "n": "INTEGER", "x": "DOUBLE", "f": "FLOAT", "s": "VARCHAR", "d": "DATE",
    "t": "TIMESTAMP", "z": "TIMESTAMP WITH TIME ZONE", "m": "DECIMAL(12,2)", "b": "BLOB", "ok": "BOOLEAN",
    "l": "DOUBLE[]", "o": "STRUCT(a DOUBLE, b VARCHAR)", "lo": "STRUCT(a FLOAT)[]", "mp": "MAP(VARCHAR, DOUBLE)",
}  # fmt: skip
NAMES: list[dict[str, str]] = [
    {},
    {
        "k": "K ey",
        "n": "select",
        "x": "a.b",
        "s": "Straße",
        "d": "_row",
        "t": "_firn_t",
        "z": 'it"s',
        "l": "rowid",
    },
    {
        "k": "t0",
        "n": "o.a",
        "x": "[1]",
        "s": "filename",
        "d": "file_row_number",
        "f": "%s",
        "ok": "true",
        "m": "u",
    },
]
NAN = float("nan")
FLOATS = [1.5, 0.0, 2.25, NAN, float("inf"), float("-inf"), 7.0, -3.0, 100.0]
TEXTS = ["", "a", "it's", "Ä", "zz", "5", "A", "日本", "ab", "a%"]
DAYS = [
    dt.date(2024, 1, 1),
    dt.date(2024, 3, 1),
    dt.date(1, 1, 1),
    dt.date(9999, 12, 1),
    dt.date(1969, 12, 25),
]


class Pair:
    """One table of Firn's, and one of DuckDB's that gets the same rows."""

    def __init__(self, rng: random.Random, db: firn.Database, duck: Any, name: str, kind: str) -> None:
        self.rng, self.db, self.duck, self.name, self.kind = rng, db, duck, name, kind
        self.names = rng.choice(NAMES)
        self.columns = {self.named(column): type for column, type in COLUMNS.items()}
        self.next = 0
        properties: dict[str, Any] = {"row_group_rows": rng.choice([5, 20, 131_072])}
        if rng.random() < 0.5:
            properties["bloom_filters"] = [self.named("n"), self.named("s")]
        plain = [
            c for c in ("k", "n", "s", "d", "t") if self.named(c).isidentifier() and self.named(c) != "select"
        ]
        transforms = {
            "d": "month(%s)",
            "t": "year(%s)",
            "s": "truncate(1, %s)",
            "k": "bucket(3, %s)",
            "n": "%s",
        }
        by = rng.sample([transforms[c] % self.named(c) for c in plain], rng.randint(0, min(2, len(plain))))
        self.table = db.create_table(
            name,
            schema=self.columns,
            key=["id"] if kind == "key" else [],
            partition_by=by if kind != "key" else [],
            sort_by=[self.named(rng.choice(plain))] if plain and kind != "key" and rng.random() < 0.5 else [],
            journal="writer" if kind == "writer" else "leaderless",
            properties=properties,
        )
        types = ", ".join(f"{quoted(column)} {type}" for column, type in self.columns.items())
        duck.execute(f"CREATE TABLE {name} ({types})")

    def named(self, column: str) -> str:
        return self.names.get(column, column)

    def step(self, queries: Queries) -> str:
        """Change both tables; what was done."""
        what = self.rng.random()
        if what < 0.6:
            return self.grow(self.rng.choice([1, 5, 40]))
        if what < 0.8:
            condition = queries.condition([Source(self.name, "a", self.columns)], 0).replace("a.", "")
            return self.delete(condition)
        self.table.merge()
        return f"merge {self.name}"

    def grow(self, count: int) -> str:
        """Append rows; some lack columns, or have narrower ones. Of a table with a key some replace others."""
        if self.kind == "key" and self.rng.random() < 0.4:
            self.next = max(0, self.next - count // 2)
        types = dict(COLUMNS)
        for column in self.rng.sample(list(COLUMNS)[2:], self.rng.choice([0, 0, 4])):
            del types[column]
        if self.kind != "key" and self.rng.random() < 0.3:
            types |= {c: t for c, t in (("k", "INTEGER"), ("n", "SMALLINT"), ("x", "FLOAT")) if c in types}
        rows = self._rows(count, types)
        self.table.append(rows)
        self.duck.register("given", rows)
        if self.kind == "key":
            self.duck.execute(f"DELETE FROM {self.name} WHERE id IN (SELECT id FROM given)")
        self.duck.execute(f"INSERT INTO {self.name} BY NAME SELECT * FROM given")
        return f"append {count} rows of {list(types)} to {self.name}"

    def delete(self, condition: str) -> str:
        text = f"DELETE FROM {self.name} WHERE {condition}"
        try:
            self.duck.execute(text)
        except duckdb.Error:
            return "nothing"
        self.db.sql(text)
        return text

    def _rows(self, count: int, types: Mapping[str, str]) -> pa.Table:
        """Rows near one another, so that files can be told apart by their bounds."""
        rng = self.rng
        low, width, day, nulls = (
            rng.randrange(12),
            rng.choice([1, 2, 12]),
            rng.choice(DAYS),
            rng.choice([0, 0.15, 0.5]),
        )
        floats = [*rng.sample(FLOATS, rng.choice([1, 3, len(FLOATS)])), rng.choice([NAN, 1.5])]
        texts = rng.sample(TEXTS, rng.choice([2, len(TEXTS)]))

        def noon() -> dt.datetime:
            return dt.datetime.combine(day + dt.timedelta(rng.randrange(20)), dt.time(12, rng.randrange(60)))

        make = {
            "k": lambda: low + rng.randrange(width),
            "n": lambda: low // 2 - 3 + rng.randrange(4),
            "x": lambda: rng.choice(floats),
            "f": lambda: rng.choice(floats),
            "s": lambda: rng.choice(texts),
            "d": lambda: noon().date(),
            "t": noon,
            "z": lambda: noon().replace(tzinfo=dt.timezone.utc),
            "m": lambda: Decimal(rng.randrange(-999, 999)) / 4,
            "b": lambda: rng.choice([b"", b"\x00", b"a", b"\xff"]),
            "ok": lambda: rng.random() < 0.5,
            "l": lambda: rng.sample([*floats, None], rng.randrange(2)),
            "o": lambda: {"a": rng.choice([*floats, None]), "b": rng.choice(texts)},
            "lo": lambda: [{"a": rng.choice(floats)}] * rng.randrange(2),
            "mp": lambda: [("p", rng.choice(floats))] * rng.randrange(2),
        }
        arrays = {"id": pa.array(range(self.next, self.next + count), pa.int64())}
        self.next += count
        for column, type in types.items():
            if column != "id":
                values = [None if rng.random() < nulls else make[column]() for _ in range(count)]
                arrays[self.named(column)] = pa.array(values, arrow_type(type))
        return pa.table(arrays)


@pytest.mark.parametrize("store", ["directory", "memory"])
@pytest.mark.parametrize("seed", seeds(20, short=1))
def test_random_queries_over_random_tables(seed: int, store: str, tmp_path: Path) -> None:
    rng = random.Random(f"{seed} {store}")
    db = firn.connect(tmp_path / "db" if store == "directory" else "memory://", writer="w")
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    pairs = [Pair(rng, db, duck, f"t{n}", rng.choice(["lake", "writer", "key"])) for n in range(2)]
    queries = Queries(rng, {pair.name: pair.columns for pair in pairs}, "id")
    answers = Answers(db, duck)
    said = [pair.grow(30) for pair in pairs]
    for _ in range(4):
        said.append(rng.choice(pairs).step(queries))
        for pair in pairs:
            answers.check(f"SELECT * FROM {pair.name}", "\n".join(said))
        for _ in range(6):
            answers.check(queries.query(), "\n".join(said))
    assert answers.compared > 20
    duck.close()
    db.close()


@pytest.fixture(scope="module")
def rows_in_files(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two tables, each of whose files holds one row."""
    db, duck = firn.connect(tmp_path_factory.mktemp("hard")), duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    kinds = (
        "k BIGINT, n INTEGER, s VARCHAR, o STRUCT(a DOUBLE, k BIGINT), d DATE, x DOUBLE, f FLOAT, ok BOOLEAN, "
        "m DECIMAL(9,2), z TIMESTAMPTZ, c TIME, t TIMESTAMP"
    )
    texts, doubles = (
        ["NULL", "'a'", "'A'", "'b'", "'5'", "''"],
        ["NULL", "1.5", "'nan'", "'-0.0'", "0.0", "'inf'"],
    )
    floats = ["0.1", "1", "2", "16777216", "-1", "NULL"]
    for table in ("t", "u"):
        duck.execute(f"CREATE TABLE {table} ({kinds})")
        db.sql(f"CREATE TABLE {table} ({kinds})")
        for i in range(0 if table == "t" else 2, 6):
            row = (
                f"({i}, {i % 2 if i != 4 else 'NULL'}, {texts[i]}, {{'a': {i}, 'k': {5 - i}}}, '2024-01-0{i + 1}', "
                f"{doubles[i]}, {floats[i]}, {['true', 'false', 'NULL'][i % 3]}, {i}.25, "
                f"'2024-01-0{i + 1} 00:00:00+02', '0{i}:00:00', '2024-01-0{i + 1} 12:00:00')"
            )
            duck.execute(f"INSERT INTO {table} VALUES {row}")
            db.table(table).append(duck.sql(f"FROM {table} WHERE k = {i}").to_arrow_table())
    yield Answers(db, duck)
    db.close()
    duck.close()


@pytest.mark.parametrize("part", seeds(6, short=1))
def test_hard_queries(part: int, rows_in_files: Answers) -> None:
    every = QUERIES.strip().splitlines()
    assert len(every) > 200
    for query in every[part::6]:
        rows_in_files.check(query)
