"""What was replaced a moment ago (rule 21): views that were read before are still being read.

A view is readable for `l0_min_age` after a commit has replaced it. So a collection spares what the manifests of that
time name: those whose successor in the current chain was put since. Others may be among them that never were current;
to spare these too does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from firn.bucket.base import ObjectInfo
from firn.journal.manifest.layout import ManifestLayout, Numbered, parse_manifest_name
from firn.journal.manifest.model import Manifest, Pointer
from firn.journal.manifest.store import ManifestStore


@dataclass(frozen=True, slots=True)
class Replaced:
    """The manifests that were current within the age; `compacted`: up to which number L0 was compacted before."""

    manifests: tuple[Manifest, ...]
    compacted: int


def replaced(
    store: ManifestStore,
    pointer: Pointer,
    manifest: Manifest,
    listed: Sequence[ObjectInfo],
    *,
    before_ms: int,
) -> Replaced:
    """What was current after `before_ms`, by the store's clock, and isn't any more. 1 GET for each such manifest, and
    1 for each that these stand on."""
    chain = [name for name in map(parse_manifest_name, manifest.chain) if name is not None]
    if not chain:
        return Replaced((), manifest.last_compacted)
    there = by_number(store.layout, listed)
    recent = [number for number in chain if _committed_ms(number, chain, there, pointer) > before_ms]
    if not recent:
        return Replaced((), manifest.last_compacted)
    # Between the last commit that is old enough and the first that isn't, any may have been current.
    old = [number for number in chain if number < recent[0]]
    names = [
        info.key[len(store.layout.manifests_prefix) :]
        for number, info in sorted(there.items())
        if (old[-1] if old else Numbered(0, 0)) <= number < chain[-1]
    ]
    found = store.whole_manifests(names)
    first = old[0] if old else min(there, default=recent[0])
    compacted = min(m.last_compacted for m in (manifest, *found))
    if first >= recent[0] or len(found) < len(names):
        compacted = -1  # nothing was committed before, or nobody knows what: all of L0 may be in a view
    return Replaced(tuple(found), compacted)


def by_number(layout: ManifestLayout, listed: Sequence[ObjectInfo]) -> Mapping[Numbered, ObjectInfo]:
    """Manifests by epoch and number."""
    parsed = ((layout.parse_manifest(info.key), info) for info in listed)
    return {number: info for number, info in parsed if number is not None}


def _committed_ms(
    number: Numbered, chain: Sequence[Numbered], there: Mapping[Numbered, ObjectInfo], pointer: Pointer
) -> int:
    """About when a manifest of the chain became current; of the current one, not before."""
    if number == chain[-1] and pointer.modified_ms is not None:
        return pointer.modified_ms
    return there[number].modified_ms if number in there else 0
