"""A keyed table's metadata objects, read and decoded; the clock and the backoff that all clients of it share.

Nothing here decides anything: the rules are in `walk`, `views`, `writer`, `compactor`, `snapshots` and `collection`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from firn.bucket.base import Blob, Bucket
from firn.clock import Clock
from firn.errors import CorruptObjectError, ObjectNotFoundError, TableNotFoundError
from firn.journal.backoff import Backoff, whole, whole_or_none
from firn.journal.manifest.codec import ManifestFile, decode_manifest, decode_pointer
from firn.journal.manifest.layout import NO_MANIFEST, ManifestLayout
from firn.journal.manifest.model import L0File, Manifest, Pointer, Replacement, SSTInfo
from firn.journal.manifest.pointer_store import PointerStore


@dataclass(frozen=True)
class ManifestStore:
    """One table's objects. See `ManifestJournal` for the fields."""

    bucket: Bucket
    layout: ManifestLayout
    pointers: PointerStore
    clock: Clock
    poll_max_s: float
    max_chain: int
    l0_min_age_s: float
    table: str | None = None

    def backoff(self) -> Backoff:
        return Backoff(self.clock)

    def find_pointer(self) -> Pointer | None:
        """The pointer, None if there is none. 1 GET."""
        found = self.pointers.get()
        if found is None:
            return None
        return decode_pointer(
            found.data, where=self.pointers.where, etag=found.etag, modified_ms=found.modified_ms
        )

    def pointer(self) -> Pointer:
        """The pointer, or `TableNotFoundError`, also where it is that of another table than `table`. 1 GET."""
        found = self.find_pointer()
        if found is None:
            raise TableNotFoundError(
                f"{self.pointers.where} does not exist: there is no keyed table here, or it was dropped. Get the "
                "table anew with db.table()."
            )
        if self.table is not None and found.settings.get("table", self.table) != self.table:
            raise TableNotFoundError(
                f"{self.pointers.where} is that of a table which was created later: the one before was dropped. "
                "Get the table anew with db.table()."
            )
        return found

    def manifest(self, name: str, known: Manifest | None = None) -> Manifest:
        """A manifest; what `known` was read from isn't read again. 1 GET an object.

        Raises:
            ObjectNotFoundError: an object of its chain is gone.
        """
        if name == NO_MANIFEST:
            return Manifest()
        if known is not None and known.name == name:
            return known
        newest = self._decode(name, self.fetch(self.layout.manifest_key(name)))
        stands_on, missing = Manifest(), newest.chain[:-1]
        if known is not None and known.name in missing:
            stands_on, missing = known, missing[missing.index(known.name) + 1 :]
        blobs = self.fetch_many([self.layout.manifest_key(link) for link in missing])
        files = [self._decode(link, blob) for link, blob in zip(missing, blobs, strict=True)]
        return applied(stands_on, [*files, newest])

    def whole_manifests(self, names: Sequence[str]) -> list[Manifest]:
        """Those of some manifests of which nothing is missing. 1 GET each, and 1 for each that they stand on."""
        files: dict[str, ManifestFile] = {}
        wanted = list(names)
        while wanted:
            blobs = self.fetch_present([self.layout.manifest_key(name) for name in wanted])
            for name, blob in zip(wanted, blobs, strict=True):
                if blob is not None:
                    files[name] = self._decode(name, blob)
            links = dict.fromkeys(link for name in wanted if name in files for link in files[name].chain)
            wanted = [link for link in links if link not in files and link not in wanted]
        return [
            applied(Manifest(), [files[link] for link in files[name].chain])
            for name in names
            if name in files and all(link in files for link in files[name].chain)
        ]

    def current(
        self, known: Manifest | None = None, pointer: Pointer | None = None
    ) -> tuple[Pointer, Manifest]:
        """A pointer and its manifest, which a compactor may have replaced and a collector deleted in between.
        1 GET unless there is a `pointer` to begin with, and 1 a manifest that isn't known."""
        pointer = pointer or self.pointer()
        while True:
            try:
                return pointer, self.manifest(pointer.manifest, known)
            except ObjectNotFoundError as error:
                gone, pointer = pointer, self.pointer()
                if pointer.manifest == gone.manifest:
                    raise CorruptObjectError(
                        f"{self.pointers.where} names {gone.manifest}, of which an object is missing: {error}. "
                        "Copy it back from a backup."
                    ) from error

    def list_l0(self, after: str) -> list[L0File]:
        """L0 objects and fences after a key, in key order. 1 LIST sequence."""
        files = []
        for info in self.bucket.list(self.layout.l0_prefix, after=after).objects:
            parsed = self.layout.parse_l0(info.key)
            if parsed is not None:
                files.append(L0File(parsed.epoch, parsed.number, info.key, info.size))
        return files

    def fetch(self, key: str) -> Blob:
        """An object, whole. 1 GET."""
        return whole(self.bucket, self.bucket.get(key), self.clock)

    def fetch_many(self, keys: Sequence[str]) -> list[Blob]:
        """Objects, whole; `ObjectNotFoundError` if one is missing. 1 GET each, many at once."""
        found = []
        for key, blob in zip(keys, self.fetch_present(keys), strict=True):
            if blob is None:
                raise ObjectNotFoundError(f"{self.bucket.uri(key)} does not exist")
            found.append(blob)
        return found

    def fetch_present(self, keys: Sequence[str]) -> list[Blob | None]:
        """Objects, whole; None for a missing one. 1 GET each, many at once."""
        return [whole_or_none(self.bucket, blob, self.clock) for blob in self.bucket.get_many(keys)]

    def now_ms(self) -> int:
        """The store's own time, of a moment ago: when an object was written that exists for this alone. PUT, HEAD."""
        self.bucket.put(self.layout.clock_key, b"")
        return self.bucket.head(self.layout.clock_key).modified_ms

    def _decode(self, name: str, blob: Blob) -> ManifestFile:
        return decode_manifest(name, blob.data, where=self.bucket.uri(blob.info.key))


def applied(stands_on: Manifest, files: Sequence[ManifestFile]) -> Manifest:
    """The manifest after these objects, in order (rule 13). A Full one begins anew."""
    ssts = {sst.file: sst for sst in stands_on.ssts}
    replaced, last_compacted = stands_on.replaced, stands_on.last_compacted
    for file in files:
        if file.base is None:
            ssts.clear()
            replaced = file.replaced or (Replacement(file.name, -1, (), 0),)
        else:
            gone_now = set(file.deletes).difference(sst.file for sst in file.adds)
            replaced = (*replaced, Replacement(file.name, last_compacted, tuple(sorted(gone_now))))
        last_compacted = file.last_compacted
        for gone in file.deletes:
            if ssts.pop(gone, None) is None:
                raise CorruptObjectError(
                    f"the manifest {file.name} deletes {gone}, which {file.base} doesn't have. "
                    "Copy its chain back from a backup."
                )
        ssts.update((sst.file, sst) for sst in file.adds)
    newest = files[-1]
    return Manifest(
        name=newest.name,
        ssts=in_order(ssts.values()),
        last_compacted=newest.last_compacted,
        next_sst=newest.next_sst,
        compactor_epoch=newest.compactor_epoch,
        last_compacted_epoch=newest.last_epoch,
        chain=newest.chain,
        definition=newest.definition,
        replaced=replaced,
    )


def in_order(ssts: Iterable[SSTInfo]) -> tuple[SSTInfo, ...]:
    """By runs, the newest first, and by key within a run."""
    return tuple(sorted(ssts, key=lambda s: (s.level, -s.run, s.min_key, s.file)))
