"""All object names of a keyed table, built and parsed in this one place.

    <table>/_metadata/current_manifest                          the pointer
    <table>/_metadata/manifests/manifest.<epoch>.<n>            what a compactor of that epoch committed
    <table>/_metadata/snapshots/manifest.<epoch>.<n>.<id>       a snapshot of that manifest
    <table>/l0/<epoch>.<number>.sst                             a writer's flush; a fence is an empty one
    <table>/ssts/<epoch>.<number>.sst                           a compactor's output
    <table>/_firn/clock                                         written to learn the store's time

The second table of a name has the directories `_metadata~1`, `l0~1`, `ssts~1` and `_firn~1`.

Epochs and numbers have 18 digits, so that keys sort by them. Names that don't parse are nobody's: they are
left alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from firn.bucket.keys import key_below
from firn.errors import InvalidInputError
from firn.journal.generations import directory

DIGITS = 18  # frozen
LARGEST = 10**DIGITS - 1

METADATA_DIR = "_metadata"  # frozen
_L0, _SSTS, _FIRN = "l0", "ssts", "_firn"  # frozen
_NAME = re.compile(r"(\d{18})\.(\d{18})\.sst")
_MANIFEST = re.compile(r"manifest\.(\d{18})\.(\d{18})")
_SNAPSHOT = re.compile(r"(manifest\.\d{18}\.\d{18})\.([0-9a-f]{16,64})")


class Numbered(NamedTuple):
    """The parsed name of an L0 object, an SST or a manifest; orders as the names do."""

    epoch: int
    number: int


def manifest_name(epoch: int, number: int) -> str:
    """The base name of a manifest.

    >>> manifest_name(7, 100)
    'manifest.000000000000000007.000000000000000100'
    """
    return f"manifest.{_digits(epoch)}.{_digits(number)}"


def parse_manifest_name(name: str) -> Numbered | None:
    """The parts of a manifest's base name; None for anything else.

    >>> parse_manifest_name('manifest.000000000000000007.000000000000000100')
    Numbered(epoch=7, number=100)
    """
    match = _MANIFEST.fullmatch(name)
    return Numbered(int(match[1]), int(match[2])) if match else None


def order_of(name: str) -> Numbered:
    """The place of a manifest among the others; the first for anything else.

    >>> order_of(NO_MANIFEST) < order_of(manifest_name(7, 100))
    True
    """
    return parse_manifest_name(name) or Numbered(0, 0)


def sst_name(epoch: int, number: int) -> str:
    """The base name of an L0 object or an SST.

    >>> sst_name(3, 7)
    '000000000000000003.000000000000000007.sst'
    """
    return f"{_digits(epoch)}.{_digits(number)}.sst"


NO_MANIFEST = f"manifest.{0:018}.{0:018}"  # frozen
"""The empty manifest, which has no object. The pointer names it until the first commit of a compactor."""


@dataclass(frozen=True, slots=True)
class ManifestLayout:
    """Keys of one keyed table. `prefix` is its whole key prefix without a trailing slash. Later tables of a name,
    of a `generation`, have other directories: a process that still deletes an earlier one's objects never meets
    theirs.

    Example:
        >>> layout = ManifestLayout("prod/delays")
        >>> layout.l0_key(3, 7)
        'prod/delays/l0/000000000000000003.000000000000000007.sst'
        >>> layout.parse_l0(layout.l0_key(3, 7))
        Numbered(epoch=3, number=7)
        >>> layout.sst_key("/prod/parent/ssts/x.sst")
        'prod/parent/ssts/x.sst'
        >>> ManifestLayout("prod/delays", 2).pointer_key
        'prod/delays/_metadata~2/current_manifest'
    """

    prefix: str
    generation: int = 0

    def _below(self, room: str, *parts: str) -> str:
        return key_below(self.prefix, directory(room, self.generation), *parts)

    @property
    def pointer_key(self) -> str:
        return self._below(METADATA_DIR, "current_manifest")

    @property
    def manifests_prefix(self) -> str:
        return self._below(METADATA_DIR, "manifests", "")

    @property
    def snapshots_prefix(self) -> str:
        return self._below(METADATA_DIR, "snapshots", "")

    @property
    def l0_prefix(self) -> str:
        return self._below(_L0, "")

    @property
    def ssts_prefix(self) -> str:
        return self._below(_SSTS, "")

    @property
    def compact_note_key(self) -> str:
        """The note that says who compacts."""
        return self._below(_FIRN, "work", "compact")

    @property
    def sweep_note_key(self) -> str:
        """The note that says who has swept of late."""
        return self._below(_FIRN, "work", "sweep")

    @property
    def clock_key(self) -> str:
        return self._below(_FIRN, "clock")

    def manifest_key(self, name: str) -> str:
        return self.manifests_prefix + name

    def snapshot_key(self, manifest: str, snapshot_id: str) -> str:
        return f"{self.snapshots_prefix}{manifest}.{snapshot_id}"

    def l0_key(self, epoch: int, number: int) -> str:
        return self.l0_prefix + sst_name(epoch, number)

    def before_l0(self, epoch: int, number: int) -> str:
        """A place to begin a LIST at: every L0 object of the epoch from `number` on comes after it."""
        return self.l0_key(epoch, number - 1) if number else f"{self.l0_prefix}{_digits(epoch)}."

    def before_sst(self, epoch: int, number: int) -> str:
        """The same for SSTs."""
        return f"{self.ssts_prefix}{sst_name(epoch, number - 1) if number else _digits(epoch) + '.'}"

    def sst_file(self, epoch: int, number: int) -> str:
        """The name of an SST as manifests hold it: relative to the table."""
        return f"{directory(_SSTS, self.generation)}/{sst_name(epoch, number)}"

    def sst_key(self, file: str) -> str:
        """The key of an SST by its name in a manifest; one that begins with `/` is a key of the whole bucket."""
        return file[1:] if file.startswith("/") else key_below(self.prefix, file)

    def parse_l0(self, key: str) -> Numbered | None:
        return _parse(key, self.l0_prefix)

    def parse_sst(self, key: str) -> Numbered | None:
        return _parse(key, self.ssts_prefix)

    def parse_manifest(self, key: str) -> Numbered | None:
        if not key.startswith(self.manifests_prefix):
            return None
        return parse_manifest_name(key[len(self.manifests_prefix) :])

    def parse_snapshot(self, key: str) -> tuple[str, str] | None:
        """The manifest's name and the snapshot's id."""
        if not key.startswith(self.snapshots_prefix):
            return None
        match = _SNAPSHOT.fullmatch(key[len(self.snapshots_prefix) :])
        return (match[1], match[2]) if match else None


def _parse(key: str, prefix: str) -> Numbered | None:
    if not key.startswith(prefix):
        return None
    match = _NAME.fullmatch(key[len(prefix) :])
    return Numbered(int(match[1]), int(match[2])) if match else None


def _digits(number: int) -> str:
    if not 0 <= number <= LARGEST:
        raise InvalidInputError(f"{number} is not a number of a keyed table: 0 to {LARGEST} are")
    return f"{number:0{DIGITS}d}"
