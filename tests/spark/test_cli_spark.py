"""Commands that run on Spark: ingest and sql."""

from __future__ import annotations

import csv
import io
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import firn
from firn.cli.app import app
from firn.cli.commands import register

if TYPE_CHECKING:
    from click.testing import Result
    from pyspark.sql import SparkSession

DATA = Path(__file__).parents[2] / "data"
pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.usefixtures("spark")]


def run(*args: object) -> Result:
    register()
    result = CliRunner().invoke(app, [str(a) for a in args])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result  # type: ignore[return-value]


def done(*args: object) -> str:
    result = run(*args)
    assert result.exit_code == 0, (result.stdout, result.stderr)
    return result.stdout


def table(directory: Path, name: str) -> firn.LakeTable:
    return firn.connect(directory).table(name)


def test_ingest_makes_the_table_and_reads_times(tmp_path: Path) -> None:
    text = done(
        "ingest", DATA / "flights-20k.json", "--to", tmp_path / "db" / "flights", "--partition-by", "month(date)",
        "--sort-by", "date", "--timestamp-format", "%Y/%m/%d %H:%M", "--json",
    )  # fmt: skip
    assert orjson.loads(text)["rows"] == 20_000
    made = table(tmp_path / "db", "flights")
    assert made.snapshot().columns["date"] == "TIMESTAMP"
    assert [p.values["date_month"] for p in made.partitions()] == ["2001-01", "2001-02", "2001-03"]
    first = made.scan(where="origin = 'DTW' AND date < '2001-01-01 01:00'").to_arrow().to_pylist()
    assert first == [
        {
            "date": datetime(2001, 1, 1, 0, 47),
            "delay": 66,
            "destination": "LAS",
            "distance": 1750,
            "origin": "DTW",
        }
    ]


def test_ingest_csv_with_spaces_and_signs_in_names(tmp_path: Path) -> None:
    url = tmp_path / "db" / "birdstrikes"
    done("ingest", DATA / "birdstrikes.csv", "--to", url, "-p", 'year("Flight Date")')
    made = table(tmp_path / "db", "birdstrikes")
    with (DATA / "birdstrikes.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert made.scan().count() == len(rows)
    assert list(made.snapshot().columns) == list(rows[0])
    assert made.snapshot().columns["Flight Date"] == "DATE"
    total = made.scan(columns=["Cost Total $"]).to_arrow()["Cost Total $"].to_pylist()
    assert sum(total) == sum(int(r["Cost Total $"]) for r in rows)


def test_ingest_again_appends_once_by_batch_id(tmp_path: Path) -> None:
    args = ["ingest", DATA / "airports.csv", "--to", tmp_path / "airports", "--json", "--batch-id", "one"]
    assert orjson.loads(done(*args))["rows"] == 3376
    assert orjson.loads(done(*args))["duplicate"]
    assert table(tmp_path, "airports").scan().count() == 3376


def test_ingest_into_a_table_with_a_key(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,at,n\n1,10,5\n2,10,6\n")
    (tmp_path / "b.csv").write_text("id,at,n\n1,9,7\n2,11,8\n")
    to = ["--to", tmp_path / "db" / "stock"]
    refused(2, "ingest", tmp_path / "a.csv", *to, "--upsert")
    refused(2, "ingest", tmp_path / "a.csv", *to, "--key", "no")
    assert not (tmp_path / "db" / "stock").exists()
    key = ["--key", "ID", "--version-by", "at"]
    done("ingest", tmp_path / "a.csv", *to, *key)
    done("ingest", tmp_path / "b.csv", *to, *key, "--upsert")
    refused(2, "ingest", tmp_path / "b.csv", *to, "--key", "id")
    table = firn.connect(tmp_path / "db").table("stock")
    rows = table.scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["n"]) for row in rows) == [(1, 5), (2, 8)]


def test_ingest_parquet_json_lines_tsv_and_directories(tmp_path: Path) -> None:
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "r.parquet")
    (tmp_path / "many").mkdir()
    for n, row in enumerate(rows):
        (tmp_path / "many" / f"{n}.jsonl").write_bytes(orjson.dumps(row) + b"\n")
    (tmp_path / "r.tsv").write_text("a\tb\n1\tx\n2\ty\n")
    for n, source in enumerate(("r.parquet", "many", "many/*.jsonl", "r.tsv")):
        done("ingest", tmp_path / source, "--to", tmp_path / "db" / f"t{n}")
        found = table(tmp_path / "db", f"t{n}").scan().to_arrow().to_pylist()
        assert sorted(found, key=lambda r: r["a"]) == rows


def test_ingest_with_a_schema_and_through_a_query(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("zip,day\n01234,2001-02-03\n")
    query = "SELECT *, 1 AS one FROM _rows"
    args = ["--schema", "zip STRING, day DATE", "--query", query]
    done("ingest", tmp_path / "r.csv", "--to", tmp_path / "db" / "t", *args)
    assert table(tmp_path / "db", "t").scan().to_arrow().to_pylist() == [
        {"zip": "01234", "day": date(2001, 2, 3), "one": 1}
    ]


def test_ingest_keeps_the_zeros_of_digits_that_are_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("zip,a.b,n,empty\n00123,+49,1,\n12345,,2,\n")
    (tmp_path / "b.csv").write_text("zip,n\n123,03\n")
    url = tmp_path / "db" / "t"
    found = run("ingest", tmp_path / "a.csv", "--to", url)
    assert "zip VARCHAR, a.b VARCHAR, n INTEGER, empty VARCHAR" in found.stderr
    assert "--schema DDL" in found.stderr
    done("ingest", tmp_path / "b.csv", "--to", url)
    rows = table(tmp_path / "db", "t").scan().to_arrow().sort_by("n").to_pylist()
    assert [(row["zip"], row["a.b"], row["n"]) for row in rows] == [
        ("00123", "+49", 1),
        ("12345", None, 2),
        ("123", None, 3),
    ]


def refused(code: int, *args: object) -> str:
    result = run(*args)
    assert result.exit_code == code, (result.stdout, result.stderr)
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    assert len(result.stderr) < 1000
    return result.stderr


def test_ingest_refuses_what_it_cant_read_and_makes_no_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.json").write_text('{"a": 1}')
    (tmp_path / "bad.json").write_text('[{"a": 1}, {"a"')
    (tmp_path / "bad.parquet").write_text("not parquet")
    (tmp_path / "empty").mkdir()
    to = ["--to", tmp_path / "db" / "t"]
    refused(3, "ingest", tmp_path / "no.csv", *to)
    refused(3, "ingest", tmp_path / "empty", *to)
    refused(3, "ingest", tmp_path / "no*.csv", *to)
    refused(2, "ingest", tmp_path / "a.csv", tmp_path / "b.json", *to)
    refused(2, "ingest", tmp_path / "bad.json", *to)
    refused(2, "ingest", tmp_path / "bad.parquet", *to)
    refused(2, "ingest", tmp_path / "a.csv", *to, "--format", "excel")
    refused(2, "ingest", tmp_path / "a.csv", *to, "--schema", "a NONSENSE")
    assert "'c'" in refused(2, "ingest", tmp_path / "a.csv", *to, "--partition-by", "c")
    refused(2, "ingest", tmp_path / "a.csv", *to, "--sort-by", "c")
    refused(2, "ingest", tmp_path / "a.csv", *to, "--property", "nonsense=1")
    assert not (tmp_path / "db").exists() or firn.connect(tmp_path / "db").tables() == []


def test_ingest_into_a_table_that_is_defined_otherwise(tmp_path: Path) -> None:
    firn.connect(tmp_path).create_table("t", partition_by=["a"], sort_by=["b"])
    (tmp_path / "r.csv").write_text("a,b\n1,2\n")
    args = ["ingest", tmp_path / "r.csv", "--to", "t", "--db", tmp_path]
    refused(2, *args, "--partition-by", "b")
    refused(2, *args, "--sort-by", "a")
    refused(2, *args, "--property", "retention=1d")
    done(*args, "--partition-by", "a", "--sort-by", "b")
    assert table(tmp_path, "t").scan().count() == 1


# -- sql


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    directory = tmp_path_factory.mktemp("sql")
    db = firn.connect(directory)
    db.create_table("flights").append([{"origin": "DTW", "n": n} for n in range(150)])
    db.create_table("airports").append([{"iata": "DTW", "the state": "MI"}])
    return directory


def sql(database: Path, query: str, *args: object) -> str:
    return done("sql", query, "--db", database, *args)


def test_ingest_loads_keyed_tables(tmp_path: Path) -> None:
    rows = tmp_path / "years.csv"
    rows.write_text("state,year,flights\nMI,2001,5\nHI,2002,6\n")
    years = tmp_path / "db" / "years"
    made = orjson.loads(
        done(
            "ingest",
            rows,
            "--to",
            years,
            "--kind",
            "keyed",
            "--key",
            "STATE",
            "--key",
            "year=BIGINT",
            "--json",
        )
    )
    assert made["rows"] == 2
    table = firn.connect(tmp_path / "db").table("years", kind="keyed")
    assert table.keys.columns == {"state": "VARCHAR", "year": "BIGINT"}
    assert list(table.reader().scan()) == [(("HI", 2002), {"flights": 6}), (("MI", 2001), {"flights": 5})]
    rows.write_text("year,state,flights\n2001,MI,7\n")
    assert "loaded 1 row into years" in done("ingest", rows, "--to", years)
    assert table.reader(follow="0s").get(("MI", 2001)) == {"flights": 7}

    words = tmp_path / "words.csv"
    words.write_text("key,value\nA,b\n")
    done("ingest", words, "--to", tmp_path / "db" / "words", "--kind", "keyed")
    assert firn.connect(tmp_path / "db").table("words").reader().get(b"A") == b"b"
    for wrong in (["--key", "nope"], []):
        found = run("ingest", rows, "--to", tmp_path / "db" / "none", "--kind", "keyed", *wrong)
        assert found.exit_code == 2 and "state, flights" in found.stderr
    assert firn.connect(tmp_path / "db").tables() == ["words", "years"]


def test_sql_joins_tables(database: Path) -> None:
    query = 'SELECT "the state" AS s, sum(n) AS total FROM flights JOIN airports ON origin = iata GROUP BY 1'
    assert orjson.loads(sql(database, query, "--json")) == {"s": "MI", "total": sum(range(150))}
    assert sql(database, query, "--csv") == f"s,total\nMI,{sum(range(150))}\n"
    shown = sql(database, query)
    assert shown.splitlines()[0].split() == ["s", "total"]


def test_sql_limits(database: Path) -> None:
    query = "SELECT n FROM flights ORDER BY n"
    result = run("sql", query, "--db", database)
    assert len(result.stdout.splitlines()) == 2 + 100
    assert "--limit" in result.stderr
    assert [row["n"] for row in lines(sql(database, query, "--json", "--limit", 3))] == [0, 1, 2]
    assert len(list(csv.reader(io.StringIO(sql(database, query, "--csv"))))) == 151


def lines(text: str) -> list[Any]:
    return [orjson.loads(line) for line in text.splitlines()]


def test_sql_with_two_columns_of_one_name(database: Path) -> None:
    query = "SELECT a.iata, b.iata FROM airports a JOIN airports b ON a.iata = b.iata"
    assert orjson.loads(sql(database, query, "--json")) == {"iata": "DTW", "iata_1": "DTW"}


def test_sql_refuses_nonsense(database: Path) -> None:
    refused(3, "sql", "SELECT * FROM flight", "--db", database)
    refused(2, "sql", "SELEC", "--db", database)
    refused(3, "sql", "DROP TABLE flight", "--db", database)
    refused(2, "sql", "SELECT nope FROM flights", "--db", database)
    refused(3, "sql", "SELECT 1", "--db", database / "no")
    assert (
        orjson.loads(run("sql", "SELEC", "--db", database, "--json").stdout)["error"]["kind"]
        == "invalid_input"
    )


def test_ingest_into_a_writers_catalog(tmp_path: Path) -> None:
    asked = ["ingest", DATA / "airports.csv", "--to", tmp_path / "db" / "airports", "--journal", "writer"]
    refused = run(*asked)
    assert refused.exit_code == 2
    assert "writer=ID" in refused.stderr
    for writer in ("dtw", "hnl"):
        text = done(*asked, "--writer", writer, "--json")
        assert orjson.loads(text)["version"].startswith(f"{writer}=")
    assert [w.name for w in firn.connect(tmp_path / "db").writers()] == ["dtw", "hnl"]
    found = done("sql", "SELECT count(*) AS n FROM airports", "--db", tmp_path / "db", "--json")
    assert orjson.loads(found) == {"n": 2 * 3376}
    assert "all is well" in done("fsck", tmp_path / "db")


def test_ingest_into_a_record_table(tmp_path: Path) -> None:
    to = ("--to", tmp_path / "db" / "airports")
    refused(2, "ingest", DATA / "airports.csv", *to, "--kind", "records", "--partition-by", "state")
    refused(2, "ingest", DATA / "airports.csv", *to, "--kind", "records")
    args = ["ingest", DATA / "airports.csv", *to, "--key", "iata", "--json"]
    loaded = orjson.loads(done(*args, "--kind", "records"))
    db = firn.connect(tmp_path / "db")
    table = db.table("airports", kind="records")
    assert loaded["rows"] == table.count() > 3000
    assert table.get("DTW")["city"] == "Detroit" and table.get("DTW")["iata"] == "DTW"
    assert orjson.loads(done(*args))["rows"] == loaded["rows"] == table.count()
    refused(2, "ingest", DATA / "airports.csv", *to, "--key", "iata", "--key", "city")
