"""Append: data files first, then one log under a name that nobody else makes (rules 1, 3 and 4).

    F data PUTs + 1 log PUT

An append with a batch id also makes a claim, which names its log before the log is written, so that two
retries of one batch that race make one commit: + 1 PUT, and both PUTs are conditional.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from firn.bucket.conditional import create, swap
from firn.bucket.presence import find
from firn.errors import (
    AppendExpiredError,
    CorruptObjectError,
    InvalidInputError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreError,
)
from firn.journal.inlined import INLINE
from firn.journal.leaderless.format.codec import Log, decode, encode
from firn.journal.leaderless.format.layout import (
    name_of,
    new_log_name,
    parse_log_name,
    schema_mark,
    version_of,
)
from firn.journal.leaderless.replay.loader import Scope
from firn.journal.leaderless.replay.table_log import TableLog
from firn.journal.model import Commit, Counted, with_clocks
from firn.journal.sealed import seal, unseal

_CLAIM = frozenset(("firn", "batch", "log", "id"))

_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.5, 15.0
"""Between two looks for a log that was sent without an answer."""


@dataclass(frozen=True)
class _SentLog:
    """A log that was sent without an answer. It may be sent again `until` then, by the monotonic clock, and lands no
    later than `landed`."""

    commit: Commit
    log: Log
    body: bytes
    until: float
    landed: float


class OpenAppend:
    """One append under way. Made before its first data PUT: its age is the age of its files. `what` it is, for
    errors."""

    def __init__(self, table: TableLog, what: str = "append to") -> None:
        self.table, self._what = table, what
        self.started = table.clock.monotonic()
        self.started_ms = table.clock.now_ms()
        self.namer = table.layout.namer(maintenance=False)
        self.duplicate = False
        self._sent: _SentLog | None = None

    lasting = True

    def commit(self, commit: Commit) -> str:
        """Publish the files; the version.

        Raises:
            AppendExpiredError: so slow that sweep might have deleted its first files. Nothing is visible.
            OutcomeUnknownError: the log was sent and no answer came within the retry window.
        """
        self._check_files(commit)
        self.table.skew.check(commit, self.started_ms)
        if commit.batch_id is not None and self.table.log_bucket.capabilities.conditional_put:
            version = _BatchCommit(self, commit).run()
        else:
            if commit.batch_id is not None and (seen := self.table.carried_batch(commit.batch_id)):
                self.duplicate = True
                return seen
            version = self._publish(commit)
        return self._done(commit, version)

    def _done(self, commit: Commit, version: str) -> str:
        # A batch may turn out to be another process's commit.
        self.table.known_columns.note(commit, version if commit.batch_id is None else None)
        self.table.loader.saw(self.started_ms)
        return version

    def _publish(self, commit: Commit) -> str:
        bucket, layout, settings = self.table.log_bucket, self.table.layout, self.table.settings
        log = self.table.with_definition(append_log(commit, self.table.stamp_ms(commit)))
        stamped = self.table.clock.monotonic()
        self.check_age()
        key, body, window = layout.log_key(log.name), encode(log), settings.retry_window_ms / 1000
        try:
            bucket.put(key, body, retry_for=window)
        except OutcomeUnknownError as error:
            until = stamped + window
            self._sent = _SentLog(commit, log, body, until, until + settings.landing_delay_ms / 1000)
            settle_append(self.table, key, log.nonce, error)
        return version_of(log.name)

    def settle(self, wait: Callable[[float], object]) -> str | None:
        """See `AppendTicket.settle`. The log is sent again, the same bytes under the same name, until R (rule 4), and
        looked for until R + Z: if it isn't there by then, and no log replaces it, it never will be.

        Cost: a PUT or a GET at least every 15 s; at the end 1 GET, 1 LIST and the logs that aren't cached.
        """
        if (sent := self._sent) is None:  # with a claim another append can't double it
            return None
        bucket, key = self.table.log_bucket, self.table.layout.log_key(sent.log.name)
        pause = _FIRST_LOOK_S
        while (now := self.table.clock.monotonic()) < sent.landed:
            if self._is_there(key, sent, resend=now < sent.until):
                break
            wait(min(pause, sent.landed - now))
            pause = min(2 * pause, _LONGEST_LOOK_S)
        else:
            found = find(bucket, key)
            if found is None and not _is_replaced(self.table, sent.log.name):
                return None
        return self._done(sent.commit, version_of(sent.log.name))

    def _is_there(self, key: str, sent: _SentLog, *, resend: bool) -> bool:
        """Whether a log that was sent is seen by now, once it was sent again if that may be."""
        bucket = self.table.log_bucket
        try:
            if resend:
                self.check_age()
                bucket.put(key, sent.body, retry_for=sent.until - self.table.clock.monotonic())
                return True
        except (StoreError, OutcomeUnknownError, AppendExpiredError):
            pass
        try:
            return find(bucket, key) is not None
        except StoreError:
            return False

    def backdate(self, seconds: float) -> None:
        """Say that the first data PUT was so long ago: by tasks, before this process began the append."""
        self.started -= max(0.0, seconds)
        self.started_ms -= int(max(0.0, seconds) * 1000)

    def check_age(self) -> None:
        """Rule 3: nothing is published that sweep might already take for an orphan."""
        elapsed, orphan_age_ms = self._ages()
        if elapsed >= orphan_age_ms - self.table.settings.landing_delay_ms:
            raise AppendExpiredError(
                f"this {self._what} {self.table.layout.prefix} began {elapsed / 1000:.0f} s ago, and files "
                f"that no log names are swept after {orphan_age_ms / 1000:.0f} s. Nothing of it is "
                "visible; start it over, in smaller parts or with a larger orphan_age."
            )

    def _ages(self) -> tuple[float, int]:
        """How old the append is, and how old it may become; both in milliseconds.

        Where the log doesn't tell that `orphan_age` was changed, an append goes by the one that was in force when it
        began, for which sweeps keep its files; and by one that was changed right before, by which a sweep may still
        have gone. One that took no longer than `landing_delay` needn't look for it: `orphan_age` is more than twice
        that.
        """
        table = self.table
        elapsed = (table.clock.monotonic() - self.started) * 1000
        if not table.altered_in_place:
            return elapsed, table.settings.orphan_age_ms
        if elapsed > table.settings.landing_delay_ms:
            table.refresh_times()
        return elapsed, table.settings.orphan_age_ms_at(table.definition, self.started_ms)

    def _check_files(self, commit: Commit) -> None:
        """Past half the orphan age: a sweep by a shorter age may have been run. 1 HEAD a file."""
        elapsed, orphan_age_ms = self._ages()
        if elapsed <= orphan_age_ms / 2:
            return
        for file in commit.adds:
            if file.inlined is not None:
                continue
            try:
                self.table.bucket.head(file.path)
            except ObjectNotFoundError as error:
                raise AppendExpiredError(
                    f"{self.table.bucket.uri(file.path)} was swept before this slow append could publish "
                    "it. Nothing of the append is visible; start it over."
                ) from error


def append_log(commit: Commit, ms: int) -> Log:
    """The log of an append stamped `ms`."""
    rows = [f.rows for f in commit.adds]
    inlined = next((f.inlined for f in commit.adds if f.inlined is not None), None)
    files = [f for f in commit.adds if f.inlined is None]
    assert inlined is None or not files  # one or the other: a log with rows carries no marker
    notes: dict[str, Any] = {"op": commit.op, "adds": len(files)}
    notes["rows"] = None if None in rows else sum(r for r in rows if r is not None)
    notes["bytes"] = sum(f.size for f in files)
    if commit.batch_id is not None:
        notes["batch"] = commit.batch_id
    if commit.summary:
        notes["summary"] = dict(commit.summary)
    if commit.names:
        notes["names"] = dict(commit.names)
    name = new_log_name(ms, maintenance=False, schema=schema_mark(commit.columns, commit.names))
    log = Log(name, ms, commit.columns, notes=notes, nonce=secrets.token_hex(16))
    if inlined is not None:
        return replace(log, need=(INLINE,), inlined=inlined)
    return replace(log, files=with_clocks(commit, version_of(name)))


def settle_append(table: TableLog, key: str, nonce: str, error: OutcomeUnknownError) -> bool:
    """Look what became of a log that was sent without an answer: True if it is there, False if its place is
    taken by a void one, so that it never will be. Else it stays unknown."""
    try:
        return nonce.encode() in table.log_bucket.get(key).data
    except (ObjectNotFoundError, StoreError):
        wait = table.settings.landing_delay_ms / 60_000
        raise OutcomeUnknownError(
            f"{table.log_bucket.uri(key)} was sent and no answer came; it couldn't be seen there, and may yet "
            f"appear within {wait:g} minutes. Look for it with `firn log` before you append the rows again, "
            "or give appends a batch_id: then a retry can't double them."
        ) from error


def _is_replaced(table: TableLog, name: str) -> bool:
    """Whether a log was there, and is merged: a log has its tombstone, or its line of the history."""
    logs = table.loader.load(scope=Scope.ALL).logs
    buried = {key.rpartition("/")[2] for log in logs for key in log.tombstones}
    return name in buried or any(
        name_of(line[0]) == name for log in logs for line in log.notes.get("past") or ()
    )


class _BatchCommit:
    """An append that happens once however often it is retried.

    The claim object names the log of the attempt. An attempt that finds another's claim puts a void log under the
    claimed name: if that succeeds, the other attempt can never publish, and this one takes the claim over.
    """

    def __init__(self, append: OpenAppend, commit: Commit) -> None:
        assert commit.batch_id is not None
        self.append, self.commit, self.batch_id = append, commit, commit.batch_id
        self.table = append.table
        self.bucket, self.layout = append.table.log_bucket, append.table.layout
        self.claim_key = self.layout.batch_key(commit.batch_id)

    def run(self) -> str:
        while True:
            log = self.table.with_definition(append_log(self.commit, self.table.stamp_ms(self.commit)))
            stamped = self.table.clock.monotonic()
            claim = self._claim(log)
            try:
                create(self.bucket, self.claim_key, claim, nonce=log.nonce)
            except ObjectExistsError:
                done = self._take_over(log)
                if done is not None:
                    self.append.duplicate = True
                    return done
            version = self._publish(log, stamped)
            if version is not None:
                return version

    def _claim(self, log: Log) -> bytes:
        counted = self.commit.counted
        more = {} if counted is None else {"rows": list(counted)}
        return seal({"firn": 1, "batch": self.batch_id, "log": log.name, "id": log.nonce, **more})

    def _publish(self, log: Log, stamped: float) -> str | None:
        """put-if-absent under the claimed name; None if another retry made it void, or if claiming took so
        long that the stamp is too old to be published (rule 4): then this append takes its own claim over."""
        self.append.check_age()
        elapsed = self.table.clock.monotonic() - stamped
        window = self.table.settings.retry_window_ms / 1000 - elapsed
        if window <= 0:
            return None
        key = self.layout.log_key(log.name)
        try:
            create(self.bucket, key, encode(log), nonce=log.nonce, retry_for=window)
        except ObjectExistsError:
            return None
        except OutcomeUnknownError as error:
            if not settle_append(self.table, key, log.nonce, error):
                return None
        return version_of(log.name)

    def _take_over(self, log: Log) -> str | None:
        """The version if the batch is committed; None once the claim names `log`."""
        while True:
            try:
                blob = self.bucket.get(self.claim_key)
            except ObjectNotFoundError:
                # So old that it was swept since it was in the way.
                try:
                    create(self.bucket, self.claim_key, self._claim(log), nonce=log.nonce)
                except ObjectExistsError:
                    continue
                return None
            name = claimed_log(blob.data, self.batch_id, self.bucket.uri(self.claim_key))
            if not self._void(name):
                return version_of(name)
            # Void, or merged and cleaned away: then a maintenance log carries the batch's id.
            if (seen := self.table.carried_batch(self.batch_id)) is not None:
                return seen
            try:
                swap(self.bucket, self.claim_key, self._claim(log), blob.info.etag, nonce=log.nonce)
            except ObjectChangedError:
                continue
            return None

    def _void(self, name: str) -> bool:
        """Make sure that the claimed attempt can't publish any more; False if it has."""
        key = self.layout.log_key(name)
        ms = int(name.partition("_")[0])
        while True:
            nonce = secrets.token_hex(16)
            void = Log(name, ms, notes={"op": "fence"}, nonce=nonce)
            try:
                create(self.bucket, key, encode(void), nonce=nonce)
            except ObjectExistsError:
                blob = find(self.bucket, key)
                if blob is None:
                    continue  # merged and cleaned away since it was in the way
                return decode(name, blob.data, where=self.bucket.uri(key)).is_void
            return True


def seen_batch(table: TableLog, batch_id: str) -> str | None:
    """The version that committed this batch, or None. 1 GET for a new id, 2 for one just committed."""
    bucket, layout = table.log_bucket, table.layout
    if not bucket.capabilities.conditional_put:  # no claims are made there
        return table.carried_batch(batch_id)
    claim = find(bucket, layout.batch_key(batch_id))
    if claim is None:
        return None
    name = claimed_log(claim.data, batch_id, bucket.uri(claim.info.key))
    try:
        log = decode(name, bucket.get(layout.log_key(name)).data, where=name)
    except ObjectNotFoundError:
        return table.carried_batch(batch_id)
    return version_of(name) if log.notes.get("batch") == batch_id else None


def counted_batch(table: TableLog, batch_id: str) -> Counted | None:
    """What the claim of a batch says of its rows; None without one, as in stores without conditional puts. 1 GET."""
    if not table.log_bucket.capabilities.conditional_put:
        return None
    claim = find(table.log_bucket, table.layout.batch_key(batch_id))
    rows = None if claim is None else unseal(claim.data, _CLAIM).get("rows")
    return None if rows is None else Counted(*rows)


def claimed_log(data: bytes, batch_id: str | None, where: str) -> str:
    """The log name that a claim object holds, of any batch if None.

    Raises:
        CorruptObjectError: it isn't what any Firn writes.
    """
    try:
        claim = unseal(data, _CLAIM)
        batch, log = claim["batch"], claim["log"]
        if not isinstance(batch, str) or parse_log_name(log) is None:
            raise ValueError("it names no batch and log")
        Counted(*map(int, claim.get("rows", (0, 0))))
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptObjectError(
            f"{where} is not a batch claim ({error!r}). If `firn log` doesn't show that the batch was appended, "
            "delete it, and append the batch again."
        ) from error
    if batch_id is not None and batch != batch_id:
        raise InvalidInputError(f"{where} belongs to the batch {batch!r}, not {batch_id!r}.")
    return str(log)
