"""Telling a catalog that was lost from one that is about to begin: neither has a transaction."""

from __future__ import annotations

from firn.errors import CorruptObjectError, ObjectNotFoundError
from firn.journal.writer.format.footers import read_pairs
from firn.journal.writer.format.layout import padded
from firn.journal.writer.format.metadata import read_metadata
from firn.journal.writer.history.history import CatalogVersion, History


def check_begun(history: History, empty: CatalogVersion) -> CatalogVersion:
    """The version of a catalog that was `empty` when it was read: the same, where it is a new one.

    An object that names a revision above the first was written after a transaction. So if there is one, its writer
    has begun since, and another look shows its commits, or the transactions are gone. Files of a first commit that
    is under way name revision 1 and nothing before it.

    Cost: 1 GET, 2 LISTs, 1 LIST sequence of the data; 1 ranged GET of the newest data file; where one of these shows
    that there was a commit, another look at the transactions.

    Raises:
        CorruptObjectError: its transactions were deleted.
    """
    evidence = _of_a_later_revision(history)
    if evidence is None:
        return empty
    version = history.load()
    if version.head.revision == 0:
        raise CorruptObjectError(
            f"{history.where} has no transaction left, though {history.bucket.uri(evidence)} is of a later one: the "
            f"catalog was deleted. Bring it back with `firn rebuild --writer {history.layout.writer}`."
        )
    return version


def _of_a_later_revision(history: History) -> str | None:
    """The key of an object that was written after the catalog's first transaction."""
    bucket, layout = history.bucket, history.layout
    if history.reader.hint() is not None:
        return layout.hint_key
    for prefix in (layout.markers_prefix, layout.claims_prefix):
        later = bucket.list(prefix, after=f"{prefix}{padded(1)}~").objects  # "~" is above all that names have
        if later:
            return later[0].key
    data = bucket.list(layout.data_prefix).objects
    newest = max(data, key=lambda info: (info.modified_ms, info.key), default=None)
    if newest is None:
        return None
    try:
        record = read_metadata(read_pairs(bucket, newest.key, newest.size), where=bucket.uri(newest.key))
    except ObjectNotFoundError:  # swept meanwhile, which takes a commit that removes it
        return newest.key
    return newest.key if record is not None and record.previous is not None else None
