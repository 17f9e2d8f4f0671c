"""Single objects of a catalog, read and checked against their names (rule 19)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson

from firn.bucket.base import Bucket
from firn.bucket.presence import find
from firn.errors import CorruptObjectError, ObjectNotFoundError
from firn.journal.writer.format import frame
from firn.journal.writer.format.actions import CatalogTransaction
from firn.journal.writer.format.identity import prefix_of
from firn.journal.writer.format.layout import ObjectName, WriterLayout
from firn.journal.writer.format.messages import decode_checkpoint, decode_transaction
from firn.journal.writer.format.state import CatalogState
from firn.journal.writer.history.forks import Link, Node


class Reader:
    """Gets and decodes the objects of one catalog."""

    def __init__(self, bucket: Bucket, layout: WriterLayout) -> None:
        self.bucket, self.layout = bucket, layout

    def where(self, name: ObjectName) -> str:
        """The object's URL, for messages."""
        return self.bucket.uri(self.layout.object_key(name))

    def transactions(self, nodes: Sequence[Node]) -> dict[Node, CatalogTransaction | CorruptObjectError]:
        """1 GET each, in parallel. Objects that are gone are left out; corrupt ones are their errors."""
        names = [ObjectName(*node, "transaction") for node in nodes]
        blobs = self.bucket.get_many([self.layout.object_key(name) for name in names])
        found: dict[Node, CatalogTransaction | CorruptObjectError] = {}
        for node, name, blob in zip(nodes, names, blobs, strict=True):
            if blob is None:
                continue
            try:
                found[node] = self.decode_transaction(name, blob.data)
            except CorruptObjectError as error:
                found[node] = error
        return found

    def decode_transaction(self, name: ObjectName, data: bytes) -> CatalogTransaction:
        """Raises `CorruptObjectError`, where the bytes are of another catalog or another name too."""
        where = self.where(name)
        transaction = decode_transaction(data, where=where)
        found = ObjectName(transaction.revision, prefix_of(transaction.uuid), "transaction")
        self._check(name, found, (transaction.writer, transaction.database), frame.TRANSACTION)
        return transaction

    def checkpoint(self, name: ObjectName) -> CatalogState | None:
        """1 GET; None where it is gone. Raises `CorruptObjectError`."""
        blob = find(self.bucket, self.layout.object_key(name))
        if blob is None:
            return None
        state = decode_checkpoint(blob.data, where=self.where(name))
        found = ObjectName(state.head.revision, prefix_of(state.head.uuid or ""), "checkpoint")
        self._check(name, found, (state.writer, state.database), frame.CHECKPOINT)
        return state

    def _check(self, name: ObjectName, found: ObjectName, owner: tuple[str, str], magic: bytes) -> None:
        where = self.where(name)
        if found.revision != name.revision:
            raise frame.corrupt(magic, where, f"it says that it is of revision {found.revision}")
        if found.prefix != name.prefix:
            raise frame.corrupt(magic, where, f"it says that its uuid begins with {found.prefix}")
        if owner != (self.layout.writer, self.layout.database):
            raise frame.corrupt(
                magic, where, f"it says that it is of the database {owner[1]!r} of the writer {owner[0]!r}"
            )

    def hint(self) -> ObjectName | None:
        """The checkpoint that the hint names; None without a hint that can be read. 1 GET."""
        try:
            found = orjson.loads(self.bucket.get(self.layout.hint_key).data)
            return ObjectName(int(found["revision"]), str(found["uuid"]), "checkpoint")
        except (ObjectNotFoundError, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            return None

    def write_hint(self, name: ObjectName) -> None:
        """1 PUT."""
        body = orjson.dumps({"firn": frame.FIRST_VERSION, "revision": name.revision, "uuid": name.prefix})
        self.bucket.put(self.layout.hint_key, body)


def links_of(found: Mapping[Node, CatalogTransaction | CorruptObjectError]) -> dict[int, list[Link]]:
    """The links between transactions, by revision, which decide what counts."""
    links: dict[int, list[Link]] = {}
    for (revision, prefix), transaction in found.items():
        if isinstance(transaction, CorruptObjectError):
            link = Link(revision, prefix, None)
        else:
            previous = prefix_of(transaction.commit.previous or "")
            resolves = tuple((r.revision, prefix_of(r.keep)) for r in transaction.resolves)
            link = Link(revision, prefix, previous, resolves)
        links.setdefault(revision, []).append(link)
    return links


def store_now(bucket: Bucket, layout: WriterLayout) -> int:
    """Unix milliseconds, of a moment ago: when an object was written that exists for this alone. 1 PUT + 1 HEAD."""
    bucket.put(layout.clock_key, b"")
    return bucket.head(layout.clock_key).modified_ms
