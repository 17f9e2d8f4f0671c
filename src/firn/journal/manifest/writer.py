"""The writer: flush (rules 4 and 5) and acknowledge (6 and 7). `opening` is how one becomes it."""

from __future__ import annotations

import threading
from dataclasses import replace

from firn.bucket.base import BytesLike
from firn.clock import seconds_awake_or_not
from firn.errors import (
    FencedError,
    InvalidInputError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
)
from firn.journal.manifest.model import L0File, Pointer, View
from firn.journal.manifest.opening import OpenedManifest
from firn.journal.manifest.store import ManifestStore

_FIRST_LOOK_S = 0.001
_LONGEST_LOOK_S = 0.016


class WriterSession:
    """The right to write a table, until another writer opens it. Safe to use from several threads.

    `epoch`: this writer's. `start`: its first L0 number. After a `FencedError` every method raises one. No
    lock is held during a request.

    Example:
        >>> from firn.bucket import open_bucket
        >>> from firn.journal.manifest import ManifestJournal
        >>> journal = ManifestJournal(open_bucket("memory://"), "prod/delays")
        >>> _ = journal.create({"flush_ms": 100}, first_epoch=1)
        >>> writer = journal.open_writer()
        >>> writer.put_l0(writer.next_number, b"a flush")
        >>> writer.confirm(0)
        >>> writer.epoch, journal.read().version
        (1, 'manifest.000000000000000000.000000000000000000@0')
        >>> journal.open_writer().epoch
        2
        >>> writer.put_l0(writer.next_number, b"too late")
        Traceback (most recent call last):
        firn.errors.FencedError: ...
    """

    def __init__(self, store: ManifestStore, opened: OpenedManifest, *, strict: bool) -> None:
        self._store = store
        self._strict = strict
        self._info = opened.info
        self._mutex = threading.Lock()
        self._view = opened.view
        self._seen_s = opened.seen_s
        self._seen_up_to = opened.info.starting_sst - 1
        self._next = opened.info.starting_sst
        self._up: dict[int, L0File] = {}
        self._all_up_to = opened.info.starting_sst - 1
        self._fenced: FencedError | None = None

    @property
    def epoch(self) -> int:
        return self._info.writer_epoch

    @property
    def start(self) -> int:
        return self._info.starting_sst

    @property
    def view(self) -> View:
        """The table as this writer knows it: the last manifest it has seen, and all its flushes that are up without a
        gap. No request."""
        with self._mutex:
            return self._view

    @property
    def next_number(self) -> int:
        """The lowest number above all that `put_l0` was called for; `start` at first."""
        with self._mutex:
            return self._next

    @property
    def fenced(self) -> bool:
        """Whether this writer knows that it may write no more. No request."""
        return self._fenced is not None

    def check(self) -> None:
        """Raise `FencedError` if this writer knows that it may write no more. No request."""
        if self._fenced is not None:
            raise FencedError(str(self._fenced))

    def put_l0(self, number: int, data: BytesLike) -> None:
        """Put flush `number` up (rules 4 and 5). Several may be in flight, in any order; a number is put again with
        the same bytes until it is up. 1 PUT; after a refusal or without an answer also 1 GET.

        Raises:
            FencedError: another writer has put a fence there. This flush will never be seen, and none after it.
            StoreError, OutcomeUnknownError: it may or may not be there; call again with the same number and bytes.
        """
        self.check()
        if not data or number < self.start:
            raise InvalidInputError(
                f"flush {number} of {len(data)} bytes: a flush has bytes, an empty object would be a fence, and this "
                f"writer's numbers begin at {self.start}"
            )
        with self._mutex:
            self._next = max(self._next, number + 1)
        key = self._store.layout.l0_key(self.epoch, number)
        self._put(key, data)
        with self._mutex:
            self._up[number] = L0File(self.epoch, number, key, len(data))
            while self._all_up_to + 1 in self._up:
                self._all_up_to += 1
                file = self._up.pop(self._all_up_to)
                if file.number > self._view.manifest.last_compacted:
                    self._view = replace(self._view, l0=(file, *self._view.l0))

    def _put(self, key: str, data: BytesLike) -> None:
        backoff = self._store.backoff()
        while True:
            try:
                self._store.bucket.put_if_absent(key, data)
                return
            except (ObjectExistsError, OutcomeUnknownError) as error:
                unanswered = error
            try:
                found = self._store.fetch(key).data
            except ObjectNotFoundError:
                if not backoff.wait():
                    raise OutcomeUnknownError(
                        f"{self._store.bucket.uri(key)}: no put of this flush is answered, and it isn't there; "
                        "put the same bytes again"
                    ) from unanswered
                continue
            if found != data:
                what = "a fence of another writer" if not found else "somebody else's object"
                raise self._lost(f"{self._store.bucket.uri(key)} is {what}")
            return

    def confirm(self, number: int) -> None:
        """Return as soon as flush `number` may be acknowledged (rules 6 and 7): all lower numbers of this
        writer are up, and the pointer named this writer last, seen by a look begun less than `poll_max_s` ago;
        in strict mode begun after the flush was up. 0 or 1 GET. Waits while a lower number isn't up yet.

        Raises:
            FencedError: another writer is last. Unacknowledged flushes have an unknown outcome.
        """
        self._wait_for_all_below(number)
        if self._is_fresh(number):
            return
        self._look()

    def _wait_for_all_below(self, number: int) -> None:
        pause = _FIRST_LOOK_S
        while True:
            self.check()
            with self._mutex:
                if number <= self._all_up_to:
                    return
            # By the clock and not by a lock, so that simulated threads of one process can wait, too.
            self._store.clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_LOOK_S)

    def _is_fresh(self, number: int) -> bool:
        with self._mutex:
            if self._strict:
                return number <= self._seen_up_to
            return seconds_awake_or_not(self._store.clock) - self._seen_s < self._store.poll_max_s

    def _look(self) -> Pointer:
        """Read the pointer, and know by it that this writer is last, or was fenced (rule 7)."""
        with self._mutex:
            begun, up_to = seconds_awake_or_not(self._store.clock), self._all_up_to
        pointer = self._store.find_pointer()
        if pointer is None:
            raise self._lost(f"{self._store.pointers.where} is gone: the table was dropped")
        if pointer.infos[-1:] != (self._info,):
            newer = pointer.infos[-1].writer_epoch if pointer.infos else "none"
            raise self._lost(f"{self._store.pointers.where} names another writer, of epoch {newer}")
        with self._mutex:
            self._seen_s = max(self._seen_s, begun)
            self._seen_up_to = max(self._seen_up_to, up_to)
        return pointer

    def poll(self) -> View | None:
        """Look at the pointer: the view if there is a newer manifest than in the last one, else None. 1 GET, and 1 a
        manifest of the chain that is new.

        Raises:
            FencedError: another writer is last.
        """
        self.check()
        pointer = self._look()
        known = self.view.manifest
        if pointer.manifest == known.name:
            with self._mutex:
                if pointer.revision > self._view.pointer.revision:
                    self._view = replace(self._view, pointer=pointer)
            return None
        pointer, manifest = self._store.current(known, pointer)
        with self._mutex:
            if pointer.revision <= self._view.pointer.revision:
                return None
            l0 = tuple(file for file in self._view.l0 if file.number > manifest.last_compacted)
            self._view = View(pointer, manifest, l0)
            return self._view

    def _lost(self, why: str) -> FencedError:
        error = FencedError(
            f"{why}. This writer, of epoch {self.epoch}, may not write any more; flushes that it hasn't acknowledged "
            "may or may not count. Open the table again to go on."
        )
        self._fenced = self._fenced or error
        return error
