"""Databases of writers' catalogs to run the command line on, and forks in them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import firn
from firn.bucket.base import Bucket
from firn.journal.writer.format.actions import CatalogTransaction
from firn.journal.writer.format.identity import new_uuid
from firn.journal.writer.format.layout import WriterLayout
from firn.journal.writer.format.messages import decode_transaction, encode_transaction

UNCLAIMED = {"conditional_put": "disabled"}
"""For histories by PUT and LIST: only those can have forks."""


def database(directory: Path, writer: str | None = "a", **options: Any) -> firn.Database:
    return firn.connect(directory / "prod", writer=writer, **options)


def two_writers(directory: Path, **options: Any) -> firn.Database:
    """`cpu` with a row of each of two writers; `a` has deleted one of its own. Open as `a`."""
    a, b = database(directory, "a", **options), database(directory, "b", **options)
    cpu = a.create_table("cpu", journal="writer")
    cpu.append([{"host": "x", "cores": 1}, {"host": "y", "cores": 2}], batch_id="b-1")
    b.table("cpu").append([{"host": "z", "cores": 3}])
    cpu.delete("cores = 2")
    return a


def layout(writer: str = "a") -> WriterLayout:
    return WriterLayout("", writer, "prod")


def keys(bucket: Bucket, below: str) -> list[str]:
    return [info.key for info in bucket.list(below).objects]


def newest(bucket: Bucket, writer: str = "a") -> tuple[str, CatalogTransaction]:
    """The key and the content of the transaction with the greatest name."""
    key = [k for k in keys(bucket, layout(writer).transactions_prefix) if k.endswith(".transaction")][-1]
    return key, decode_transaction(bucket.get(key).data, where=key)


def fork(bucket: Bucket, writer: str = "a") -> tuple[CatalogTransaction, CatalogTransaction]:
    """A second transaction at the newest revision: an open fork. Both sides."""
    _, transaction = newest(bucket, writer)
    rival = replace(transaction, commit=replace(transaction.commit, uuid=new_uuid()))
    bucket.put(layout(writer).transaction_key(rival.revision, rival.uuid), encode_transaction(rival))
    return transaction, rival
