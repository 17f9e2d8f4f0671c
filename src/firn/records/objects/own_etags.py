"""ETags of writes that aren't committed: they stay good for the versions that these become."""

from __future__ import annotations

from firn.arrow.pyvalues import shown
from firn.errors import InvalidInputError, SnapshotTooOldError
from firn.journal.sequence import RowWrite, SequenceLog
from firn.records.objects.staged import checksum

_OWN = "tx:"


def own_etag(txid: str, body: bytes | None) -> str:
    """The ETag of a write that isn't committed."""
    return f"{_OWN}{txid}:{'' if body is None else checksum(body)}"


def became(log: SequenceLog, etag: str, table: str, id: str, seq: int) -> bool:
    """Whether an ETag is that of the write which became this version. No request where the commit is in memory; else
    as `SequenceLog.records`."""
    if not etag.startswith(_OWN):
        return False
    try:
        [record] = log.records(seq - 1, seq)
    except SnapshotTooOldError:  # so long ago that nobody can tell
        return False
    return any(
        write.table == table and write.id == id and etag == _own_of(member.txid, write)
        for member in record.group
        for write in member.writes
    )


def check_etag(etag: str | None) -> str | None:
    """The ETag itself, or `InvalidInputError` if none can be so."""
    if etag is not None and not isinstance(etag, str):
        raise InvalidInputError(
            f'{shown(etag)} can\'t be an ETag: give the text that a row has as its `etag`, "" or None.'
        )
    return etag


def check_new(etag: str | None) -> None:
    """Refuse the ETag of a version for a row that is to be new."""
    if check_etag(etag):
        raise InvalidInputError(
            f"insert of a row with etag={etag!r}: a new row has none. Leave it out, or update the row."
        )


def _own_of(txid: str, write: RowWrite) -> str:
    if write.ref is not None:
        return f"{_OWN}{txid}:{write.ref.rpartition('.')[2]}"
    return own_etag(txid, write.body)
