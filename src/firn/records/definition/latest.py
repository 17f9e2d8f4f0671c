"""The definition of a table with isolation="row" as it was altered last: its object, read again now and then."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, Final

import orjson

from firn.bucket.base import Bucket
from firn.clock import Clock
from firn.errors import CorruptObjectError
from firn.journal.definition import dropped
from firn.records.definition.definition import RecordDefinition, read_definition

REFRESH_S: Final = 10.0
"""How long a process goes by a definition that it has read."""


class LatestDefinition:
    """A table's definition, at most `REFRESH_S` old. Safe to share between threads; making one costs no request."""

    def __init__(self, bucket: Bucket, prefix: str, definition: RecordDefinition, clock: Clock) -> None:
        self._bucket, self._prefix, self._clock = bucket, prefix, clock
        self._mutex = threading.Lock()
        self._definition = definition
        self._read_s = clock.monotonic()

    @property
    def known(self) -> RecordDefinition:
        """As it was read last. No request."""
        with self._mutex:
            return self._definition

    def now(self) -> RecordDefinition:
        """1 GET if it wasn't read within `REFRESH_S`, else none.

        Raises:
            TableNotFoundError: the table was dropped.
        """
        with self._mutex:
            before_s, now_s = self._read_s, self._clock.monotonic()
            if now_s - before_s < REFRESH_S:
                return self._definition
            self._read_s = now_s  # other threads go on meanwhile
        try:
            return self.read()
        except BaseException:
            with self._mutex:
                self._read_s = before_s
            raise

    def read(self) -> RecordDefinition:
        """1 GET. Raises as `now`."""
        began_s = self._clock.monotonic()
        found = read_definition(self._bucket, self._prefix, clock=self._clock)
        if found is not None:
            self.learn(found, began_s)
        return self.known

    def learn(self, found: RecordDefinition, read_s: float | None = None) -> None:
        """Take in the object as it is, or was at `read_s`."""
        with self._mutex:
            known = self._definition
            if found.dropped or found.generation != known.generation:
                raise dropped(self._bucket, self._prefix)
            if found.rev > known.rev:
                self._definition = found
            self._read_s = max(self._read_s, self._clock.monotonic() if read_s is None else read_s)

    def decode(self, body: bytes, id: str) -> dict[str, Any]:
        """A document that was read. As `now`; 1 GET if it has what the definition doesn't know: somebody may have
        altered that, and who wrote the document back without a field would lose it."""
        definition = self.now()
        with suppress(CorruptObjectError):
            document = definition.documents.decode(body, id)
            columns = definition.columns
            if columns is None or orjson.loads(body).keys() <= {*columns, *definition.gone}:
                return document
        return self.read().documents.decode(body, id)
