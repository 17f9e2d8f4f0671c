"""The keyed table that simulations share: its journal, and SSTs that are nothing but lists of flushes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firn.bucket.base import Bucket
from firn.clock import Clock
from firn.errors import StoreUnavailableError
from firn.journal.manifest import CompactorSession, ManifestJournal, SSTInfo, View
from firn.journal.manifest.layout import ManifestLayout
from simulation.manifest_model import Contents

PREFIX = "db/t"
MAX_CHAIN = 3
LAYOUT = ManifestLayout(PREFIX)
POLL_MAX_S = 30
L0_MIN_AGE_S = 10 * POLL_MAX_S
BUFFER_S = 120
"""More than any two clocks differ."""

Entry = tuple[int, bytes]
"""A flush's number and body."""


def journal_of(bucket: Bucket, clock: Clock, *, told_s: float = L0_MIN_AGE_S) -> ManifestJournal:
    """`told_s`: how far back its manifests tell what was replaced."""
    return ManifestJournal(
        bucket, PREFIX, clock=clock, poll_max_s=POLL_MAX_S, max_chain=MAX_CHAIN, l0_min_age_s=told_s
    )


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


def fetch(bucket: Bucket, file: str) -> bytes:
    """An SST's bytes."""
    blob = bucket.get(LAYOUT.sst_key(file))
    if len(blob.data) < blob.info.size:
        raise StoreUnavailableError(f"{file} was cut off")
    return blob.data


def contents_of(journal: ManifestJournal, view: View) -> Contents:
    """All flushes of a view in order, each exactly once."""
    assert len(view.manifest.chain) <= MAX_CHAIN, f"{view.version} is a chain of {len(view.manifest.chain)}"
    found: dict[int, bytes] = {}
    entries = [(file.number, journal.read_l0(file)) for file in view.l0]
    for info in view.manifest.ssts:
        entries += sst_entries(fetch(journal.bucket, info.file))
    for number, body in entries:
        assert number not in found, f"number {number} is twice in {view.version}"
        found[number] = body
    assert sorted(found) == list(range(len(found))), f"{view.version} has the numbers {sorted(found)}"
    assert view.last_l0 == len(found) - 1
    return tuple(found[number] for number in range(len(found)))


def read_all(journal: ManifestJournal, view: View) -> tuple[View, Contents]:
    """Read a view, or a newer one if files of it are gone (rule 9)."""
    return journal.restarting(view, lambda chosen: contents_of(journal, chosen))
