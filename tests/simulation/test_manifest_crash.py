"""Each operation of the manifest journal, struck at every request it makes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache

import pytest

from firn.errors import FencedError, FirnError
from firn.testing import CrashMode, CrashPoint, GatedBucket, Rule, Script, SimStore, crash_points, retried
from simulation.manifest_model import Model
from simulation.manifest_table import L0_MIN_AGE_S, contents_of, create, journal_of, put_sst
from simulation.manifest_world import final

MODES: tuple[CrashMode, ...] = ("before", "after", "lost_ack", "retried", "failed")


@cache
def _filled() -> SimStore:
    """Two writers, five flushes, the first two compacted, and an expired snapshot, all of long ago."""
    store = SimStore()
    bucket = store.bucket()
    create(bucket, bucket.clock)
    flush(bucket)
    journal_of(bucket, bucket.clock).snapshot(expires_ms=bucket.clock.now_ms())
    compact(bucket)
    flush(bucket)
    bucket.clock.sleep(2 * L0_MIN_AGE_S)
    return store


def flush(bucket: GatedBucket) -> list[bytes]:
    """Takes over, and flushes two; what was acknowledged."""
    session = journal_of(bucket, bucket.clock).open_writer()
    done = []
    for number in (session.start, session.start + 1):
        body = b"number %d of writer %d" % (number, session.epoch)
        session.put_l0(number, body)
        session.confirm(number)
        done.append(body)
    return done


def compact(bucket: GatedBucket) -> list[bytes]:
    journal = journal_of(bucket, bucket.clock)
    session = journal.open_compactor()
    entries = [(file.number, journal.read_l0(file)) for file in reversed(session.view.l0)]
    if entries:
        sst = put_sst(session, 1, len(session.view.manifest.ssts), entries)
        session.commit(adds=[sst], deletes=[], last_compacted=session.view.last_l0)
    return []


def snapshot(bucket: GatedBucket) -> list[bytes]:
    journal = journal_of(bucket, bucket.clock)
    ref = journal.snapshot(expires_ms=None)
    journal.delete_snapshot(journal.refresh_snapshot(ref, bucket.clock.now_ms() + 1000))
    return []


def collect(bucket: GatedBucket) -> list[bytes]:
    journal_of(bucket, bucket.clock).collect(l0_min_age_s=L0_MIN_AGE_S, buffer_s=0)
    return []


@pytest.mark.parametrize("operation", [flush, compact, snapshot, collect])
def test_struck_anywhere(operation: Callable[[GatedBucket], list[bytes]]) -> None:
    """Nothing is lost, what was acknowledged is there, and it can be done again to its end and swept."""
    acknowledged: list[bytes] = []

    def struck(bucket: GatedBucket) -> None:
        acknowledged.clear()
        acknowledged.extend(operation(bucket))

    bucket = _filled().copy().bucket()
    journal = journal_of(bucket, bucket.clock)
    before = contents_of(journal, journal.read())

    def check(store: SimStore, point: CrashPoint) -> None:
        bucket = store.bucket()
        journal = journal_of(bucket, bucket.clock)
        seen = contents_of(journal, journal.read())
        assert seen[: len(before)] == before
        assert set(acknowledged) <= set(seen)
        with suppress(FirnError):
            operation(bucket)
        after = contents_of(journal, journal.read())
        assert after[: len(seen)] == seen
        model = Model()
        for number, body in enumerate(after):
            model.adopt(number, body)
        final(model, bucket, store)

    assert crash_points(lambda: _filled().copy(), struck, check, modes=MODES) > 10


def test_a_compactor_that_was_overtaken_while_it_waited_for_an_answer_commits_nothing_more() -> None:
    """Its first commit landed and is found to be its own; that another has the epoch by then ends it all the same."""
    store = _filled().copy()
    plan = Script(Rule(retried(60), verb="put_if_match", key="*current_manifest", nth=1))
    bucket = store.bucket(plan=plan)
    journal = journal_of(bucket, bucket.clock)
    session = journal.open_compactor()
    other = journal_of(store.bucket(), bucket.clock)
    store.time.after(30_000, other.open_compactor)
    entries = [(file.number, journal.read_l0(file)) for file in reversed(session.view.l0)]
    session.commit(adds=[put_sst(session, 1, 9, entries)], deletes=[], last_compacted=session.view.last_l0)
    manifest = other.read().manifest
    with pytest.raises(FencedError):
        session.commit(
            adds=[put_sst(session, 2, 0, [(99, b"")])], deletes=[], last_compacted=manifest.last_compacted
        )
    assert other.read().manifest == manifest
