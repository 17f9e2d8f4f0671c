"""Tables at older versions in queries: each way to write it, beside the same table now."""

from __future__ import annotations

from typing import Any

import pytest

import firn
from firn.errors import FirnError, InvalidInputError, NotFoundError, TableNotFoundError


class Old:
    """A lake table of two versions, a record table and a keyed one with a checkpoint."""

    def __init__(self) -> None:
        self.db = firn.connect("memory://")
        flights = self.db.create_table("flights")
        self.first = flights.append([{"n": 1}]).version
        self.then = flights.history()[0].time
        flights.append([{"n": 2, "late": True}])
        stock = self.db.create_table("stock", kind="records", schema={"pairs": "BIGINT"})
        stock.insert("skis", {"pairs": 5})
        self.commit = int(self.db.sql("FROM stock").versions["stock"])
        stock.upsert("skis", {"pairs": 4})
        counts = self.db.create_table("counts", kind="keyed", key={"k": "VARCHAR"}, schema={"n": "BIGINT"})
        with counts.open() as kv:
            kv.put("a", {"n": 1})
            kv.flush()
            counts.checkpoint("monday")
            kv.put("a", {"n": 2})

    def rows(self, text: str, *args: Any) -> list[dict[str, Any]]:
        said = text.replace("FIRST", f"'{self.first}'").replace("THEN", f"'{self.then.isoformat()}'")
        return list(self.db.sql(said.replace("COMMIT", str(self.commit)), *args))


@pytest.fixture(scope="module")
def old() -> Old:
    return Old()


@pytest.mark.parametrize(
    "place",
    [
        "flights AT (VERSION => FIRST)",
        "main.flights AT (VERSION => FIRST)",
        "Flights f AT (VERSION => FIRST)",
        "flights AS f AT (TIMESTAMP => CAST(THEN AS TIMESTAMPTZ) - INTERVAL 0 DAY)",
        '"flights" AT (TIMESTAMP => THEN)',
        "flights VERSION AS OF FIRST",
        "flights VERSION AS OF FIRST AS f",
        "flights TIMESTAMP AS OF THEN f",
        "flights FOR SYSTEM_TIME AS OF THEN",
        "flights FOR SYSTEM_VERSION AS OF FIRST f",
        "flights FOR TIMESTAMP AS OF TIMESTAMPTZ THEN",
        "flights FOR SYSTEM_TIME AS OF (CAST(THEN AS TIMESTAMPTZ)) /* then */ f",
        "f: flights AT (VERSION := FIRST)",
    ],
)
def test_each_way_to_name_a_version(old: Old, place: str) -> None:
    assert old.rows(f"SELECT * FROM {place} WHERE n > 0 -- a comment") == [{"n": 1}]


def test_two_versions_of_one_table(old: Old) -> None:
    query = "SELECT count(*) AS n FROM flights AT (VERSION => FIRST) JOIN flights now USING (n)"
    assert old.rows(query) == [{"n": 1}]
    found = old.db.sql(f"FROM flights AT (VERSION => '{old.first}')")
    assert found.versions == {f"flights AT (VERSION => {old.first})": old.first}


def test_names_of_columns_go_by_the_table(old: Old) -> None:
    assert old.rows("SELECT flights.n FROM flights VERSION AS OF FIRST") == [{"n": 1}]
    assert old.rows("SELECT f.n FROM flights VERSION AS OF FIRST f") == [{"n": 1}]


def test_other_kinds(old: Old) -> None:
    assert old.rows("SELECT pairs FROM stock AT (VERSION => COMMIT)") == [{"pairs": 5}]
    assert old.rows("SELECT pairs FROM stock") == [{"pairs": 4}]
    assert old.rows("SELECT n FROM counts AT (VERSION => 'monday')") == [{"n": 1}]


def test_parameters_name_versions(old: Old) -> None:
    query = "SELECT n + ? AS n FROM flights AT (VERSION => ?) WHERE n = ?"
    assert old.rows(query, [10, old.first, 1]) == [{"n": 11}]
    assert old.rows("SELECT n FROM flights AT (TIMESTAMP => $then)", {"then": old.then}) == [{"n": 1}]


@pytest.mark.parametrize("mark", ["flights VERSION AS OF $v", "flights AT (VERSION => $v)"])
def test_parameters_stand_wherever_a_version_does(old: Old, mark: str) -> None:
    assert old.rows(f"FROM {mark} AS f", {"v": old.first}) == [{"n": 1}]
    assert old.rows(f"FROM {mark.replace('$v', '?')} WHERE n = ?", [old.first, 1]) == [{"n": 1}]
    for value in (None, True, -1, 'x" UNION SELECT 1 --', "x'`y"):
        with pytest.raises(
            InvalidInputError, match=r"is no version|reads a table at a version that can't be"
        ):
            old.rows(f"FROM {mark}", {"v": value})


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("TABLE flights AT (VERSION => FIRST)", 1),
        ("DESCRIBE flights AT (VERSION => FIRST)", 1),
        ("SUMMARIZE flights VERSION AS OF FIRST", 1),
        ("PIVOT flights AT (VERSION => FIRST) ON n IN (1, 2) USING sum(n)", 1),
        ("UNPIVOT flights AT (VERSION => FIRST) ON n", 1),
        ("FROM flights FOR SYSTEM_TIME AS OF CURRENT_TIMESTAMP", 2),
    ],
)
def test_versions_outside_of_from(old: Old, query: str, rows: int) -> None:
    assert len(old.rows(query)) == rows


@pytest.mark.parametrize("source", ["flights AT (VERSION => FIRST) s", "flights s VERSION AS OF FIRST"])
def test_sources_of_changes_are_read_at_a_version(old: Old, source: str) -> None:
    with firn.connect("memory://") as db:
        db.create_table("flights").append([{"n": 1}])
        first = db.sql("FROM flights").versions["flights"]
        db.sql("INSERT INTO flights VALUES (2)")
        written = source.replace("FIRST", f"'{first}'")
        db.sql(f"MERGE INTO flights t USING {written} ON t.n = s.n WHEN MATCHED THEN UPDATE SET n = t.n + 4")
        assert sorted(row["n"] for row in db.sql("FROM flights")) == [2, 5]
        db.sql(f"UPDATE flights SET n = s.n + 1 FROM {written} WHERE flights.n = 5")
        db.sql(f"DELETE FROM flights USING {written} WHERE flights.n = s.n + 1")
        assert list(db.sql("FROM flights")) == []
        for statement in (
            "UPDATE flights AT (VERSION => 1) SET n = 1",
            "DELETE FROM flights VERSION AS OF 1",
        ):
            with pytest.raises(InvalidInputError, match="isn't SQL that Firn reads"):
                db.sql(statement)


def test_statements_read_old_versions(old: Old) -> None:
    db = old.db
    db.sql(f"CREATE TABLE copied AS FROM flights AT (VERSION => '{old.first}')")
    db.sql(f"INSERT INTO copied SELECT n + 5 AS n FROM flights VERSION AS OF '{old.first}'")
    merge = "MERGE INTO copied USING (FROM flights AT (VERSION => '{}')) s ON copied.n = s.n WHEN MATCHED THEN DELETE"
    assert db.sql(merge.format(old.first)).outcome.rows_deleted == 1  # type: ignore[union-attr]
    assert old.rows("FROM copied") == [{"n": 6}]


def test_words_that_mean_no_version(old: Old) -> None:
    assert old.rows("SELECT version AS of FROM (SELECT 3 AS version)") == [{"of": 3}]
    assert old.rows("FROM (SELECT DISTINCT version AS of FROM (SELECT 3 AS version))") == [{"of": 3}]
    assert old.rows("SELECT 'flights VERSION AS OF 1' AS text") == [{"text": "flights VERSION AS OF 1"}]


@pytest.mark.parametrize(
    ("query", "error", "says"),
    [
        ("FROM flights AT (VERSION => 'nope')", InvalidInputError, "is no version"),
        ("FROM flights AT (VERSION => true)", InvalidInputError, "VERSION takes the name of a version"),
        ("FROM flights AT (TIMESTAMP => 'soon')", InvalidInputError, "TIMESTAMP a time"),
        ("FROM flights AT (TIMESTAMP => n)", InvalidInputError, "can't be"),
        ("FROM flights AT (VERSION => getenv('HOME'))", InvalidInputError, "getenv"),
        ("FROM flights AT (TAG => 1)", InvalidInputError, "TAG"),
        ("FROM flights AT (TIMESTAMP => '1999-01-01')", NotFoundError, "no commit as of 1999"),
        ("FROM flights AT (TIMESTAMP => '1799-01-01')", NotFoundError, "no commit as of 1799"),
        ("FROM flights AT (VERSION =>>= 1)", InvalidInputError, "=>>="),
        ("FROM nope AT (VERSION => 1)", TableNotFoundError, "'nope'"),
        ("SELECT late FROM flights VERSION AS OF FIRST", InvalidInputError, '"late" not found'),
        ("FROM stock AT (TIMESTAMP => '2026-01-01')", InvalidInputError, "the number of a commit"),
    ],
)
def test_versions_that_cannot_be(old: Old, query: str, error: type[FirnError], says: str) -> None:
    with pytest.raises(error) as found:
        old.rows(query)
    assert says in str(found.value) and "AT (VERSION => 17" not in str(found.value).replace(query, "")
