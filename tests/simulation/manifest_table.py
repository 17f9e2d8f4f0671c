"""The keyed table that simulations share: its journal, and SSTs that are nothing but lists of flushes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firn.bucket.base import Bucket
from firn.clock import Clock
from firn.errors import ObjectNotFoundError, StoreUnavailableError
from firn.journal.manifest import CompactorSession, ManifestJournal, SSTInfo, View
from firn.journal.manifest.layout import ManifestLayout
from simulation.manifest_model import Contents

PREFIX = "db/t"
LAYOUT = ManifestLayout(PREFIX)
POLL_MAX_S = 30
L0_MIN_AGE_S = 10 * POLL_MAX_S
BUFFER_S = 120
"""More than any two clocks differ."""

Entry = tuple[int, bytes]
"""A flush's number and body."""


class GoneError(ObjectNotFoundError):
    """A file that a view names isn't there, or there is a fence in its place (rule 9)."""


def journal_of(bucket: Bucket, clock: Clock) -> ManifestJournal:
    return ManifestJournal(bucket, PREFIX, clock=clock)


def create(bucket: Bucket, clock: Clock) -> None:
    journal_of(bucket, clock).create({}, first_epoch=1)


def sst_body(entries: Iterable[Entry]) -> bytes:
    return b"\n".join(b"%d %s" % entry for entry in entries)


def sst_entries(body: bytes) -> list[Entry]:
    lines = [line.partition(b" ") for line in body.split(b"\n")]
    return [(int(number), rest) for number, _, rest in lines]


def put_sst(session: CompactorSession, level: int, run: int, entries: Sequence[Entry]) -> SSTInfo:
    """Write one SST under a new number."""
    number = session.next_sst_number()
    body = sst_body(entries)
    session.put_sst(number, body)
    file = session.sst_file(number)
    low, high = (b"%018d" % entry[0] for entry in (entries[0], entries[-1]))
    return SSTInfo(level, run, number, file, low, high, len(entries), len(body), max_seq=entries[-1][0])


def fetch(bucket: Bucket, key: str) -> bytes:
    """A data file's bytes; `GoneError` also for a fence that came in its place."""
    try:
        blob = bucket.get(key)
    except ObjectNotFoundError as error:
        raise GoneError(str(error)) from error
    if not blob.info.size:
        raise GoneError(f"{key} is empty")
    if len(blob.data) < blob.info.size:
        raise StoreUnavailableError(f"{key} was cut off")
    return blob.data


def contents_of(bucket: Bucket, view: View) -> Contents:
    """All flushes of a view in order, each exactly once."""
    found: dict[int, bytes] = {}
    entries = [(file.number, fetch(bucket, file.key)) for file in view.l0]
    for info in view.manifest.ssts:
        entries += sst_entries(fetch(bucket, LAYOUT.sst_key(info.file)))
    for number, body in entries:
        assert number not in found, f"number {number} is twice in {view.version}"
        found[number] = body
    assert sorted(found) == list(range(len(found))), f"{view.version} has the numbers {sorted(found)}"
    assert view.last_l0 == len(found) - 1
    return tuple(found[number] for number in range(len(found)))


def read_all(bucket: Bucket, journal: ManifestJournal, view: View) -> tuple[View, Contents]:
    """Read a view. By rule 9 a file that is gone has been replaced: refresh, and begin again."""
    while True:
        try:
            return view, contents_of(bucket, view)
        except GoneError as gone:
            newer = journal.read(view)
            if newer.manifest.name == view.manifest.name:  # what the pointer names is always there
                raise AssertionError(f"{view.version} is the newest, and lacks something") from gone
            view = newer
