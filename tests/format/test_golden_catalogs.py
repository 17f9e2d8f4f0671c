"""Writers' catalogs that each version wrote, committed to the repository, read by this one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from make_golden import GOLDEN, shown
from make_golden_catalogs import connect, make

import firn
from firn.journal.writer.format import frame
from firn.journal.writer.format.actions import Define, Drop, Remove, Tombstones, Upgrade
from firn.journal.writer.format.layout import WriterLayout
from firn.journal.writer.format.marker import decode_marker
from firn.journal.writer.format.messages import (
    decode_checkpoint,
    decode_transaction,
    encode_checkpoint,
    encode_transaction,
)
from firn.lake.definition.keys import KeySpec

VERSIONS = sorted(path.parent.name for path in GOLDEN.glob("*/catalogs"))
WRITERS = ("ann", "bob", "cyd")


def root(version: str) -> Path:
    return GOLDEN / version / "catalogs/db"


def expected(version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root(version).parent / "expected.json").read_text("utf-8"))
    return found


TABLES = [(version, name) for version in VERSIONS for name in expected(version)]


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[str], Path]:
    """Copies a version's database to where a test may change it, under another name."""

    def copy(version: str) -> Path:
        return Path(shutil.copytree(root(version), tmp_path / "moved" / version))

    return copy


def rows(table: firn.LakeTable, at: str | None = None) -> list[str]:
    return shown(table.scan(at=at).to_arrow().to_pylist())


def objects(version: str, kind: str) -> Iterator[tuple[Path, WriterLayout]]:
    """All objects whose name ends so, each with the layout of its writer."""
    for writer in WRITERS:
        for path in sorted((root(version) / writer).rglob(kind)):
            yield path, WriterLayout("", writer, "db")


def test_this_version_has_them() -> None:
    assert firn.__version__ in VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_every_kind_of_object_and_action_is_there(version: str) -> None:
    for kind in (
        "*.transaction",
        "*.checkpoint",
        "markers/*.parquet",
        "claims/*",
        "newest-checkpoint",
        "data/**/*.parquet",
    ):
        assert any(objects(version, kind)), kind
    assert not list((root(version) / "bob").rglob("claims/*")), "bob's is the discipline of PUT and LIST"
    assert (
        min(path.name for path, _ in objects(version, "*.transaction") if "/cyd/" in str(path)) > f"{2:020d}"
    )
    kinds = {
        type(action) for path, _ in objects(version, "*.transaction") for action in decoded(path).actions
    }
    assert kinds >= {Define, Drop, Remove, Tombstones}
    record = json.loads((root(version) / "_firn/database.json").read_text("utf-8"))
    crc = {} if version == firn.__version__ else {"crc": 3305232234}
    assert record == {"firn": 1, "database": "db", **crc}


def decoded(path: Path) -> Any:
    return decode_transaction(path.read_bytes(), where=str(path))


@pytest.mark.parametrize(("version", "name"), TABLES)
def test_every_version_of_every_table_is_read(version: str, name: str) -> None:
    table, wanted = firn.connect(root(version), strict=True).table(name), expected(version)[name]
    assert {at: rows(table, None if at == "now" else at) for at in wanted["versions"]} == wanted["versions"]
    assert {at: rows(table, at) for at in wanted["times"]} == wanted["times"]
    assert table.snapshot().warnings == ()


@pytest.mark.parametrize(("version", "name"), TABLES)
def test_history_is_read(version: str, name: str) -> None:
    history = firn.connect(root(version)).table(name).history()
    assert (
        sorted([line.version, line.op, line.rows_added] for line in history)
        == expected(version)[name]["history"]
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_definitions_partitions_and_batches_are_read(version: str, copied: Callable[[str], Path]) -> None:
    where, wanted = copied(version), expected(version)
    db = connect(where, "ann")
    assert db.tables() == sorted(wanted)
    assert [(w.name, w.health) for w in db.writers()] == [(name, "ok") for name in WRITERS]
    types, flights, stock = (db.table(name) for name in ("types", "flights", "stock"))
    assert {f.name: str(f.type) for f in types.schema()} == wanted["types"]["schema"]
    months = {p.values["date_month"] for p in flights.partitions()}
    assert sorted(months) == wanted["flights"]["partitions"]
    assert stock.keys == KeySpec(tuple(wanted["stock"]["key"]))
    assert len(types.scan(where="id >= 4").files()) == 1
    for table in (types, flights):
        assert table.append([{"id": 5}], batch_id=wanted[table.name]["batch"]).duplicate
    with pytest.raises(firn.SnapshotTooOldError):
        db.table("delays").snapshot(wanted["delays"]["pruned"])


@pytest.mark.parametrize(
    ("version", "writer"), [*((firn.__version__, writer) for writer in WRITERS), ("0.1.0+rebuilt", "bob")]
)
def test_each_writer_goes_on(version: str, writer: str, copied: Callable[[str], Path]) -> None:
    where, wanted = copied(version), expected(version)
    db = connect(where, writer)
    flights = db.table("flights")
    flights.append([{"date": datetime(2001, 7, 1), "delay": 1000}])
    assert len(rows(flights)) == len(wanted["flights"]["versions"]["now"]) + 1
    assert flights.delete("delay = 1000").version is not None
    assert rows(flights) == wanted["flights"]["versions"]["now"]
    flights.delete("date IS NOT NULL")
    assert rows(flights) == rows(firn.connect(where, strict=True).table("flights"))
    assert all(not flights.journal.owns(file.path) for file in flights.snapshot().files)
    stock = db.table("stock")
    stock.upsert([{"id": 77_777, "count": 1}])
    with db.writer_transaction() as transaction:
        transaction.append("delays", [{"id": 99, "text": "more"}])
        transaction.append("types", [{"id": 99}])
    db.checkpoint()
    db.prune("0s")
    for name in wanted:
        before = rows(db.table(name))
        db.table(name).merge()
        db.table(name).sweep(orphans="0s")
        assert rows(firn.connect(where, strict=True).table(name)) == before, name
    for name, more in (("stock", 1), ("delays", 1), ("types", 1)):
        assert db.table(name).scan().count() == len(wanted[name]["versions"]["now"]) + more


@pytest.mark.parametrize("version", VERSIONS)
def test_clocks_and_deletions_are_read_and_go_on(version: str, copied: Callable[[str], Path]) -> None:
    where = copied(version)
    ann, bob = (connect(where, writer).table("stock") for writer in ("ann", "bob"))
    wanted = expected(version)["stock"]["versions"]["now"]
    bobs = [f.clocks[0] for f in bob.snapshot().files if bob.journal.owns(f.path) and f.clocks is not None]
    assert len(bobs) == 1 and int(bobs[0][:20]) > 10, "above its revision: of what it had seen"
    ann.merge()
    assert any(file.key_deletes for file in ann.snapshot().files) and rows(ann) == wanted
    bob.upsert([{"id": 7, "count": 1}, {"id": 1, "count": -5}])
    counts = {row["id"]: row["count"] for row in ann.scan().to_arrow().to_pylist()}
    assert (counts[7], counts[1], len(counts)) == (1, -5, len(wanted) + 1)


@pytest.mark.parametrize("writer", ["ann", "bob"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_lost_catalog_comes_back_from_its_data_files(
    version: str, writer: str, copied: Callable[[str], Path]
) -> None:
    where = copied(version)
    for part in ("transactions", "claims", "_firn"):
        shutil.rmtree(where / writer / "db" / part, ignore_errors=True)
    assert connect(where, writer).rebuild().rebuilt
    db = firn.connect(where, strict=True)
    for name, wanted in expected(version).items():
        assert rows(db.table(name)) == wanted["versions"]["now"], name


@pytest.mark.parametrize("version", VERSIONS)
def test_what_this_version_reads_it_writes_again(version: str) -> None:
    for path, _ in [*objects(version, "*.transaction"), *objects(version, "claims/*")]:
        assert encode_transaction(decoded(path)) == path.read_bytes(), path
    for path, _ in objects(version, "*.checkpoint"):
        data = path.read_bytes()
        assert encode_checkpoint(decode_checkpoint(data, where=str(path))) == data, path


@pytest.mark.parametrize("version", VERSIONS)
def test_markers_tell_their_transactions(version: str) -> None:
    for path, layout in objects(version, "markers/*.parquet"):
        key = path.relative_to(root(version)).as_posix()
        marker = decode_marker(layout, key, pq.read_metadata(path).metadata, where=key)
        transaction = path.parents[1] / "transactions" / f"{path.name.removesuffix('.parquet')}.transaction"
        if transaction.exists() and "rebuilt" not in (whole := decoded(transaction)).commit.summary:
            told = marker.transaction
            assert (told.commit, told.resolves) == (whole.commit, whole.resolves)
            assert [type(a) for a in told.actions] == [type(a) for a in whole.actions]


def test_what_a_rebuild_ends_with_has_the_whole_state() -> None:
    for writer in ("ann", "bob"):
        path, layout = max(
            one for one in objects("0.1.0+rebuilt", "markers/*.parquet") if f"/{writer}/" in str(one[0])
        )
        key = path.relative_to(root("0.1.0+rebuilt")).as_posix()
        marker = decode_marker(layout, key, pq.read_metadata(path).metadata, where=key)
        (checkpoint,) = (path.parents[1] / "transactions").glob(f"{marker.revision:020d}.*.checkpoint")
        assert marker.state == decode_checkpoint(checkpoint.read_bytes(), where=key)


def test_the_program_that_makes_them_still_works(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    made, wanted = make(tmp_path / "db"), expected(firn.__version__)
    assert made.keys() == wanted.keys()
    for name, table in made.items():
        assert list(table["versions"].values()) == list(wanted[name]["versions"].values())
        assert table["history"] == wanted[name]["history"]
        assert rows(firn.connect(tmp_path / "db").table(name)) == table["versions"]["now"]


def _version_of(path: Path) -> int:
    head = frame.read_head(path.read_bytes())
    assert head is not None
    return head.version


def test_a_catalog_is_upgraded_where_it_stands(
    copied: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the first rows that stand in it. Versions that don't know its format leave out that writer alone."""
    where, wanted = copied(firn.__version__), expected(firn.__version__)
    bob = connect(where, "bob")
    bob.table("flights").alter(set_properties={"inline": "64KB"})
    bob.checkpoint()
    assert {_version_of(path) for path in where.glob("bob/db/transactions/*")} == {1}, "and its checkpoints"
    bob.table("flights").append([{"date": datetime(2001, 7, 1), "delay": 1000}])
    bob.table("flights").append([{"date": datetime(2001, 8, 1), "delay": 1000}])
    *older, first, last = sorted(where.glob("bob/db/transactions/*.transaction"))
    assert {_version_of(path) for path in older} == {1} and _version_of(first) == _version_of(last) == 2
    assert decoded(first).actions[0] == Upgrade(2) and len(decoded(last).actions) == 1
    db = firn.connect(where, strict=True)
    assert db._writer_tables.federation.load().versions["bob"].state.format == 2
    for name in ("flights", "stock"):
        table = db.table(name)
        assert {at: rows(table, at) for at in wanted[name]["times"]} == wanted[name]["times"]
        assert db.table(name).scan().count() == len(wanted[name]["versions"]["now"]) + 2 * (name == "flights")
    monkeypatch.setattr(frame, "NEWEST_VERSION", 1)
    with pytest.raises(firn.UnsupportedError, match="Upgrade Firn"):
        firn.connect(where, strict=True).table("flights").scan().count()
    with pytest.warns(firn.DegradedReadWarning, match="the writer bob is left out"):
        assert rows(firn.connect(where).table("types")) == wanted["types"]["versions"]["now"]
