"""COPY: files into tables of every kind and rows into files, below the directories that were allowed alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

import firn
from firn.bucket import open_bucket
from firn.sql.files.allowed import AllowedFiles, _translated

TABLES = {
    "lake": "CREATE TABLE t (id VARCHAR, n INTEGER)",
    "writer": "CREATE TABLE t (id VARCHAR, n INTEGER) WITH (journal = 'writer')",
    "keyed": "CREATE TABLE t (id VARCHAR PRIMARY KEY, n INTEGER) WITH (kind = 'keyed')",
    "records": "CREATE TABLE t (_id VARCHAR, n INTEGER) WITH (kind = 'records')",
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


@pytest.fixture
def db(tmp_path: Path, files: Path) -> Iterator[firn.Database]:
    with firn.connect(tmp_path / "db", allow_files=[files], writer="w") as db:
        yield db


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        # The file is the same whatever the table: each kind of one, and each of the other.
        pytest.param(kind, name, marks=() if kind == "lake" or name == "rows.csv" else pytest.mark.long)
        for name in ("rows.csv", "rows.parquet", "rows.json", "rows.csv.gz")
        for kind in TABLES
    ],
)
def test_rows_go_out_and_come_back(db: firn.Database, files: Path, kind: str, name: str) -> None:
    db.sql(TABLES[kind])
    db.sql("INSERT INTO t VALUES ('007', 1), ('8', NULL)", fence=True)
    out = db.sql(f"COPY t TO '{files / name}'").outcome
    assert out is not None and (out.op, out.rows_inserted, out.files_added) == ("copy", 2, 1)
    assert [file.name for file in files.iterdir()] == [name]
    db.sql("TRUNCATE t", fence=True)
    back = db.sql(f"COPY t FROM '{files / name}'", fence=True).outcome
    assert back is not None and (back.op, back.rows_inserted) == ("copy", 2)
    assert sorted(map(str, db.sql("FROM t"))) == sorted(
        str(dict(zip(db.sql("FROM t").columns, row, strict=True))) for row in (("007", 1), ("8", None))
    )


def test_names_decide_where_columns_go(db: firn.Database, files: Path) -> None:
    db.sql("CREATE TABLE t (id VARCHAR, n INTEGER, at DATE)")
    (files / "a.csv").write_text("n,ID\n1,01\n")
    (files / "b.csv").write_text("02,2,2026-01-31\n")
    (files / "c.csv").write_text("3;03\n")
    (files / "d.csv").write_text("id,other\n1,2\n")
    db.sql(f"COPY t FROM '{files}/a.csv'")
    db.sql(f"COPY t FROM '{files}/b.csv' (HEADER false)")
    db.sql(f"COPY t (n, id) FROM '{files}/c.csv' (FORMAT csv, HEADER false, DELIM ';')")
    assert [list(row.values())[:2] for row in db.sql("FROM t ORDER BY n")] == [
        ["01", 1],
        ["02", 2],
        ["03", 3],
    ]
    with pytest.raises(firn.InvalidInputError, match="no column 'other'"):
        db.sql(f"COPY t FROM '{files}/d.csv'")
    with pytest.raises(firn.InvalidInputError, match="HEADER true"):
        db.sql(f"COPY t FROM '{files}/b.csv'")


def test_a_new_table_takes_the_columns_of_the_file(db: firn.Database, files: Path) -> None:
    (files / "a.csv").write_text("day,n\n2026-01-31,1\n")
    db.sql("CREATE TABLE t")
    db.sql(f"COPY t FROM '{files}/a.csv'")
    assert db.sql("FROM t").columns == {"day": "DATE", "n": "BIGINT"}


def test_a_pattern_reads_many_files(db: firn.Database, files: Path) -> None:
    db.sql(TABLES["lake"])
    for n in range(3):
        (files / f"{n}.json").write_text(json.dumps([{"id": str(n), "n": n}]))
    (files / "x.txt").write_text("")
    done = db.sql("COPY t FROM $path", {"path": f"{files}/*.json"}).outcome
    assert done is not None and done.rows_inserted == 3
    assert db.sql("SELECT sum(n) AS n FROM t").to_arrow().to_pylist() == [{"n": 3}]


def test_a_query_goes_into_a_file_in_its_types(db: firn.Database, files: Path) -> None:
    query = (
        "SELECT 1::TINYINT AS a, 1.5::DECIMAL(9, 2) AS b, [{'x': DATE '2026-01-31'}] AS c, 'NaN'::DOUBLE AS d"
    )
    db.sql(f"COPY ({query}) TO '{files}/q.parquet' (COMPRESSION zstd)")
    found = duckdb.sql(f"FROM '{files}/q.parquet'")
    assert found.types == duckdb.sql(query).types
    assert str(found.fetchall()) == str(duckdb.sql(query).fetchall())
    assert pq.ParquetFile(files / "q.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_failure_leaves_the_old_file_and_no_other(db: firn.Database, files: Path) -> None:
    (files / "q.csv").write_text("old")
    with pytest.raises(firn.InvalidInputError, match="Could not convert string 'x'"):
        db.sql(
            f"COPY (SELECT CAST(if(i = 90000, 'x', '1') AS INTEGER) FROM range(100000) r(i)) TO '{files}/q.csv'"
        )
    assert [(file.name, file.read_text()) for file in files.iterdir()] == [("q.csv", "old")]


@pytest.mark.parametrize(
    "path",
    ["{outside}", "{files}/../secret.csv", "{files}/link.csv", "{files}/up/secret.csv", "{outside}*", "/etc/*",
     "{db}/x.csv", "s3://bucket/x.csv", "file://{outside}", "secret.csv"],
)  # fmt: skip
def test_nothing_else_is_reached(db: firn.Database, files: Path, tmp_path: Path, path: str) -> None:
    outside = tmp_path / "secret.csv"
    outside.write_text("id,n\nsecret,1\n")
    (files / "link.csv").symlink_to(outside)
    (files / "up").symlink_to(tmp_path)
    db.sql(TABLES["lake"])
    said = path.format(outside=outside, files=files, db=tmp_path / "db")
    for text in (f"COPY t FROM '{said}'", f"COPY t TO '{said}'"):
        with pytest.raises(firn.AccessDeniedError, match="COPY may not reach"):
            db.sql(text)
    assert outside.read_text().endswith("secret,1\n") and not db.sql("FROM t").count()


def test_the_database_itself_is_not_reached(tmp_path: Path) -> None:
    with firn.connect(tmp_path / "db", allow_files=[tmp_path]) as db:
        db.sql(TABLES["lake"])
        db.sql("INSERT INTO t VALUES ('1', 1)")
        for text in (f"COPY t TO '{tmp_path}/db/x.csv'", f"COPY t FROM '{tmp_path}/db/t/_data/*.parquet'"):
            with pytest.raises(firn.AccessDeniedError, match="in the database itself"):
                db.sql(text)
    with firn.connect("memory://copies", allow_files=["memory://copies"]) as db:
        db.sql(TABLES["lake"])
        with pytest.raises(firn.AccessDeniedError, match="in the database itself"):
            db.sql("COPY t TO 'memory://copies/x.csv'")


def test_without_leave_no_file_is_reached(tmp_path: Path) -> None:
    with firn.connect(tmp_path / "db") as db:
        db.sql(TABLES["lake"])
        with pytest.raises(firn.AccessDeniedError, match="written nowhere"):
            db.sql(f"COPY t TO '{tmp_path}/x.csv'")
    with pytest.raises(firn.InvalidInputError, match="give a list"):
        firn.connect(tmp_path / "db", allow_files=str(tmp_path))


def test_objects_of_a_bucket_are_read_and_written() -> None:
    files = open_bucket("memory://copied-files")
    with firn.connect("memory://", allow_files=["memory://copied-files/out"]) as db:
        db.sql(TABLES["lake"])
        db.sql("INSERT INTO t VALUES ('007', 1)")
        for name in ("a.parquet", "b.csv", "deep/c.json"):
            db.sql(f"COPY t TO 'memory://copied-files/out/{name}'")
        keys = [one.key for one in files.list("").objects]
        assert keys == ["out/a.parquet", "out/b.csv", "out/deep/c.json"]
        for path, rows in (("*.parquet", 1), ("b.csv", 1), ("**/c.json", 1)):
            done = db.sql(f"COPY t FROM 'memory://copied-files/out/{path}'").outcome
            assert done is not None and done.rows_inserted == rows
        assert {str(row) for row in db.sql("FROM t")} == {"{'id': '007', 'n': 1}"}
        for path in (
            "memory://copied-files/x.csv",
            "memory://copied-files/out/../x.csv",
            "memory://out/x.csv",
        ):
            with pytest.raises(firn.AccessDeniedError):
                db.sql(f"COPY t TO '{path}'")
        with pytest.raises(firn.ObjectNotFoundError):
            db.sql("COPY t FROM 'memory://copied-files/out/*.csv.gz'")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("COPY t TO '{files}/x.xlsx'", "FORMAT csv"),
        ("COPY t TO '{files}/x.csv' (SHOUT)", "has no option 'shout'"),
        ("COPY t FROM '{files}/x.parquet' (HEADER)", "it has: none"),
        ("COPY t TO '{files}/no/x.csv'", "there is no directory"),
        ("COPY t FROM '{files}/no.csv'", "there is no file"),
        ("COPY t FROM '{files}/bad.csv'", r"Could not convert string .x. to 'INTEGER'"),
        ("COPY t FROM '{files}/bad.parquet' (FORMAT parquet)", "COPY FROM .*bad.parquet fails"),
        ("COPY nope TO '{files}/x.csv'", "no table 'nope'"),
        ("COPY t TO x", "a text in single quotes should stand here"),
        ("COPY t AND x", "TO should stand here"),
        ("COPY t FROM ?", "no value for its parameter"),
    ],
)
def test_bad_input_says_what_is_wrong(db: firn.Database, files: Path, text: str, reason: str) -> None:
    db.sql(TABLES["lake"])
    (files / "bad.csv").write_text("id,n\na,x\n")
    (files / "bad.parquet").write_text("no")
    (files / "x.parquet").write_text("no")
    with pytest.raises(firn.FirnError, match=reason):
        db.sql(text.format(files=files))
    assert not db.sql("FROM t").count()


def test_a_transaction_copies(db: firn.Database, files: Path) -> None:
    db.sql(TABLES["records"])
    (files / "a.csv").write_text("_id,n\nx,1\n")
    db.sql(f"BEGIN; COPY t FROM '{files}/a.csv'; COPY t TO '{files}/b.csv'; ROLLBACK", script=True)
    assert (files / "b.csv").read_text() == "_id,n\nx,1\n"
    assert db.sql("FROM t").count() == 0


def test_patterns_of_keys() -> None:
    found = [key for key in ("a/b.csv", "a/c/b.csv", "a/b1.csv", "a/bx.csv") if _matches("a/b[0-9].csv", key)]
    assert found == ["a/b1.csv"]
    assert _matches("a/**/b.csv", "a/b.csv") and _matches("a/**/b.csv", "a/c/b.csv")
    assert not _matches("a/*.csv", "a/c/b.csv") and _matches("a/b?.csv", "a/bx.csv")
    assert not _matches("a/b[!0-9].csv", "a/b1.csv") and not _matches("a.csv", "aXcsv")


def _matches(pattern: str, key: str) -> bool:
    import re

    return re.fullmatch(_translated(pattern), key) is not None


def test_nothing_is_allowed_by_default() -> None:
    with pytest.raises(firn.AccessDeniedError):
        AllowedFiles().read("/etc/hostname")


def test_types_that_arrow_lacks_stay(db: firn.Database, files: Path) -> None:
    db.sql("CREATE TABLE t (id UUID, doc JSON, mood ENUM ('ok', 'sad'), big HUGEINT)")
    columns = dict(db.sql("FROM t").columns)
    db.sql("INSERT INTO t SELECT uuid(), '{}', 'ok', 1::HUGEINT << 100")
    for name in ("t.csv", "t.json", "t.parquet"):
        db.sql(f"COPY t TO '{files / name}'")
        db.sql(f"COPY t FROM '{files / name}'")
    assert dict(db.sql("FROM t").columns) == columns
    assert db.sql("SELECT DISTINCT * FROM t").count() == 1
    with pytest.raises(firn.InvalidInputError, match="DECIMAL"):
        db.sql(f"COPY (SELECT 170141183460469231731687303715884105727 AS big) TO '{files}/big.parquet'")


def test_json_keeps_its_texts(db: firn.Database, files: Path) -> None:
    db.sql("CREATE TABLE t (said VARCHAR, doc JSON, n DECIMAL(30, 2))")
    rows = [
        '{"said": "2026-01-31T00:00:00", "doc": {"a": 1}, "n": 123456789.25}',
        '{"said": "007", "doc": {"b": [1.5]}, "n": 1}',
    ]
    (files / "t.json").write_text("\n".join(rows))
    db.sql(f"COPY t FROM '{files}/t.json'")
    assert [tuple(row.values()) for row in db.sql("SELECT said, doc, n::VARCHAR FROM t ORDER BY n DESC")] == [
        ("2026-01-31T00:00:00", '{"a":1}', "123456789.25"),
        ("007", '{"b":[1.5]}', "1.00"),
    ]
    (files / "long.json").write_text('{"said": "x", "n": 1234567890123456.25}')
    with pytest.raises(firn.InvalidInputError, match="more than 15 digits"):
        db.sql(f"COPY t FROM '{files}/long.json'")
    (files / "cases.json").write_text('{"said": "a", "SAID": "b"}')
    with pytest.raises(firn.InvalidInputError, match="SAID_1"):
        db.sql(f"COPY t FROM '{files}/cases.json'")


VALUES = {
    "VARCHAR": "['', 'a,b\"c', 'NULL', ' lead ', 'x\ny', '007', '2026-01-31T00:00:00', '{}', NULL]",
    "BLOB": r"['\x00\xFFab'::BLOB, ''::BLOB, NULL]",
    "DOUBLE": "[1e300::DOUBLE, 0.1::DOUBLE, 'nan'::DOUBLE, '-inf'::DOUBLE, -0.0::DOUBLE, NULL]",
    "DECIMAL(18, 3)": "[123456789012.125, -0.001, NULL]",
    "TIMESTAMP_NS": "[TIMESTAMP_NS '2026-01-31 12:00:00.123456789', NULL]",
    "VARCHAR[]": "[['a,b', '\"', NULL, ''], [], NULL]",
    "MAP(VARCHAR, INTEGER)": "[MAP {'k,': 1}, MAP {}, NULL]",
    "STRUCT(a INTEGER, b VARCHAR)": "[{'a': 1, 'b': 'x, ''y'''}, NULL]",
}


@pytest.mark.parametrize("name", ["t.csv", "t.json", "t.parquet"])
@pytest.mark.parametrize("kinds", [["VARCHAR"], list(VALUES)], ids=["alone", "all"])
def test_values_at_the_edges_come_back(db: firn.Database, files: Path, name: str, kinds: list[str]) -> None:
    """In one column, where a NULL is an empty line, and beside others."""
    for table in ("t", "back"):
        db.sql(f"CREATE TABLE {table} ({', '.join(f'v{n} {kind}' for n, kind in enumerate(kinds))})")
    values = ", ".join(f"unnest({VALUES[kind]}) AS v{n}" for n, kind in enumerate(kinds))
    db.sql(f"INSERT INTO t SELECT {values}")
    db.sql(f"COPY t TO '{files / name}'")
    db.sql(f"COPY back FROM '{files / name}'")
    texts = ", ".join(f"v{n}::VARCHAR AS s{n}" for n in range(len(kinds)))
    there, back = (sorted(map(str, db.sql(f"SELECT *, {texts} FROM {table}"))) for table in ("t", "back"))
    assert there == back and len(there) == 9


def test_every_row_tells_the_types_of_a_new_table(db: firn.Database, files: Path) -> None:
    (files / "t.csv").write_text("n\n" + "1\n" * 30_000 + "1.5\n")
    (files / "t.json").write_text('{"n": 1}\n' * 30_000 + '{"n": 1.5, "late": 1}\n')
    for name in ("csv", "json"):
        db.sql(f"CREATE TABLE {name}")
        db.sql(f"COPY {name} FROM '{files}/t.{name}'")
        assert [row["n"] for row in db.sql(f"SELECT sum(n) AS n FROM {name}")] == [30_001.5]


def test_a_quoted_empty_text_is_no_null(db: firn.Database, files: Path) -> None:
    db.sql("CREATE TABLE t (n INTEGER, v VARCHAR)")
    (files / "t.csv").write_text('n,v\n"1",""\n,\n')
    db.sql(f"COPY t FROM '{files}/t.csv'")
    assert [tuple(row.values()) for row in db.sql("FROM t ORDER BY n")] == [(1, ""), (None, None)]
    (files / "t.csv").write_text('n,v\n"",""\n')
    with pytest.raises(firn.InvalidInputError, match="ALLOW_QUOTED_NULLS"):
        db.sql(f"COPY t FROM '{files}/t.csv'")
    db.sql(f"COPY t FROM '{files}/t.csv' (ALLOW_QUOTED_NULLS true)")
    assert db.sql("FROM t").count() == 3
