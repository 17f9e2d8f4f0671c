"""All object names of one writer's catalog, built and parsed in this one place.

    <root>/data/<partition>/<table>/<chunk>.parquet         data files; <chunk> is a uuid of their own
    <root>/transactions/<revision>.<uuid>.transaction       what a revision changes
    <root>/transactions/<revision>.<uuid>.checkpoint        the whole state at a revision
    <root>/claims/<revision>                                who may write a revision
    <root>/markers/<revision>.<uuid>.parquet                what data files can't tell of a transaction
    <root>/rows/<table>/<revision>.<uuid>                   no object: the path of rows that stand in the catalog
    <root>/_firn/newest-checkpoint                          where readers may begin to list
    <root>/_firn/clock                                      written to learn the store's time
    <root>/_firn/staged/<table>/<revision>.<uuid>.parquet   rows that a statement needs until it ends

`<root>` is `<url prefix>/<writer>/<database>`, `<revision>` has 20 digits, `<uuid>` the first 8 of 32
hexadecimal digits. A chunk begins with those 8 too, of the transaction that its file was begun for, and with the
CRC-32s of its footer and of its Bloom filters: the key alone tells them. Partition directories come
percent-encoded from `firn.lake.partition.path`, which keeps NFC and NFD apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from firn.bucket.keys import key_below
from firn.errors import InvalidInputError
from firn.journal.model import ColumnTypes
from firn.journal.writer.format.identity import Ticket, is_uuid, new_uuid, prefix_of
from firn.journal.writer.format.metadata import FileRecord, encode_record

DATA_DIR = "data"  # frozen, as all of these
TRANSACTIONS_DIR = "transactions"
CLAIMS_DIR = "claims"
MARKERS_DIR = "markers"
ROWS_DIR = "rows"
FIRN_DIR = "_firn"
CATALOG_DIRS = (TRANSACTIONS_DIR, MARKERS_DIR, DATA_DIR)
"""Where objects of a catalog have names that nobody else gives."""
DIGITS = 20

LARGEST_REVISION = 2**63 - 1

ObjectKind = Literal["transaction", "checkpoint"]

_NAME = re.compile(r"(\d{20})\.([0-9a-f]{8})\.(transaction|checkpoint)")
_CLAIM = re.compile(r"\d{20}", re.ASCII)
_STAGED = re.compile(r"(.+)/(\d{20})\.([0-9a-f]{32})\.parquet")
_MARKER = re.compile(r"(\d{20})\.([0-9a-f]{8})\.parquet")
_ROWS = re.compile(r"([^/]+)/\d{20}\.[0-9a-f]{8}")
_PLACE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")
_ENCODED_PART = re.compile(r"(?:[A-Za-z0-9_.~=-]|%[0-9A-F]{2})+")


def database_key(prefix: str) -> str:
    """Where a database of writers' catalogs keeps its name, beside the writers' directories."""
    return key_below(prefix, FIRN_DIR, "database.json")


class ObjectName(NamedTuple):
    """A parsed name below `transactions/`; `prefix` is the beginning of the transaction's uuid."""

    revision: int
    prefix: str
    kind: ObjectKind

    def __str__(self) -> str:
        return f"{padded(self.revision)}.{self.prefix}.{self.kind}"


class BadName(NamedTuple):
    """A name below `transactions/` that no Firn writes, and why."""

    name: str
    reason: str


class MarkerName(NamedTuple):
    """A parsed name below `markers/`."""

    revision: int
    prefix: str

    def __str__(self) -> str:
        return f"{padded(self.revision)}.{self.prefix}.parquet"


class StagedName(NamedTuple):
    """A parsed key below `_firn/staged/`: the table, and the revision that its statement was begun for."""

    table: str
    revision: int


class DataName(NamedTuple):
    """A parsed data file key: the partition's directory ('' for none), the table, the chunk's uuid."""

    partition: str
    table: str
    chunk: str

    @property
    def prefix(self) -> str:
        """The first digits of the uuid of the transaction that the file was begun for."""
        return prefix_of(self.chunk)

    @property
    def crc(self) -> int:
        """The CRC-32 of the file's footer, which Parquet leaves without a checksum."""
        return int(self.chunk[8:16], 16)

    @property
    def filters_crc(self) -> int:
        """The CRC-32 of the file's Bloom filters, from the first one's beginning to the last one's end."""
        return int(self.chunk[16:24], 16)


def padded(revision: int) -> str:
    return f"{revision:0{DIGITS}d}"


def parse_name(name: str) -> ObjectName | BadName:
    """The parts of a name below `transactions/`, or what is wrong with it.

    >>> parse_name("00000000000000000001.0badcafe.transaction")
    ObjectName(revision=1, prefix='0badcafe', kind='transaction')
    >>> parse_name("00000000000000000001.0badcafe.txt").reason
    'its suffix is neither transaction nor checkpoint'
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return BadName(name, _reason(name))
    revision = int(match[1])
    if not 1 <= revision <= LARGEST_REVISION:
        return BadName(name, "its revision is out of range")
    kind: ObjectKind = "transaction" if match[3] == "transaction" else "checkpoint"
    return ObjectName(revision, match[2], kind)


def _reason(name: str) -> str:
    if "/" in name:
        return "it lies in a directory of its own"
    parts = name.split(".")
    if len(parts) != 3:
        return "it isn't <revision>.<uuid>.<suffix>"
    if re.fullmatch(r"[0-9]{20}", parts[0]) is None:
        return "its revision isn't 20 digits"
    if re.fullmatch(r"[0-9a-f]{8}", parts[1]) is None:
        return "its uuid isn't 8 hexadecimal digits"
    return "its suffix is neither transaction nor checkpoint"


def is_place(name: object) -> bool:
    """Whether a name can be a writer's, a database's or a table's."""
    return isinstance(name, str) and _PLACE.fullmatch(name) is not None and not name.startswith("_")


def check_place(name: str, what: str) -> str:
    """A writer's, database's or table's name that may stand in a key, or `InvalidInputError`."""
    if not is_place(name):
        raise InvalidInputError(
            f"the {what} name {name!r} can't be used: letters, digits, '_', '-' and '.', at most 100, not "
            "beginning with '_' or '.'."
        )
    return name


@dataclass(frozen=True)
class WriterLayout:
    """Keys of one writer's catalog of one database. `prefix` is the URL's key prefix, '' for none."""

    prefix: str
    writer: str
    database: str

    def __post_init__(self) -> None:
        check_place(self.writer, "writer")
        check_place(self.database, "database")

    @property
    def root(self) -> str:
        return key_below(self.prefix, self.writer, self.database)

    @property
    def transactions_prefix(self) -> str:
        return f"{self.root}/{TRANSACTIONS_DIR}/"

    @property
    def claims_prefix(self) -> str:
        return f"{self.root}/{CLAIMS_DIR}/"

    @property
    def data_prefix(self) -> str:
        return f"{self.root}/{DATA_DIR}/"

    @property
    def markers_prefix(self) -> str:
        return f"{self.root}/{MARKERS_DIR}/"

    @property
    def hint_key(self) -> str:
        return f"{self.root}/{FIRN_DIR}/newest-checkpoint"

    @property
    def clock_key(self) -> str:
        return f"{self.root}/{FIRN_DIR}/clock"

    @property
    def staged_prefix(self) -> str:
        """Outside of `data/`, where rebuild would take what it finds for rows of a lost transaction."""
        return f"{self.root}/{FIRN_DIR}/staged/"

    @property
    def rows_prefix(self) -> str:
        """The beginning of the paths of rows that stand in the catalog."""
        return f"{self.root}/{ROWS_DIR}/"

    def rows_path(self, table: str, revision: int) -> str:
        """A path for rows that stand in the catalog, begun for a revision. It is no object's."""
        return f"{self.rows_prefix}{table}/{padded(revision)}.{prefix_of(new_uuid())}"

    def table_of(self, path: str) -> str | None:
        """The table of a data file, or of rows that stand in the catalog, by the path; None for others'."""
        if path.startswith(self.rows_prefix):
            match = _ROWS.fullmatch(path[len(self.rows_prefix) :])
            return None if match is None else match[1]
        found = self.parse_data(path)
        return None if found is None else found.table

    def is_rows(self, path: str) -> bool:
        """Whether a path is that of rows that stand in this catalog."""
        return path.startswith(self.rows_prefix)

    def is_elsewhere(self, path: str) -> bool:
        """Whether a live file's path is that of an object outside of the catalog, which Firn never deletes."""
        return not self.owns(path) and not self.is_rows(path)

    def parse_staged(self, key: str) -> StagedName | None:
        """The parts of a key that a LIST of `staged_prefix` gave; None for what no Firn writes."""
        match = _STAGED.fullmatch(key[len(self.staged_prefix) :])
        return None if match is None else StagedName(match[1], int(match[2]))

    def transaction_key(self, revision: int, uuid: str) -> str:
        return self.object_key(ObjectName(revision, prefix_of(uuid), "transaction"))

    def checkpoint_key(self, revision: int, uuid: str) -> str:
        return self.object_key(ObjectName(revision, prefix_of(uuid), "checkpoint"))

    def object_key(self, name: ObjectName) -> str:
        return f"{self.transactions_prefix}{name}"

    def claim_key(self, revision: int) -> str:
        return self.claims_prefix + padded(revision)

    def parse_claim(self, key: str) -> int | None:
        """The revision of a key that a LIST of `claims/` gave; None for what isn't a claim."""
        name = key[len(self.claims_prefix) :]
        return int(name) if _CLAIM.fullmatch(name) else None

    def marker_key(self, revision: int, uuid: str) -> str:
        return f"{self.markers_prefix}{MarkerName(revision, prefix_of(uuid))}"

    def parse_marker(self, key: str) -> MarkerName | BadName:
        """The parts of a key that a LIST of `markers/` gave."""
        name = key[len(self.markers_prefix) :]
        match = _MARKER.fullmatch(name)
        if match is None:
            return BadName(name, "it isn't <revision>.<uuid>.parquet")
        if not 1 <= int(match[1]) <= LARGEST_REVISION:
            return BadName(name, "its revision is out of range")
        return MarkerName(int(match[1]), match[2])

    def before(self, revision: int) -> str:
        """A place in key order right before everything of `revision`, to begin a LIST at."""
        return self.transactions_prefix + padded(revision)

    def parse(self, key: str) -> ObjectName | BadName:
        """The parts of a key that a LIST of `transactions/` gave."""
        return parse_name(key[len(self.transactions_prefix) :])

    def namer(self, table: str, ticket: Ticket) -> ChunkNamer:
        """Names the files that a transaction to come adds to a table."""
        return ChunkNamer(self, check_place(table, "table"), ticket)

    def is_stamped(self, key: str, uuid: str) -> bool:
        """Whether a data file was begun for the transaction `uuid`, as far as its key tells."""
        found = self.parse_data(key)
        return found is not None and found.prefix == prefix_of(uuid)

    def is_ours(self, key: str) -> bool:
        """Whether a key is that of a transaction, checkpoint, marker or data file."""
        if key.startswith(self.transactions_prefix):
            return isinstance(self.parse(key), ObjectName)
        if key.startswith(self.markers_prefix):
            return isinstance(self.parse_marker(key), MarkerName)
        return self.parse_data(key) is not None

    def parse_data(self, key: str) -> DataName | None:
        """The parts of a data file's key; None for what isn't one of this catalog.

        >>> WriterLayout("", "w", "db").parse_data("w/db/data/d=1/t/c0ffee00c0ffee00c0ffee00c0ffee00.parquet")
        DataName(partition='d=1', table='t', chunk='c0ffee00c0ffee00c0ffee00c0ffee00')
        """
        if not self.owns(key):
            return None
        directory, _, name = key[len(self.data_prefix) :].rpartition("/")
        partition, _, table = directory.rpartition("/")
        chunk = name.removesuffix(".parquet")
        if not table or chunk == name or not is_uuid(chunk):
            return None
        return DataName(partition, table, chunk)

    def owns(self, key: str) -> bool:
        """Whether Firn may delete this data file: only what lies under the catalog's own prefix."""
        return key.startswith(self.data_prefix)


@dataclass(frozen=True)
class WriterPlaces:
    """Where the writers of a database keep the files of a table; see `firn.journal.model.Places`."""

    prefix: str
    database: str
    table: str

    def directory_of(self, path: str) -> str | None:
        """The partition directory in a data file's key, whichever writer's it is.

        >>> WriterPlaces("prod", "db", "t").directory_of("prod/host-17/db/data/d=1/t/0.parquet")
        'd=1'
        """
        below = path[len(self.prefix) + 1 :] if self.prefix else path
        if self.prefix and not path.startswith(f"{self.prefix}/"):
            return None
        _, _, rest = below.partition("/")
        head = f"{self.database}/{DATA_DIR}/"
        directory, slash, _ = rest.rpartition("/")
        partition, _, table = directory[len(head) :].rpartition("/")
        if not slash or not rest.startswith(head) or table != self.table:
            return None
        return partition


@dataclass(frozen=True)
class ChunkNamer:
    """Makes data file keys of a table, and the files' records of themselves; picklable, see
    `firn.journal.model.Namer`."""

    layout: WriterLayout
    table: str
    ticket: Ticket

    def directory_of(self, path: str) -> str | None:
        return WriterPlaces(self.layout.prefix, self.layout.database, self.table).directory_of(path)

    def __call__(self, partition: str, *, crc: int = 0, filters_crc: int = 0) -> str:
        """Raises `InvalidInputError` for a directory that isn't percent-encoded."""
        for part in partition.split("/") if partition else ():
            if _ENCODED_PART.fullmatch(part) is None or part in (".", ".."):
                raise InvalidInputError(
                    f"the partition directory {partition!r} isn't percent-encoded; make it with "
                    "firn.lake.partition.path.dir_of."
                )
        directory = f"{partition}/" if partition else ""
        chunk = f"{prefix_of(self.ticket.uuid)}{crc:08x}{filters_crc:08x}{prefix_of(new_uuid())}"
        return f"{self.layout.data_prefix}{directory}{self.table}/{chunk}.parquet"

    def metadata(
        self,
        partition: str,
        columns: ColumnTypes,
        *,
        extra: Mapping[str, Any],
        replaces: Sequence[str] = (),
        applied: Sequence[str] = (),
    ) -> dict[str, str]:
        """A file's description of itself, for its Parquet key-value metadata; see
        `firn.journal.writer.format.metadata`.

        The rows' first and last logical clock stand in `extra`, under `clocks`, where they aren't those of the
        transaction that adds the file.
        """
        clocks = extra.get("clocks")
        record = FileRecord(
            writer=self.layout.writer,
            database=self.layout.database,
            table=self.table,
            partition=partition,
            revision=self.ticket.revision,
            uuid=self.ticket.uuid,
            previous=self.ticket.previous,
            columns=tuple(columns.items()),
            replaces=tuple(replaces),
            applied=tuple(applied),
            clocks=None if clocks is None else (str(clocks[0]), str(clocks[1])),
            extra=extra,
        )
        return encode_record(record)


@dataclass(frozen=True)
class StagedNamer:
    """Makes the keys of rows that a statement on a table needs until it ends; picklable, see
    `firn.journal.model.Namer`. Nothing ever looks for such files again but sweep."""

    layout: WriterLayout
    table: str
    ticket: Ticket

    def directory_of(self, path: str) -> str | None:
        return None

    def __call__(self, partition: str, *, crc: int = 0, filters_crc: int = 0) -> str:
        return f"{self.layout.staged_prefix}{self.table}/{padded(self.ticket.revision)}.{new_uuid()}.parquet"

    def metadata(self, partition: str, columns: ColumnTypes, **options: Any) -> dict[str, str]:
        return {}
