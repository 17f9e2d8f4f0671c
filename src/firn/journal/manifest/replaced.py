"""Objects that were replaced a moment ago (rule 21): readers still use views that name them.

A view is readable for `l0_min_age` after a commit has replaced it. So manifests tell what the commits of that time
took out of the table, and a collection spares it, without a request of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from firn.bucket.base import ObjectInfo
from firn.journal.manifest.layout import NO_MANIFEST, ManifestLayout, Numbered, order_of, parse_manifest_name
from firn.journal.manifest.model import Manifest, Pointer, Replacement
from firn.journal.manifest.store import ManifestStore

_SLACK_S = 60.0
"""How much later a manifest may be in the bucket than its compactor noted: entries reach back that much further."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """The objects that stay, though the current manifest doesn't name them: `ssts` by their files, manifests from
    `since` on, and flushes above the number `compacted`."""

    ssts: frozenset[str]
    since: Numbered | None
    compacted: int


def remembered(replaced: Sequence[Replacement], now_ms: int, l0_min_age_s: float) -> tuple[Replacement, ...]:
    """The entries of a Full manifest for the commits up to its own, the last of them. Pure.

    The commits since the Full manifest before become one. Older commits than the age are forgotten, except for the
    name of the last such manifest: it says that all later commits are there.
    """
    told = [step for step in replaced if step.time_ms is not None]
    since = replaced[len(told) :]
    ssts = dict.fromkeys(file for step in since for file in step.ssts)
    told.append(Replacement(since[-1].manifest, since[0].last_compacted, tuple(ssts), now_ms))
    before_ms = now_ms - round((l0_min_age_s + _SLACK_S) * 1000)
    first = max((at for at, step in enumerate(told) if (step.time_ms or 0) <= before_ms), default=0)
    return (replace(told[first], last_compacted=-1, ssts=()), *told[first + 1 :])


def replaced(
    store: ManifestStore,
    pointer: Pointer,
    manifest: Manifest,
    listed: Sequence[ObjectInfo],
    *,
    before_ms: int,
) -> Replaced:
    """The objects that were current after `before_ms`, by the store's clock, and aren't any more. No request,
    unless an older Firn compacted the table, or another age was in force: then 1 GET for each manifest that is
    older than those that the current one names."""
    steps = manifest.replaced
    there = by_number(store.layout, listed)
    if not manifest.chain:
        return Replaced(frozenset(), None, manifest.last_compacted)
    first = next(
        (at for at, s in enumerate(steps) if _committed_ms(s, steps, there, pointer) > before_ms), None
    )
    if first is None:
        return Replaced(frozenset(), None, manifest.last_compacted)
    ssts = frozenset(file for step in steps[first:] for file in step.ssts)
    if first:
        full = [step.manifest for step in steps[:first] if step.time_ms is not None]
        return Replaced(ssts, parse_manifest_name(full[-1]), steps[first].last_compacted)
    # The first entry doesn't say what it replaced. Any manifest below may have been current, or none.
    end = order_of(steps[0].manifest)
    below = [
        info for number, info in sorted(there.items()) if Numbered(pointer.first_epoch, 0) <= number < end
    ]
    found = store.whole_manifests([info.key[len(store.layout.manifests_prefix) :] for info in below])
    whole = len(found) == len(below) > 0 and below[0].modified_ms <= before_ms
    compacted = min(m.last_compacted for m in found) if whole else -1
    return Replaced(ssts.union(sst.file for m in found for sst in m.ssts), order_of(NO_MANIFEST), compacted)


def by_number(layout: ManifestLayout, listed: Sequence[ObjectInfo]) -> Mapping[Numbered, ObjectInfo]:
    """Manifests by epoch and number."""
    parsed = ((layout.parse_manifest(info.key), info) for info in listed)
    return {number: info for number, info in parsed if number is not None}


def _committed_ms(
    step: Replacement, steps: Sequence[Replacement], there: Mapping[Numbered, ObjectInfo], pointer: Pointer
) -> int:
    """About when a manifest became current; of the current one, not before. One that is gone: long ago."""
    if step is steps[-1] and pointer.modified_ms is not None:
        return pointer.modified_ms
    number = order_of(step.manifest)
    return there[number].modified_ms if number in there else 0
