"""Each library that Firn uses, from end to end. `make test-lowest` runs this on the lowest version of each.

Spark isn't here: `make smoke-4.1` has its oldest version.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from pathlib import Path

import boto3
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moto import mock_aws
from typer.testing import CliRunner

import firn
from firn.cli.app import app
from firn.cli.commands import register
from firn.errors import FencedError, InvalidInputError, ObjectChangedError
from firn.testing import SimClient, World, simulate

ROWS = [
    {"at": dt.datetime(2001, month, 5), "origin": origin, "n": month} for month in (1, 2) for origin in "AB"
]


@pytest.fixture(params=["memory", "directory"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> firn.Database:
    return firn.connect(tmp_path / "db" if request.param == "directory" else f"memory://{uuid.uuid4().hex}")


@pytest.mark.parametrize("journal", ["leaderless", "writer"])
def test_a_lake_table(db: firn.Database, tmp_path: Path, journal: str) -> None:
    if journal == "writer":
        db = firn.connect(db.url, writer="one")
    table = db.create_table(
        "t", journal=journal, partition_by=["month(at)", "bucket(4, origin)"], sort_by=["n desc"],
    )  # fmt: skip
    first = table.append(ROWS, batch_id="b")
    table.append(ROWS, batch_id="b")
    table.append(pa.Table.from_pylist([{"n": 7, "extra": 1.5, "at": dt.datetime(2001, 1, 1)}]))
    table.append(pd.DataFrame({"n": np.array([8, 9], dtype="int32"), "origin": ["C", "D"]}))
    table.append(pl.DataFrame({"n": [10], "origin": ["E"]}))
    assert table.scan(where="origin = 'A' AND n BETWEEN 1 AND 5").count() == 2
    table.delete("n IN (8, 9) OR origin = 'E'")
    table.merge()
    assert table.scan().count() == 5
    assert table.scan(columns=["extra"], where="n > 5").to_pandas()["extra"].tolist() == [1.5]
    assert table.scan(at=first.version).to_polars().height == 4
    table.sweep(older_than="0s")
    assert sorted(r["n"] for r in firn.connect(db.url).table("t").scan().to_arrow().to_pylist()) == [
        1,
        1,
        2,
        2,
        7,
    ]


def test_a_keyed_table(db: firn.Database) -> None:
    table = db.create_table(
        "t",
        kind="keyed",
        key={"s": "VARCHAR", "d": "DECIMAL(9,2)"},
        schema={"n": "BIGINT"},
        merge_operator="add",
    )
    table.load([{"s": s, "d": n, "n": n} for s in "AÖ" for n in range(50)])
    with table.open() as kv:
        kv.merge(("A", 3), {"n": 4})
        kv.delete(("A", 4))
        assert kv.get(("A", 3)) == {"n": 7} and kv.get(("A", 4)) is None
    table.compact(full=True)
    assert len(list(table.reader().scan())) == 99
    old, new = table.open(), table.open()
    new.put(("A", 4), {"n": 1})
    with pytest.raises(FencedError):
        old.put(("A", 4), {"n": 2})
    new.close()


def test_record_tables(db: firn.Database) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    table = db.create_table("t", kind="records", schema=schema, indices=["city"])
    db.create_table("u", kind="records")
    with db.begin() as tx:
        tx.insert("t", "a", {"n": 1, "city": "Ann Arbor"})
        tx.insert("u", "ü/1", {"price": 1.25})
    with pytest.raises(InvalidInputError, match="JSON schema"):
        table.update("a", {"n": "x"})
    db.transact(lambda tx: tx.update("t", "a", {**tx.get("t", "a"), "n": 2}))
    assert [row["n"] for row in table.find(city="Ann Arbor")] == [2]
    assert db.table("u").get("ü/1")["price"] == 1.25


def test_the_command_line_and_the_report(tmp_path: Path) -> None:
    register()
    firn.connect(tmp_path / "db").create_table("t").append(ROWS)
    done = CliRunner().invoke(app, ["scan", str(tmp_path / "db" / "t"), "--where", "n = 2", "--json"])
    assert (done.exit_code, sorted(json.loads(line)["origin"] for line in done.stdout.splitlines())) == (
        0,
        ["A", "B"],
    )
    told = CliRunner().invoke(app, ["log", str(tmp_path / "db" / "t")])
    assert (told.exit_code, "append" in told.stdout) == (0, True)
    assert CliRunner().invoke(app, ["scan", str(tmp_path / "db" / "none")]).exit_code != 0
    helped = CliRunner().invoke(app, ["keyed", "put", "--help"])
    assert (helped.exit_code, "Usage" in helped.stdout) == (0, True)
    assert (
        CliRunner().invoke(app, ["report", str(tmp_path / "db"), "-o", str(tmp_path / "r.html")]).exit_code
        == 0
    )
    assert "Made by Firn" in (tmp_path / "r.html").read_text("utf-8")


def test_a_pointer_in_dynamodb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with mock_aws():
        boto3.client("dynamodb").create_table(
            TableName="pointers",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        table = firn.connect(tmp_path).create_table(
            "t", kind="keyed", key={"k": "BIGINT"}, properties={"pointer_url": "dynamodb://pointers/t"}
        )
        with table.open(compaction=False) as kv:
            kv.put(1, b"x")
        assert table.reader().get(1) == b"x"


@settings(max_examples=10)
@given(st.integers(0, 1000))
def test_simulations(seed: int) -> None:
    found: list[bytes] = []

    def add(client: SimClient) -> None:
        while True:
            blob = client.bucket.get("n")
            try:
                client.bucket.put_if_match("n", b"%d" % (int(blob.data) + 1), blob.info.etag)
                return
            except ObjectChangedError:
                continue

    def make(seed: object) -> World:
        world = World(seed)  # type: ignore[arg-type]
        world.store.write("n", b"0")
        world.spawn("a", add)
        world.spawn("b", add)
        world.check(lambda: found.append(world.store.contents()["n"]))
        return world

    simulate(make, [seed])
    assert found == [b"2"]
