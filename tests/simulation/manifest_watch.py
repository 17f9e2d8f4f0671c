"""A store that knows what views of a keyed table were promised, and notes what is deleted too early.

Whatever a collector believes: an object that the current manifest names isn't deleted, nor one of a view whose
manifest was current less than the age ago. A manifest counts as replaced from the put of the next one on.
"""

from __future__ import annotations

from firn.bucket.base import BytesLike
from firn.journal.manifest.codec import ManifestFile, decode_manifest, decode_pointer
from firn.journal.manifest.layout import ManifestLayout
from firn.journal.manifest.model import EpochInfo, L0File, Manifest
from firn.journal.manifest.store import applied
from firn.journal.manifest.walk import walk
from firn.testing import SimStore


class WatchedManifests(SimStore):
    """Times are the store's own: no clock of any client counts. `age_s`: for how long what was replaced is read."""

    def __init__(self, layout: ManifestLayout, age_s: float, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.layout, self.age_ms = layout, round(age_s * 1000)
        self.violations: list[str] = []
        self._manifest = Manifest()
        self._infos: tuple[EpochInfo, ...] = ()
        self._replaced: dict[str, int] = {}

    def write(self, key: str, data: BytesLike, *, absent: bool = False, match: str | None = None) -> str:
        etag = super().write(key, data, absent=absent, match=match)
        if key == self.layout.pointer_key:
            pointer = decode_pointer(bytes(data), where=key)
            current = self.layout.manifest_key(pointer.manifest)
            if pointer.manifest != self._manifest.name and current in self:
                self._replace(self._read(pointer.manifest), self.stat(current).modified_ms)
            self._infos = pointer.infos
        return etag

    def remove(self, key: str) -> None:
        if key in self:
            age_ms = self.time.now_ms - self._replaced.get(key, 0)
            if key in self._named(self._manifest):
                self.violations.append(f"{key} was deleted, and the current manifest names it")
            elif age_ms < self.age_ms:
                self.violations.append(f"{key} was deleted {age_ms} ms after it was replaced")
        super().remove(key)

    def _replace(self, manifest: Manifest, at_ms: int) -> None:
        before, self._manifest = self._manifest, manifest
        gone = self._named(before) - self._named(manifest)
        names = [(key, self.layout.parse_l0(key)) for key in self.keys(self.layout.l0_prefix)]
        files = [L0File(n.epoch, n.number, key, self.stat(key).size) for key, n in names if n is not None]
        flushes = walk(self._infos, before.last_compacted, files)
        gone.update(file.key for file in flushes if file.number <= manifest.last_compacted)
        self._replaced.update(dict.fromkeys(gone, at_ms))

    def _read(self, name: str) -> Manifest:
        def decoded(name: str) -> ManifestFile:
            key = self.layout.manifest_key(name)
            return decode_manifest(name, self.fetch(key).data, where=key)

        return applied(Manifest(), [decoded(link) for link in decoded(name).chain])

    def _named(self, manifest: Manifest) -> set[str]:
        return {
            *(self.layout.sst_key(sst.file) for sst in manifest.ssts),
            *(self.layout.manifest_key(link) for link in manifest.chain),
        }
