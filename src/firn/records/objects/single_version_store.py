"""The rows of a table with isolation="row", each one object, which one PUT replaces.

A write is on the condition that the row is still the version that it replaces. Each version has a nonce, and tells
those before it: after a lost answer the writer reads the row and finds its own, or that of the version that was
faster, which it then knows for sure (docs/format/records.md). A deleted row stays as a tombstone, or a delayed insert
could bring it back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import replace as replaced

from firn.bucket.base import Blob, Bucket, at_once
from firn.clock import Clock
from firn.errors import (
    DuplicateKeyError,
    NoSuchKeyError,
    ObjectChangedError,
    ObjectExistsError,
    OutcomeUnknownError,
    StaleObjectError,
    StoreError,
    StoreUnavailableError,
)
from firn.journal.backoff import Backoff, find_whole, whole
from firn.records.definition.latest import LatestDefinition
from firn.records.documents.documents import Record
from firn.records.names.layout import RecordLayout
from firn.records.names.names import shown_id
from firn.records.objects.listing import row_pages
from firn.records.objects.own_etags import check_etag
from firn.records.objects.single_version_row import NEVER, LoneRow, SingleVersion, decode_row, encode_row


@dataclass(frozen=True)
class RowStore:
    """One table's rows. Safe to share between threads."""

    bucket: Bucket
    layout: RecordLayout
    definition: LatestDefinition
    clock: Clock

    @property
    def in_flight(self) -> int:
        """How many requests are sent at once."""
        return at_once(self.bucket)

    def pages(self) -> Iterator[list[str]]:
        """The keys of all rows, a page of the LIST at a time."""
        for names in row_pages(self.bucket, self.layout):
            yield [self.layout.row_named(name) for name in names]

    def records(self, keys: Sequence[str]) -> Iterator[Record]:
        """The rows that there are of these keys. 1 GET each, many at once."""
        for row in self.rows(keys):
            found = self.record(row)
            if found is not None:
                yield found

    def rows(self, keys: Sequence[str]) -> Iterator[LoneRow]:
        """The same as their objects have them, with tombstones."""
        return (self.decoded(blob) for blob in self.bucket.get_many(keys) if blob is not None)

    def get(self, id: str) -> Record:
        """1 GET.

        Raises:
            NoSuchKeyError: there is none.
        """
        found = self.record(self._read(id))
        if found is None:
            raise self._missing(id)
        return found

    def insert(self, id: str, body: bytes) -> str:
        """See `RowTable.insert`."""
        prior: SingleVersion = NEVER
        backoff = Backoff(self.clock)
        while True:
            made, current = self._write(id, body, prior)
            if made is not None:
                return made.to_text()
            if current is not None and current.body is not None:
                raise DuplicateKeyError(f"{self._named(id)} is there already: update it, or use upsert.")
            prior = self._again(id, current, backoff)

    def replace(self, id: str, body: bytes | None, etag: str | None) -> str:
        """Write over the version of an ETag, over whatever row is there (None), or whatever is there ("")."""
        etag = check_etag(etag)
        if etag:
            prior = SingleVersion.from_text(etag)
            made, current = self._write(id, body, prior)
            if made is None:
                raise self._stale(id, prior, current)
            return made.to_text()
        backoff = Backoff(self.clock)
        current = self._read(id)
        while True:
            if etag is None and (current is None or current.body is None):
                raise self._missing(id)
            made, newer = self._write(id, body, NEVER if current is None else current.version)
            if made is not None:
                return made.to_text()
            self._again(id, newer, backoff)
            current = newer

    def _write(
        self, id: str, body: bytes | None, prior: SingleVersion
    ) -> tuple[SingleVersion | None, LoneRow | None]:
        """Make the version behind `prior`: what was written, or else the row as it is now.

        The bucket isn't let to retry by itself: the first refusal can be believed then, and costs no version its
        place among the nonces.

        Raises:
            OutcomeUnknownError: nobody can tell.
        """
        if prior.number and not prior.etag:
            return None, self._read(id)  # it was replaced before its writer knew that it was there
        made = prior.next()
        data = encode_row(LoneRow(id, made, body))
        backoff = Backoff(self.clock)
        unanswered: OutcomeUnknownError | None = None
        while True:
            try:
                with suppress(ObjectChangedError, ObjectExistsError):
                    return replaced(made, etag=self._put(id, data, prior)), None
            except OutcomeUnknownError as error:
                unanswered = error
            except StoreError as error:
                if isinstance(error, StoreUnavailableError) and backoff.wait():
                    continue
                raise error if unanswered is None else self._unknown(id) from error
            try:
                current = self._read(id)
            except StoreError as error:
                if isinstance(error, StoreUnavailableError) and backoff.wait():
                    continue
                # Without a lost answer the row is known to be another by now, though not which.
                raise error if unanswered is None else self._unknown(id) from error
            if prior == (NEVER if current is None else current.version):
                # It may yet land, or raced with another that failed: only a put of the same bytes tells.
                if not backoff.wait():
                    raise self._unknown(id) from unanswered
                continue
            if unanswered is None:
                return None, current
            landed = current is not None and current.version.became_of(made)
            if landed is None:
                raise self._unknown(id) from unanswered
            if current is None or not landed:
                return None, current
            same = current.version.number == made.number
            return replaced(made, etag=current.version.etag if same else ""), None

    def _put(self, id: str, data: bytes, prior: SingleVersion) -> str:
        key = self.layout.row(id)
        if prior.number:
            return self.bucket.put_if_match(key, data, prior.etag, retry_for=0)
        return self.bucket.put_if_absent(key, data, retry_for=0)

    def _read(self, id: str) -> LoneRow | None:
        """The row's object, None if it never was. 1 GET."""
        blob = find_whole(self.bucket, self.layout.row(id), self.clock)
        return None if blob is None else self.decoded(blob)

    def decoded(self, blob: Blob) -> LoneRow:
        """The row that an object holds. As `decode_row`."""
        blob = whole(self.bucket, blob, self.clock)
        info = blob.info
        return decode_row(blob.data, info.etag, key=info.key, where=self.bucket.uri(info.key))

    def record(self, row: LoneRow | None) -> Record | None:
        """The row as users see it; None for a tombstone."""
        if row is None or row.body is None:
            return None
        return Record(row.id, self.definition.decode(row.body, row.id), row.version.to_text())

    def _again(self, id: str, current: LoneRow | None, backoff: Backoff) -> SingleVersion:
        """The object to write over at the next attempt."""
        if not backoff.wait():
            raise StaleObjectError(
                f"{self._named(id)} is changed by others all the time: retry later.", self.record(current)
            )
        return NEVER if current is None else current.version

    def _stale(self, id: str, prior: SingleVersion, current: LoneRow | None) -> StaleObjectError:
        if current is None or current.body is None:
            return StaleObjectError(f"{self._named(id)} was deleted since it was read.", lasting=True)
        return StaleObjectError(
            f"{self._named(id)} was changed since: it is at version {current.version.number}, the ETag is of version "
            f"{prior.number}. Read it again and retry.",
            self.record(current),
            lasting=True,
        )

    def _missing(self, id: str) -> NoSuchKeyError:
        return NoSuchKeyError(f"{self._named(id)} doesn't exist.")

    def _unknown(self, id: str) -> OutcomeUnknownError:
        return OutcomeUnknownError(
            f"{self._named(id)} was written, no answer came, and nobody can tell whether it was: read the row."
        )

    def _named(self, id: str) -> str:
        return f"{self.layout.table}[{shown_id(id)}]"
