"""Put the real bytes into the pages of docs/format: what Firn writes for one small table's life over each journal.

    python scripts/write_format_examples.py

Each block after a line `<!-- bytes: NAME -->` is replaced; a test compares them. Clock, random names and
host are fixed, so that the bytes are the same everywhere.
"""

from __future__ import annotations

import os
import random
import re
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

import firn
from firn.bucket.base import BytesLike
from firn.database.writer_tables import WriterTables
from firn.journal.definition import definition_key
from firn.journal.inlined import InlinedRows
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.leaderless.format import layout
from firn.journal.manifest import ManifestJournal, SSTInfo, View
from firn.journal.model import Commit, DataFile
from firn.journal.sequence import SequenceLayout
from firn.journal.writer.format import frame
from firn.journal.writer.format.actions import Define
from firn.journal.writer.format.catalog_pb2 import Transaction
from firn.journal.writer.format.layout import WriterLayout
from firn.journal.writer.format.messages import decode_transaction
from firn.lake.definition import definition as lake_definitions
from firn.lake.definition.definition import LakeDefinition
from firn.lake.partition.partition import PartitionSpec
from firn.lake.write.append import write
from firn.records.apply.apply import settle
from firn.records.definition.alteration import Alteration
from firn.records.definition.definition import Index, RecordDefinition, create_definition
from firn.records.load.copy_cursor import Cursor, write_cursor
from firn.records.maintain.alter import alter
from firn.records.maintain.collection import collect
from firn.records.maintain.ddl import define
from firn.records.objects.store import RecordStore
from firn.records.row_tables import RowTable
from firn.records.write.transaction import begin
from firn.runner import InProcess, LocalRunner
from firn.testing import SimStore, seeded_entropy

FORMATS = Path(__file__).resolve().parents[1] / "docs/format"
BLOCK = re.compile(r"(<!-- bytes: ([a-z0-9-]+) -->\n```\w*\n)(.*?)^(```)$", re.DOTALL | re.MULTILINE)

COLUMNS = {"date": "TIMESTAMP", "origin": "VARCHAR", "delay": "BIGINT"}
HOUR_MS = 3_600_000


def log_examples() -> dict[str, str]:
    """Name → text of the objects that the page of the leaderless log shows."""
    with _fixed_names():
        texts = _life_of_a_table()
    return {**texts, "prices": _prices()}


def catalog_examples() -> dict[str, str]:
    """The same of the page of the writer's catalog."""
    with _fixed_names():
        return _life_of_a_catalog()


def manifest_examples() -> dict[str, str]:
    """The same of the page of the keyed tables' manifest."""
    with _fixed_names():
        return _life_of_a_manifest()


def record_log_examples() -> dict[str, str]:
    """The same of the page of their log."""
    with _fixed_names():
        return {**_life_of_a_record_log(), **_life_of_an_altered_table()}


def record_examples() -> dict[str, str]:
    """The same of the page of record tables."""
    with _fixed_names():
        return {
            **_life_of_records(),
            **_life_of_a_lone_row(),
            **_life_of_a_cursor(),
            **_life_of_elements(),
        }


PAGES: Mapping[Path, Callable[[], dict[str, str]]] = {
    FORMATS / "leaderless-log.md": log_examples,
    FORMATS / "writer-catalog.md": catalog_examples,
    FORMATS / "keyed-manifest.md": manifest_examples,
    FORMATS / "records.md": record_examples,
    FORMATS / "record-log.md": record_log_examples,
}


def filled(page: str, texts: Mapping[str, str]) -> str:
    """The page with its blocks replaced."""
    return BLOCK.sub(lambda found: f"{found[1]}{texts[found[2]]}\n{found[4]}", page)


class _Recorder(SimStore):
    """A store that remembers every body it was given."""

    def __init__(self) -> None:
        super().__init__(etags="counter", start_ms=1_767_258_000_000)
        self.written: list[tuple[str, bytes]] = []

    def write(self, key: str, data: BytesLike, *, absent: bool = False, match: str | None = None) -> str:
        etag = super().write(key, data, absent=absent, match=match)
        self.written.append((key, bytes(data)))
        return etag

    def bodies(self, key: str) -> list[str]:
        return [body.decode() for name, body in self.written if name == key]


def _life_of_a_table() -> dict[str, str]:
    store = _Recorder()
    bucket = store.bucket()
    spec = PartitionSpec.parse(["month(date)"], COLUMNS)
    definition = LakeDefinition("flights", columns=COLUMNS, partition=spec, sort_by=("date",))
    lake_definitions.create_definition(bucket, "prod/flights", definition)
    journal = LeaderlessJournal(bucket, "prod/flights", clock=bucket.client.clock, renew_in_background=False)

    def data_file(month: str, rows: int, delays: tuple[int, int], *, maintenance: bool = False) -> DataFile:
        path = journal.layout.namer(maintenance=maintenance)(f"date_month={month}")
        size = 1000 + 12 * rows
        bucket.put(path, b"")
        stats = {"delay": [*delays, 0], "origin": ["ABE", "YUM", 0]}
        return DataFile(path, size, store.time.now_ms, {"rows": rows, "stats": stats, "spec": spec.id})

    texts = {"table": bucket.get(definition_key("prod/flights")).data.decode()}
    append = journal.begin_append()
    january, february = data_file("2001-01", 120, (-31, 180)), data_file("2001-02", 80, (-20, 95))
    store.time.advance(750)
    version = append.commit(Commit("append", [january, february], columns=COLUMNS))
    texts["append"] = bucket.get(f"prod/flights/_log/{version}.jsonl").data.decode()

    store.time.advance(60_000)
    append = journal.begin_append()
    late = data_file("2001-01", 5, (3, 44))
    version = append.commit(Commit("append", [late], columns=COLUMNS, batch_id="web-7/1842"))
    texts["batch-append"] = bucket.get(f"prod/flights/_log/{version}.jsonl").data.decode()
    texts["claim"] = bucket.get(journal.layout.batch_key("web-7/1842")).data.decode()

    store.time.advance(HOUR_MS)
    with journal.exclusive("merge") as session:
        merged = data_file("2001-01", 125, (-31, 180), maintenance=True)
        version = session.publish(Commit("merge", [merged], [january.path, late.path], columns=COLUMNS))
    log_key = f"prod/flights/_log/{version}.jsonl"
    texts["reservation"], texts["merge"] = store.bodies(log_key)
    texts["lock-held"], texts["lock-intent"], texts["lock-free"] = store.bodies(journal.layout.lock_key)

    store.time.advance(2 * HOUR_MS)
    journal.sweep(grace_ms=HOUR_MS, orphan_age_ms=7 * 24 * HOUR_MS, margin=True, dry_run=False)
    texts["cleaned"] = bucket.get(log_key).data.decode()
    texts["sweep"] = bucket.get(journal.layout.horizon_key).data.decode()
    texts["keys"] = "\n".join(store.keys())
    version = journal.begin_append().commit(Commit("append", [_two_rows()], columns=COLUMNS))
    texts["inlined"] = bucket.get(f"prod/flights/_log/{version}.jsonl").data.decode()
    return texts


def _two_rows() -> DataFile:
    """An append that writes no file."""
    values = [[979509300000000, 982849320000000], ["DTW", None], [66, 95]]
    return DataFile("", 0, 0, {"rows": 2, "inlined": InlinedRows.of(COLUMNS, values, 2)})


def _prices() -> str:
    """Requests of each operation, counted on a store in memory."""
    name = f"memory://{secrets.token_hex(8)}"
    verbs = ("get", "put", "list", "head", "delete")
    lines = [" " * 44 + "".join(f"{verb.upper():>7}" for verb in verbs)]

    def opened() -> firn.LakeTable:
        """The table as a new process opens it: with empty caches."""
        return firn.connect(name).table("t")

    def charge(what: str, table: firn.LakeTable, operation: Callable[[], object]) -> None:
        before = table.bucket.counters.as_dict()
        operation()
        after = table.bucket.counters.as_dict()
        lines.append(f"{what:44}" + "".join(f"{after[verb] - before[verb]:7}" for verb in verbs))

    rows = [{"k": k, "n": n} for k in (1, 2) for n in range(10)]
    table = firn.connect(name).create_table(
        "t", partition_by=["k"], properties={"inline": 0, "maintain": "none"}
    )
    charge("append 2 files, the first of a process", table, lambda: table.append(rows))
    charge("append 2 files", table, lambda: table.append(rows))
    charge("append 2 files with a batch id", table, lambda: table.append(rows, batch_id="b"))
    opened().append(rows)
    table = opened()
    charge("open the table, 4 logs", table, table.snapshot)
    charge("open it again, nothing new", table, table.snapshot)
    charge("read all of its 8 files", table, lambda: table.scan().to_arrow())
    table = opened()
    charge("merge 8 files to 2", table, table.merge)
    table = opened()
    charge("open the table after that", table, table.snapshot)
    table = opened()
    charge("delete rows of 1 file", table, lambda: table.delete("k = 1 AND n < 5"))
    table = opened()
    charge("remove a partition", table, lambda: table.remove_partitions("k = 2"))
    table = opened()
    charge("sweep of 10 files and 6 logs", table, lambda: table.sweep(older_than="0s"))
    for _ in range(8):
        table.append(rows)
    charge("write a checkpoint of 9 logs", table, table.checkpoint)
    table = opened()
    charge("open the table with the checkpoint", table, table.snapshot)
    table = firn.connect(f"{name}/inline").create_table(
        "t", partition_by=["k"], properties={"inline": "64KB", "maintain": "none"}
    )
    charge("append 20 rows to the log, the first", table, lambda: table.append(rows))
    charge("append 20 rows to the log", table, lambda: table.append(rows))
    charge("read these 40 rows, with their logs", table, lambda: table.scan().to_arrow())
    charge("write them into 2 files", table, lambda: table.merge(only="inlined"))
    return "\n".join(lines)


# -- writers' catalogs


def _life_of_a_catalog() -> dict[str, str]:
    """Two commits and a checkpoint. The data file's footer, which other versions of its library would write
    otherwise, decides on its size and checksum: those are made up."""
    store = _Recorder()
    bucket = store.bucket()
    layout = WriterLayout("prod", "host-17", "prod")
    tables = WriterTables(
        bucket,
        "prod",
        "s3://bucket/prod",
        InProcess(LocalRunner(threads=1)),
        writer="host-17",
        strict=True,
        clock=bucket.client.clock,
    )
    spec = PartitionSpec.parse(["month(date)"], COLUMNS)
    definition = LakeDefinition(
        "flights", journal="writer", columns=COLUMNS, partition=spec, sort_by=("date",)
    )
    table = tables.define(definition)

    store.time.advance(60_000)
    rows = [{"date": datetime(2001, 1, day), "origin": "DTW", "delay": 10 * day - 41} for day in (3, 4, 5)]
    append = table.journal.begin_append()
    with seeded_entropy(
        random.Random(2002)
    ):  # how much it draws depends on what this process has done before
        written, _ = write(table.context, rows, append.namer)
    (real,) = written.files
    pairs = pq.read_metadata(pa.BufferReader(bucket.get(real.path).data)).metadata
    bucket.delete(real.path)
    crc = 0x5D1C0E8B
    path = append.namer(real.path.split("/")[-3], crc=crc)
    bucket.put(path, b"")
    made = DataFile(path, 2440, store.time.now_ms, {**(real.extra or {}), "crc": crc})
    append.commit(Commit("append", [made], columns=written.columns, batch_id="host-17/1842"))
    table.checkpoint()

    head = tables.own.state.head
    data = bytes(bucket.get(layout.transaction_key(head.revision, head.uuid or "")).data)
    defined = store.keys(layout.transactions_prefix)[0]
    (define,) = (
        action
        for action in decode_transaction(bucket.get(defined).data, where=defined).actions
        if isinstance(action, Define)
    )
    texts = {
        "catalog-keys": "\n".join(store.keys("prod")),
        "database": bucket.get("prod/_firn/database.json").data.decode(),
        "definition": define.spec.decode(),
        "file-metadata": pairs[b"firn"].decode(),
        "transaction": "\n".join(data[at : at + 32].hex(" ", 2) for at in range(0, len(data), 32)),
        "transaction-fields": "\n".join(_fields_of(data)),
        "hint": bucket.get(layout.hint_key).data.decode(),
    }
    store.time.advance(60_000)
    table.journal.begin_append().commit(Commit("append", [_two_rows()], columns=COLUMNS))
    head = tables.own.state.head
    data = bytes(bucket.get(layout.transaction_key(head.revision, head.uuid or "")).data)
    return {**texts, "rows-fields": "\n".join(_fields_of(data))}


def _fields_of(data: bytes) -> Iterator[str]:
    """The head's fields, then the message's: where each begins, its first bytes, its name and value."""
    for start, end, name, value in (
        (0, 8, "magic", data[:8].decode()),
        (8, 12, "version", str(int.from_bytes(data[8:12], "little"))),
        (12, 20, "length", str(int.from_bytes(data[12:20], "little"))),
        (20, 24, "crc", f"0x{int.from_bytes(data[20:24], 'little'):08x}"),
    ):
        yield _line(start, data[start:end], name, value)
    yield from _message(Transaction.DESCRIPTOR, data, frame.OVERHEAD, len(data), 0)


def _message(kind: Any, data: bytes, at: int, end: int, depth: int) -> Iterator[str]:
    while at < end:
        start = at
        tag, at = _varint(data, at)
        field = kind.fields_by_number[tag >> 3]
        name = "  " * depth + field.name
        number, at = (0, at + 8) if tag & 7 == 1 else _varint(data, at)
        if tag & 7 != 2:
            decoded = kind._concrete_class.FromString(data[start:at])
            yield _line(start, data[start:at], name, str(getattr(decoded, field.name)))
        elif field.type == field.TYPE_MESSAGE:
            yield _line(start, data[start:at], name, "")
            yield from _message(field.message_type, data, at, at + number, depth + 1)
            at += number
        else:
            value = data[at : at + number]
            text = value.decode() if value.isascii() and field.name != "uuid" else value.hex()
            yield _line(start, data[start:at], name, text if field.name != "previous" else value.hex())
            at += number
    assert at == end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def _line(start: int, head: bytes, name: str, value: str) -> str:
    return f"{start:5}  {head.hex(' '):26}  {name:<20} {value}".rstrip()


# -- keyed tables' manifests


def _life_of_a_manifest() -> dict[str, str]:
    """The paper's worked example: three writers, two of them followed while they go on, two commits of a compactor
    and a snapshot between these. What the SSTs hold is left out."""
    store = _Recorder()
    bucket = store.bucket()
    journal = ManifestJournal(bucket, "prod/delays", clock=bucket.client.clock)
    journal.create({"flush_ms": 100}, 1)

    first = journal.open_writer()
    for number in (0, 1, 2):
        first.put_l0(number, b"flush")
    second = journal.open_writer()
    # A zombie: number 3 was refused by the fence, number 4 was in flight with it.
    bucket.put_if_absent(journal.layout.l0_key(1, 4), b"flush")
    for number in (3, 4, 5):
        second.put_l0(number, b"flush")
    third = journal.open_writer()
    for number in (6, 7):
        third.put_l0(number, b"flush")

    store.time.advance(60_000)
    compactor = journal.open_compactor()

    def sst(run: int, least: bytes, greatest: bytes, rows: int, upto: int) -> SSTInfo:
        number = compactor.next_sst_number()
        compactor.put_sst(number, b"SST %d" % number)
        size, file = 4096 + 80 * rows, compactor.sst_file(number)
        return SSTInfo(1, run, number, file, least, greatest, rows, size, (upto + 1 << 32) + 41, 2)

    halves = [sst(0, b"ABE", b"LAX", 60, 1), sst(0, b"LBB", b"YUM", 40, 1)]
    compactor.commit(adds=halves, deletes=[], last_compacted=1)
    example = journal.read()
    snapshot = journal.snapshot(name="noon", expires_ms=store.time.now_ms + HOUR_MS)
    compactor.commit(adds=[sst(1, b"ABE", b"YUM", 75, 3)], deletes=[], last_compacted=3)
    final = journal.read()

    def body(key: str) -> str:
        return bucket.get(key).data.decode()

    def seen(view: View) -> str:
        files = [f"{file.epoch}.{file.number}" for file in view.l0]
        return f"{view.version}\n[{', '.join(files)}]"

    return {
        "manifest-keys": "\n".join(
            f"{key}{'   (a fence)' if not data and '/l0/' in key else ''}"
            for key, data in store.contents("prod").items()
        ),
        "pointer-first": store.bodies(journal.layout.pointer_key)[0],
        "pointer": body(journal.layout.pointer_key),
        "full": body(journal.layout.manifest_key(example.manifest.name)),
        "incremental": body(journal.layout.manifest_key(final.manifest.name)),
        "snapshot": body(snapshot.key),
        "worked-example": seen(example),
        "after-the-second-commit": seen(final),
    }


# -- record tables


def _life_of_records() -> dict[str, str]:
    """Two people are written in one commit, one moves in a second and one is deleted in a third; all is applied."""
    store, definition = _people()

    def body(key: str) -> str:
        return store.fetch(key).data.decode()

    ada, bob = definition.layout("prod/people").row("ada"), definition.layout("prod/people").row("bob/2")
    return {
        "record-keys": "\n".join(store.keys("prod")),
        "record-definition": body(definition_key("prod/people")),
        "commit": body(f"prod/_commits/{3:020}"),
        "horizon": body("prod/_firn/horizon"),
        "row": body(ada),
        "tombstone": body(bob),
    }


def _life_of_a_record_log() -> dict[str, str]:
    """The same, and what nobody sees any more is collected a minute later."""
    store, _ = _people()
    store.time.advance(60_000)
    bucket = store.bucket()
    collect(RecordStore(bucket, "prod", clock=bucket.client.clock), retention_s=30)
    layout = SequenceLayout("prod")
    return {
        "log-keys": "\n".join(store.keys("prod")),
        "collected-horizon": store.fetch(layout.horizon_key).data.decode(),
        "pack": store.fetch(layout.pack_key(1)).data.decode(),
    }


def _people() -> tuple[_Recorder, RecordDefinition]:
    store = _Recorder()
    bucket = store.bucket()
    definition = RecordDefinition("people", db="prod", indices=(Index("city"), Index("email", unique=True)))
    made = create_definition(bucket, "prod/people", definition)
    bucket.put(definition_key("prod/people"), replace(made, state="ready").encode())
    records = RecordStore(bucket, "prod", clock=bucket.client.clock)
    define(records, made.creation())

    with begin(records) as tx:
        tx.insert("people", "ada", {"city": "London", "email": "ada@example.com"})
        tx.insert("people", "bob/2", {"city": "Ann Arbor"})
    store.time.advance(60_000)
    with begin(records) as tx:
        tx.update("people", "ada", {**tx.get("people", "ada"), "city": "Ockham"})
    store.time.advance(60_000)
    with begin(records) as tx:
        tx.delete("people", "bob/2")
    settle(records)
    return store, definition


def _life_of_an_altered_table() -> dict[str, str]:
    """People with columns, of which one goes, one comes and one widens; and a row by them."""
    store = _Recorder()
    bucket = store.bucket()
    columns = {"born": "SMALLINT", "fax": "VARCHAR"}
    definition = RecordDefinition("people", db="prod", columns=columns)
    made = replace(create_definition(bucket, "prod/people", definition), state="ready")
    records = RecordStore(bucket, "prod", clock=bucket.client.clock, definitions={"people": made}.get)
    define(records, made.creation())
    asked = Alteration(
        add={"city": "VARCHAR"}, drop=["fax"], types={"born": "INTEGER"}, comments={"city": "of birth"}
    )
    alter(records, made, asked, validate=False, dry_run=False)
    with begin(records) as tx:
        tx.insert("people", "ada", {"born": 1815, "city": "London"})
    settle(records)
    commits = [store.fetch(f"prod/_commits/{number:020}").data.decode() for number in (2, 3)]
    return {"alter-commit": commits[0], "altered-commit": commits[1]}


def _life_of_elements() -> dict[str, str]:
    """Posts with tags; of one these change."""
    store = _Recorder()
    bucket = store.bucket()
    definition = RecordDefinition("posts", db="prod", indices=(Index("tags", each=True),))
    made = replace(create_definition(bucket, "prod/posts", definition), state="ready")
    records = RecordStore(bucket, "prod", clock=bucket.client.clock, definitions={"posts": made}.get)
    define(records, made.creation())
    with begin(records) as tx:
        tx.insert("posts", "1", {"tags": ["sea", "sun", "sea"]})
        tx.insert("posts", "2", {"tags": []})
    with begin(records) as tx:
        tx.update("posts", "1", {"tags": ["sun", 7]})
    settle(records)
    return {
        "element-keys": "\n".join(key for key in store.keys("prod") if "/indices/" in key),
        "element-commit": store.fetch(f"prod/_commits/{3:020}").data.decode(),
    }


def _life_of_a_cursor() -> dict[str, str]:
    """All was copied up to commit 3; commit 4 comes next; it is there."""
    store = _Recorder()
    bucket, key = store.bucket(), "prod/people/_firn/copies/history"
    shown = {}
    begun = write_cursor(bucket, key, Cursor.begin(secrets.token_hex(16), 3), None)
    settled = write_cursor(bucket, key, begun.cursor.done(), begun)
    coming = write_cursor(bucket, key, settled.cursor.next(4), settled)
    shown["cursor"] = store.fetch(key).data.decode()
    write_cursor(bucket, key, coming.cursor.done(), coming)
    shown["cursor-done"] = store.fetch(key).data.decode()
    return shown


def _life_of_a_lone_row() -> dict[str, str]:
    """Inserted, and changed."""
    store = _Recorder()
    bucket = store.bucket()
    table = RowTable(
        bucket, "prod/stock", RecordDefinition("stock", db="prod", isolation="row"), clock=bucket.client.clock
    )
    first = table.insert("DTW", {"quantity": 3})
    table.update("DTW", {"quantity": 2}, etag=first)
    return {"lone-row": bucket.get("prod/stock/data/DTW.json").data.decode(), "lone-row-etag": first}


@contextmanager
def _fixed_names() -> Iterator[None]:
    with (
        seeded_entropy(random.Random(2001)),
        mock.patch.object(layout, "_host", return_value="web-7"),
        mock.patch.object(socket, "gethostname", return_value="web-7"),
        mock.patch.object(os, "getpid", return_value=4711),
    ):
        yield


if __name__ == "__main__":
    for page, examples in PAGES.items():
        page.write_text(filled(page.read_text("utf-8"), examples()), "utf-8")
