"""`Database`: a bucket prefix and the tables below it. A new kind of table is added to `_KINDS`."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from firn.arrow.inputs import declared_columns
from firn.bucket import open_bucket, split_url
from firn.bucket.base import Bucket
from firn.bucket.keys import key_below
from firn.engines import DatabaseEngines
from firn.errors import InvalidInputError, TableExistsError, TableNotFoundError, UnsupportedError
from firn.journal.leaderless import LeaderlessJournal, Settings
from firn.journal.leaderless.layout import FIRN_DIR, LOG_DIR
from firn.journal.lock import ExclusiveLock
from firn.lake.descriptor import (
    Descriptor,
    check_properties,
    create_descriptor,
    descriptor_key,
    read_descriptor,
)
from firn.lake.keys import parse_key
from firn.lake.partition import PartitionSpec
from firn.lake.results import DropReport
from firn.lake.table import LakeTable
from firn.runner import Runner
from firn.upkeep import WriterUpkeep
from firn.writers import WriterTables, WriterTransaction

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_NAME = re.compile(r"[A-Za-z0-9.\-][A-Za-z0-9_.\-]{0,99}")


def connect(
    url: str | os.PathLike[str],
    *,
    options: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
    runner: Runner | None = None,
    lock: ExclusiveLock | None = None,
    writer: str | None = None,
    strict: bool = False,
) -> Database:
    """Open a database: a prefix of a bucket, or a directory. Nothing is read or written yet.

    Args:
        url: `s3://bucket/prefix`, `gs://…`, `az://container/…`, a directory, or `memory://` (a fresh one;
            `memory://name` is shared within the process).
        options: obstore's configuration names (`aws_region`, `endpoint`, …) and client options
            (`allow_http`, `timeout`, …). Credentials come from the usual environment unless given here.
        spark: the session for pipeline work; else the active one, or one that Firn starts when it needs it.
        runner: where maintenance tasks run, instead of Spark or this process.
        lock: an exclusive lock from outside, for stores without conditional puts; see `firn.ExclusiveLock`.
        writer: this process's id among the writers of tables with `journal="writer"`: letters, digits, `_ - .`,
            at most 100. No other process may use it at the same time. Without one such tables are only read.
        strict: refuse to read tables of writers' catalogs while any writer's can't be read. Else that writer
            is left out, and `Snapshot.warnings` and `Database.writers` say so.

    Raises:
        InvalidInputError: a scheme, an option or an id that can't be.

    Example:
        >>> import firn
        >>> db = firn.connect("memory://")
        >>> db.create_table("events", partition_by=["day(ts)"]).name
        'events'
        >>> db.tables()
        ['events']
    """
    return Database(url, options=options, spark=spark, runner=runner, lock=lock, writer=writer, strict=strict)


def split_table_url(url: str) -> tuple[str, str]:
    """A table's URL as its database's URL and its name.

    >>> split_table_url("./prod/flights")
    ('./prod', 'flights')
    """
    base, _, name = url.rstrip("/").rpartition("/")
    if not base or base.endswith(":/"):
        raise InvalidInputError(
            f"{url!r} isn't a table's URL: it needs a database and a table, like ./prod/flights."
        )
    return base, name


class Database(WriterUpkeep):
    """Tables of one prefix. Made by `connect`; safe to share between threads."""

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        options: Mapping[str, Any] | None = None,
        spark: SparkSession | None = None,
        runner: Runner | None = None,
        lock: ExclusiveLock | None = None,
        writer: str | None = None,
        strict: bool = False,
    ) -> None:
        self.url = os.fspath(url)
        self.options = dict(options or {})
        self.lock = lock
        root, self.prefix = split_url(self.url)
        self.bucket: Bucket = open_bucket(root, options=self.options)
        self.engines = DatabaseEngines(self.bucket, self.url, spark, runner)
        self._writer_tables = WriterTables(
            self.bucket, self.prefix, self.url, self.engines, writer=writer, strict=strict
        )

    def __repr__(self) -> str:
        return f"<Database {self.url}>"

    def create_table(
        self,
        name: str,
        *,
        kind: str = "lake",
        schema: pa.Schema | Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        key: Sequence[str] = (),
        version_by: str | None = None,
        journal: str = "leaderless",
        properties: Mapping[str, Any] | None = None,
    ) -> LakeTable:
        """Create a table.

        Args:
            name: letters, digits, `_ - .`, at most 100, not beginning with `_`.
            kind: "lake".
            schema: an Arrow schema, or DuckDB type names by column; else the first append decides.
            partition_by: columns or transforms: `col`, `year(col)`, `month(col)`, `day(col)`, `hour(col)`,
                `bucket(16, col)`, `truncate(4, col)`.
            sort_by: columns by which each file is sorted, like `"date"` or `"delay desc"`; by default the key.
            key: columns of which no two rows have the same values: a row that is appended replaces the one of
                its key. What the table is partitioned by must be part of it. See docs/howto/keys.md.
            version_by: a column of a table with a key; the row of the greatest value replaces, whichever came
                last.
            journal: "leaderless": any process appends, maintenance takes a lock. "writer": each writer has a
                history of its own in this database, and `connect` needs `writer=`.
            properties: see docs/howto/properties.md.

        Raises:
            TableExistsError: the name is taken.
            InvalidInputError: a name, type, transform or property that can't be.

        Cost: 1 PUT + 1 LIST.
        """
        check_name(name)
        if kind not in _KINDS:
            raise InvalidInputError(f"kind={kind!r}: there are {', '.join(map(repr, _KINDS))}.")
        if journal not in _JOURNALS:
            raise InvalidInputError(f"journal={journal!r}: there are {', '.join(map(repr, _JOURNALS))}.")
        properties = dict(properties or {})
        columns = declared_columns(schema)
        check_properties(properties, columns, journal=journal)
        spec = PartitionSpec.parse(partition_by, columns)
        keys = parse_key(key, version_by, columns, [f.source for f in spec.fields])
        if keys is not None and properties.get("shared"):
            raise InvalidInputError(f"{name} can't be shared with the reference, which knows no keys.")
        order = parse_sort(sort_by or (keys.key if keys is not None else ()), columns)
        descriptor = Descriptor(name, kind, journal, columns, spec, order, properties, keys=keys)
        prefix = self._prefix(name)
        if journal == "writer":
            if self.bucket.list_dirs(f"{prefix}/"):
                raise TableExistsError(
                    f"{self.bucket.uri(prefix)} is there already. Open it with db.table({name!r}), or choose "
                    "another name."
                )
            return self._writer_tables.define(descriptor)
        self._writer_tables.check_free(name)
        if read := read_descriptor(self.bucket, prefix):
            if not read.dropped:
                create_descriptor(self.bucket, prefix, descriptor)  # raises, with the usual message
            self._erase(read, name)
        elif self._has_log(prefix):
            # A table of the reference's: defining it keeps its data.
            if keys is not None:
                raise UnsupportedError(
                    f"{self.bucket.uri(prefix)} holds a table of the reference's, whose rows have no clock: it "
                    "can't have a key. Make a table of another name, and append its rows there."
                )
            descriptor = descriptor if properties.get("shared") else _shared(descriptor)
        return self._open(create_descriptor(self.bucket, prefix, descriptor))

    def table(self, name: str) -> LakeTable:
        """Open a table. 1 GET; where there is no definition, 1 LIST to find a log of the reference's.

        Raises:
            TableNotFoundError: no such table; the message names similar ones.
        """
        check_name(name)
        return self._table(name, read_descriptor(self.bucket, self._prefix(name)))

    def tables(self) -> list[str]:
        """Names of all tables, sorted. 1 LIST + 1 GET a directory; a second LIST for those without definition.
        Where there are writers, also what reading all of them costs."""
        names = [n for n in self.bucket.list_dirs(key_below(self.prefix, "")) if _NAME.fullmatch(n)]
        blobs = self.bucket.get_many([descriptor_key(self._prefix(n)) for n in names])
        found: set[str] = set()
        may_have_writers = False
        for name, blob in zip(names, blobs, strict=True):
            if blob is not None:
                if not Descriptor.decode(blob.data, blob.info.key).dropped:
                    found.add(name)
            elif self._has_log(self._prefix(name)):
                found.add(name)
            else:
                may_have_writers = True
        if may_have_writers:
            found.update(self._writer_tables.names())
        return sorted(found)

    def drop_table(self, name: str, *, dry_run: bool = False) -> DropReport:
        """Delete a table.

        A table with a log of its own goes with all its objects, at once and for good: no grace, no way back.
        The definition goes first to a state in which nobody opens the table; a crash leaves it there, and
        dropping or creating it again ends the work. Registered files outside the table stay.

        Of a table of writers' catalogs, the connection's writer drops its own part by one commit; `prune`
        and `sweep` give the space back. Other writers' rows stay until they drop theirs.

        Args:
            dry_run: only say what would be deleted.

        Raises:
            TableNotFoundError: no such table.
            InvalidInputError: the table is of writers' catalogs, and the connection has no writer.

        Cost: 1 GET, 1 PUT, 1 LIST sequence and the DELETEs; with the log in another store 2 LIST sequences more. Of
        a table of writers' catalogs: what reading all writers costs, and one commit.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://")
            >>> _ = db.create_table("events").append([{"n": 1}])
            >>> planned = db.drop_table("events", dry_run=True)
            >>> db.tables(), db.drop_table("events").objects == planned.objects, db.tables()
            (['events'], True, [])
        """
        check_name(name)
        descriptor = read_descriptor(self.bucket, self._prefix(name))
        if descriptor is None:  # else it may be one whose drop was interrupted, which nobody opens
            descriptor = self._table(name, None).descriptor
        if descriptor.journal == "writer":
            return self._writer_tables.drop(name, dry_run=dry_run)
        if not dry_run and not descriptor.dropped:
            key = descriptor_key(self._prefix(name))
            self.bucket.put(key, replace(descriptor, dropped=True).encode())
        return self._erase(descriptor, name, dry_run=dry_run)

    def transaction(self) -> WriterTransaction:
        """Change several tables with `journal="writer"` at once: in one revision of this connection's writer, when
        the block ends without an error. After an error, or a crash at any moment, nothing of it is visible.

        Cost: the files' PUTs, and one commit: 1 PUT + 2 LISTs, or with conditional puts 2 PUTs + 1 GET; 1 PUT more
        where rows or files are deleted.

        Raises:
            InvalidInputError: the connection has no writer.
            ConflictError: another process of the same writer replaced what the transaction changes.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://", writer="host-17")
            >>> for name in ("cpu", "mem"):
            ...     _ = db.create_table(name, journal="writer")
            >>> with db.transaction() as tx:
            ...     _ = tx.append("cpu", [{"host": "a", "load": 0.5}])
            ...     _ = tx.append("mem", [{"host": "a", "free": 1024}])
            >>> tx.version, db.table("mem").scan().to_arrow().num_rows
            ('host-17=3', 1)
        """
        return self._writer_tables.transaction()

    def checkpoint(self) -> dict[str, int]:
        """Write replay caches: of every table with a log of its own, and of every writer.

        By the name of the table, the logs that its cache holds; by the name of the writer, the transactions that
        readers needn't replay any more. Writers that can't be read are left out: `writers` tells which.

        Cost: that of `LakeTable.checkpoint` for each table; for each writer what reading it costs, 1 LIST + 2 PUTs.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://", writer="host-17")
            >>> _ = db.create_table("cpu", journal="writer")
            >>> _ = db.create_table("events").append([{"n": 1}])
            >>> db.checkpoint()
            {'events': 1, 'host-17': 1}
        """
        covered = {}
        for name in self.tables():
            table = self.table(name)
            if table.descriptor.journal != "writer":
                covered[name] = table.checkpoint()
        return {**covered, **self._writer_tables.federation.checkpoint()}

    def sql(self, query: str) -> DataFrame:
        """Run one SELECT over the database's tables on Spark; a Spark DataFrame.

        The dialect is DuckDB's, translated for Spark. Each table is read at one snapshot, pruned by the
        conjuncts of the query's predicates that are safe to push.

        Raises:
            TableNotFoundError: a table that isn't there.
            InvalidInputError: a query that can't be parsed, or isn't a SELECT.
        """
        from firn.spark.sql import run_sql

        return run_sql(self.engines.session(), query, self)

    # -- parts

    def _prefix(self, name: str) -> str:
        return key_below(self.prefix, name)

    def _table(self, name: str, descriptor: Descriptor | None) -> LakeTable:
        """The table of a name, with the definition that was read for it."""
        if descriptor is None:
            if self._has_log(self._prefix(name)):
                return self._open(_shared(Descriptor(name)))
            if (found := self._writer_tables.find(name)) is not None:
                return found
        if descriptor is None or descriptor.dropped:
            close = difflib.get_close_matches(name, self.tables(), n=3)
            hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise TableNotFoundError(f"there is no table {name!r} in {self.url}.{hint}")
        return self._open(descriptor)

    def _has_log(self, prefix: str) -> bool:
        return LOG_DIR in self.bucket.list_dirs(f"{prefix}/")

    def _erase(self, descriptor: Descriptor, name: str, *, dry_run: bool = False) -> DropReport:
        """Delete a dropped table's objects, its definition last."""
        prefix = self._prefix(name)
        own = self.bucket.list(f"{prefix}/").objects
        logs, log_root = self._log_place(descriptor, prefix)
        apart = (logs.url, log_root) != (self.bucket.url, prefix)
        parts = (LOG_DIR, FIRN_DIR) if apart else ()
        elsewhere = [i for part in parts for i in logs.list(key_below(log_root, part, "")).objects]
        if not dry_run:
            logs.delete_many([i.key for i in elsewhere])
            key = descriptor_key(prefix)
            self.bucket.delete_many([i.key for i in own if i.key != key])
            self.bucket.delete(key)
        objects = (*(i.key for i in own), *(logs.uri(i.key) for i in elsewhere))
        return DropReport(objects, sum(i.size for i in (*own, *elsewhere)), dry_run=dry_run)

    def _log_place(self, descriptor: Descriptor, prefix: str) -> tuple[Bucket, str]:
        """Where a table's `_log` is: beside its data, or in a store of its own."""
        log_url = descriptor.setting("log_url")
        if log_url is None:
            return self.bucket, prefix
        root, log_prefix = split_url(log_url)
        return open_bucket(root, options=self.options), key_below(log_prefix, descriptor.name)

    def _open(self, descriptor: Descriptor) -> LakeTable:
        return _KINDS[descriptor.kind](self, descriptor)

    def _open_lake(self, descriptor: Descriptor) -> LakeTable:
        prefix = self._prefix(descriptor.name)
        log_bucket, log_root = self._log_place(descriptor, prefix)
        journal = LeaderlessJournal(
            self.bucket,
            prefix,
            log_bucket=log_bucket,
            log_root=log_root,
            declared=descriptor.columns,
            settings=Settings.from_properties(descriptor.properties),
            lock=self.lock,
        )
        return LakeTable(self.bucket, prefix, descriptor, journal, self.engines)


_KINDS = {"lake": Database._open_lake}
_JOURNALS = ("leaderless", "writer")


def _shared(descriptor: Descriptor) -> Descriptor:
    return replace(descriptor, properties={**descriptor.properties, "shared": "icedb"})


def check_name(name: str) -> None:
    """Refuse names that could leave the database's prefix or clash with Firn's own."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or set(name) <= {"."}:
        raise InvalidInputError(
            f"{name!r} can't name a table: use letters, digits, '_', '-' and '.', at most 100, not "
            "beginning with '_'."
        )


def parse_sort(sort_by: Sequence[str], columns: Mapping[str, str]) -> tuple[str, ...]:
    """Check a sort order: `col`, `col asc` or `col desc`."""
    if isinstance(sort_by, str):
        raise InvalidInputError(f"sort_by={sort_by!r}: pass a list, like ['date'].")
    for item in sort_by:
        column, _, direction = item.rpartition(" ")
        if direction.lower() not in ("asc", "desc"):
            column = item
        if columns and column not in columns:
            raise InvalidInputError(
                f"sort_by names {column!r}, which isn't in the schema: {', '.join(columns)}."
            )
    return tuple(sort_by)
