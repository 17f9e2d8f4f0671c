"""Check a record table: that every row can be read and has what the log says, and that indices say the same as rows.

The rows of commits that aren't applied yet aren't missed. A wrong or left over index entry misleads nobody, since
readers look at the row; a missing one hides a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from firn.errors import FirnError, InvalidInputError, ObjectNotFoundError, SnapshotTooOldError
from firn.inspect.fsck.findings import Findings, TableCheck
from firn.journal.backoff import whole
from firn.journal.sequence.history import history
from firn.records.apply.damage import lost_row
from firn.records.load.copy_cursor import decode_cursor
from firn.records.names.layout import IndexEntry
from firn.records.names.names import id_part
from firn.records.objects.row import Row, decode_row
from firn.records.objects.single_version_row import decode_row as decode_lone_row
from firn.records.objects.store import RecordStore, Table
from firn.records.row_tables import RowTable
from firn.records.table import RecordTable

_BATCH = 1000


def check_records(
    table: RecordTable | RowTable, *, footers: bool = True, blocks: bool = False, checks: bool = False
) -> Findings:
    """1 LIST sequence of entries, of rows, of cursors of copies, of packs and of the log, 1 GET a row, a cursor, a
    pack and a commit, and what opening the log costs."""
    found = Findings()
    found.count("tables", 1)
    if isinstance(table, RowTable):
        _check_lone_rows(table, found)
        return found
    where = table.bucket.uri(table.prefix)
    try:
        store = table.session.store
        log = store.log
        head = log.refresh()
        opened = store.table(table.name, head.catalog)
        horizon = log.learn(log.store.horizon())
        written = _written(store, opened, head.number, horizon.lo)
        if log.store.last(head.number) > log.refresh().number:
            raise log.store.incomplete()
    except FirnError as error:
        found.error(where, error)
        return found
    found.count("commits", head.number - horizon.lo)
    if horizon.applied > head.number or horizon.horizon > head.number:
        found.error(
            store.bucket.uri(log.store.layout.horizon_key),
            f"is at {horizon}, but the last commit is {head.number}. Copy the commits back from a backup",
        )
    _check_copies(store, opened, head.number, found)
    # Rows are read before the entries are listed: a version's entries are there before it is.
    rows = _Rows(written, log.applied)
    try:
        wanted = dict(_expected(store, opened, found, rows, horizon.horizon, head.number))
    except FirnError as error:
        found.error(where, error)
        return found
    ready = {
        opened.layout.index(field, index.generation): field
        for field, index in opened.state.fields.items()
        if index.stage == "ready"
    }
    there = {info.key for directory in ready for info in store.bucket.list(directory).objects}
    found.count("index entries", len(there))
    for key in sorted(key for key, id in wanted.items() if id is not None and key not in there):
        found.error(
            store.bucket.uri(key),
            f"is missing, so row {wanted[key]!r} isn't found by it. Drop the index and build it again",
        )
    left = []
    for key in there - wanted.keys():
        entry = opened.layout.entry_anywhere(key)
        if entry is not None:
            rows.entered(entry)
        if entry is None or entry.seq <= horizon.horizon:
            left.append(key)
    for name, lack in sorted(rows.lost().items()):
        key = store.bucket.uri(opened.layout.row_named(name))
        found.error(key, lost_row(key, *lack))
    if left:
        found.note(
            where, f"{len(left):,} index entries belong to no version of a row", "A sweep removes them"
        )
    return found


def _check_copies(store: RecordStore, table: Table, head: int, found: Findings) -> None:
    """How far the table is copied, and that it isn't farther than it has commits."""
    keys = [info.key for info in store.bucket.list(table.layout.copies).objects]
    for blob in store.bucket.get_many(keys):
        if blob is None:
            continue
        where = store.bucket.uri(blob.info.key)
        try:
            upto = decode_cursor(blob.data, where=where).upto
        except FirnError as error:
            found.error(where, error)
            continue
        if upto > head:
            found.error(
                where,
                f"says that commits up to {upto} are copied, but the last one is {head}. Copy the commits back "
                "from a backup; or delete it and the target table, and copy all anew",
            )


class _Rows:
    """Rows by the log and the entries, by the parts of names that stand for ids, and what rows have."""

    def __init__(self, written: Mapping[str, list[int]], applied: int) -> None:
        self._written = {
            id_part(id): [number for number in numbers if number <= applied]
            for id, numbers in written.items()
        }
        self._applied = applied
        self._newest: dict[str, int] = {}
        self._lost: dict[str, tuple[int, int]] = {}

    def read(self, name: str, row: Row | None) -> None:
        """A row that is there; None where it can't be read."""
        lack = row.lacks(self._written.get(name, ())) if row is not None else ()
        self._newest[name] = self._applied if row is None else row.newest
        if lack:
            self._lost[name] = (self._newest[name], lack[-1])

    def entered(self, entry: IndexEntry) -> None:
        """An entry that no version has."""
        newest = self._newest.get(entry.id_name, 0)
        if newest < entry.seq <= self._applied:
            _, known = self._lost.get(entry.id_name, (0, 0))
            self._lost[entry.id_name] = (newest, max(known, entry.seq))

    def lost(self) -> Mapping[str, tuple[int, int]]:
        """The newest version that each lost row has, 0 for none, and a later commit that wrote it."""
        gone = {name: (0, of[-1]) for name, of in self._written.items() if of and name not in self._newest}
        return {**gone, **self._lost}


def _written(store: RecordStore, table: Table, upto: int, lo: int) -> dict[str, list[int]]:
    """The commits that wrote each row of a table, by its id, as far as the log and its packs have them: each is
    there, and can be read."""
    layout = store.log.store.layout
    packs = (layout.parse_pack(info.key) for info in store.bucket.list(layout.packs_prefix).objects)
    for first in sorted(number for number in packs if number is not None and number <= lo):
        try:
            return _written_behind(store, table, first - 1, upto)
        except SnapshotTooOldError:
            continue  # a pack between this one and the next was swept
    return _written_behind(store, table, lo, upto)


def _written_behind(store: RecordStore, table: Table, after: int, upto: int) -> dict[str, list[int]]:
    written: dict[str, list[int]] = {}
    for record in history(store.log, after, upto):
        for write in record.writes:
            if write.table == table.name and record.number > table.state.since:
                written.setdefault(write.id, []).append(record.number)
    return written


def _expected(
    store: RecordStore, table: Table, found: Findings, known: _Rows, horizon: int, upto: int
) -> Iterator[tuple[str, str | None]]:
    """The keys of all entries that there have to be, with the ids of their rows; None for those that may be gone, as
    no snapshot sees their versions. Versions of commits that came meanwhile aren't looked at: the table may have been
    altered, too."""
    fields = {name: index for name, index in table.state.fields.items() if index.stage == "ready"}
    for row in _rows(store, table, found, known):
        seen = len(row.pruned(horizon)[0].versions)
        for at, version in enumerate(row.versions):
            if version.deleted or not table.state.since < version.seq <= upto:
                continue
            document = table.documents.decode(store.body(version))
            for name, index in fields.items():
                try:
                    values = table.documents.index_values(row.id, document, name, each=index.each)
                except InvalidInputError:
                    if version.seq > index.built:
                        raise
                    continue  # nobody sees it who may use the index
                for value in values:
                    yield (
                        table.layout.entry(name, value, row.id, version.seq, index.generation),
                        row.id if at < seen else None,
                    )


def _rows(store: RecordStore, table: Table, found: Findings, known: _Rows) -> Iterator[Row]:
    listed = [info.key for info in store.bucket.list(table.layout.rows).objects]
    keys = [key for key in listed if table.layout.row_name(key) is not None]
    if strange := len(listed) - len(keys):
        found.note(store.bucket.uri(table.layout.rows), f"{strange:,} objects are no rows")
    found.count("rows", len(keys))
    for start in range(0, len(keys), _BATCH):
        for blob in store.bucket.get_many(keys[start : start + _BATCH]):
            if blob is None:
                continue
            where = store.bucket.uri(blob.info.key)
            name = table.layout.row_name(blob.info.key) or ""
            try:
                row = decode_row(whole(store.bucket, blob, store.clock).data, key=blob.info.key, where=where)
            except ObjectNotFoundError:
                continue
            except FirnError as error:
                known.read(name, None)
                found.error(where, error)
                continue
            known.read(name, row)
            yield row


def _check_lone_rows(table: RowTable, found: Findings) -> None:
    bucket, layout = table.bucket, table.definition.layout(table.prefix)
    keys = [info.key for info in bucket.list(layout.rows).objects if layout.row_name(info.key) is not None]
    found.count("rows", len(keys))
    for start in range(0, len(keys), _BATCH):
        for blob in bucket.get_many(keys[start : start + _BATCH]):
            if blob is not None:
                where = bucket.uri(blob.info.key)
                try:
                    decode_lone_row(blob.data, blob.info.etag, key=blob.info.key, where=where)
                except FirnError as error:
                    found.error(where, error)


PART: TableCheck = check_records
