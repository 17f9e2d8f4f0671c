"""JSON of the pointer, manifests and snapshots.

All three are one JSON object each, in the journals' envelope.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, Final

from firn.errors import CorruptObjectError, InvalidInputError
from firn.journal.entries import Entries
from firn.journal.envelope import Envelopes, number, optional_number, text, truth
from firn.journal.manifest.layout import parse_manifest_name
from firn.journal.manifest.model import EpochInfo, Pointer, Replacement, SSTInfo

DEFINITION: Final = "definition"
"""The feature of manifests of tables that were altered. Frozen."""

_ENVELOPES: Final = Envelopes(
    "a keyed table",
    {
        "pointer": "Copy the object back from a backup; nobody can open the table until then.",
        "manifest": "Copy the object back from a backup; the pointer or a snapshot needs it.",
        "snapshot": "Copy the object back from a backup, or delete it to give it up; nothing is collected before.",
    },
    features=frozenset((DEFINITION,)),
)


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One object below `_metadata/manifests/`.

    Full: `base` is None and `adds` are all SSTs. Incremental: what `base` has, without the SSTs whose files are in
    `deletes`, and with `adds`. `chain` are the names of all objects that it stands on, a Full one first, its
    own last. `last_compacted` is the L0 number, `last_epoch` the epoch of the writer of that flush (None for
    neither). `definition` is how the table was altered: each manifest has all of it. `replaced` is what a Full one
    tells of the commits of late; empty in those of an older Firn.
    """

    name: str
    base: str | None
    adds: tuple[SSTInfo, ...]
    deletes: tuple[str, ...]
    chain: tuple[str, ...]
    last_compacted: int
    last_epoch: int | None
    next_sst: int
    compactor_epoch: int
    definition: Entries = field(default_factory=Entries)
    replaced: tuple[Replacement, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """One object below `_metadata/snapshots/`: the pointer that was read, and L0 as (epoch, number, bytes),
    newest first. `expired` makes it a tombstone: it keeps nothing any more and is about to be deleted. `nonce`
    is new with each write.
    """

    id: str
    name: str | None
    pointer: Pointer
    chain: tuple[str, ...]
    l0: tuple[tuple[int, int, int], ...]
    last_l0: int
    created_ms: int
    expires_ms: int | None
    revision: int
    nonce: str
    expired: bool = False


def encode_pointer(pointer: Pointer) -> bytes:
    """The pointer's bytes.

    Raises:
        InvalidInputError: its settings aren't JSON-able.
    """
    try:
        return _ENVELOPES.encode("pointer", _pointer_fields(pointer))
    except TypeError as error:
        raise InvalidInputError(f"the settings of a keyed table must be JSON-able: {error}") from error


def decode_pointer(data: bytes, *, where: str, etag: str = "", modified_ms: int | None = None) -> Pointer:
    """The pointer; `where` is the object's full name, for messages.

    Raises:
        CorruptObjectError: it isn't what any Firn writes.
        UnsupportedError: it needs a newer Firn.
    """
    pointer = _ENVELOPES.decode("pointer", data, where, _pointer)
    return replace(pointer, etag=etag, modified_ms=modified_ms)


def encode_manifest(file: ManifestFile) -> bytes:
    """A manifest's bytes."""
    last = {"writer_epoch": file.last_epoch, "sst_number": file.last_compacted}
    fields: dict[str, Any] = {
        "name": file.name,
        "type": "full" if file.base is None else "incremental",
        "base_manifest": file.base,
        "last_compacted_l0": None if file.last_compacted < 0 else last,
        "next_sst": file.next_sst,
        "compactor_epoch": file.compactor_epoch,
        "chain": list(file.chain),
    }
    adds = [_sst_fields(sst) for sst in file.adds]
    if file.base is None:
        fields["ssts"], fields["changes"] = adds, None
    else:
        fields["ssts"], fields["changes"] = None, {"adds": adds, "deletes": list(file.deletes)}
    if file.replaced:
        fields["replaced"] = [asdict(step) for step in file.replaced]
    if not file.definition:
        return _ENVELOPES.encode("manifest", fields)
    fields["definition"] = file.definition.to_json()
    return _ENVELOPES.encode("manifest", fields, needs=(DEFINITION,))


def decode_manifest(name: str, data: bytes, *, where: str) -> ManifestFile:
    """A manifest of that name. Errors as `decode_pointer`."""
    file = _ENVELOPES.decode("manifest", data, where, _manifest)
    if file.name != name:
        raise CorruptObjectError(f"{where} calls itself {file.name!r}. {_ENVELOPES.remedies['manifest']}")
    return file


def encode_snapshot(file: SnapshotFile) -> bytes:
    """A snapshot's bytes."""
    fields = {
        **asdict(file),
        "pointer": _pointer_fields(file.pointer),
        "l0": [{"writer_epoch": e, "sst_number": n, "bytes": size} for e, n, size in file.l0],
    }
    return _ENVELOPES.encode("snapshot", fields)


def decode_snapshot(data: bytes, *, where: str) -> SnapshotFile:
    """A snapshot. Errors as `decode_pointer`."""
    return _ENVELOPES.decode("snapshot", data, where, _snapshot)


def _pointer_fields(pointer: Pointer) -> dict[str, Any]:
    return {
        "manifest": pointer.manifest,
        "compactor_epoch": pointer.compactor_epoch,
        "writer_epoch_infos": [asdict(info) for info in pointer.infos],
        "table_id": pointer.table_id,
        "first_epoch": pointer.first_epoch,
        "revision": pointer.revision,
        "nonce": pointer.nonce,
        "settings": dict(pointer.settings),
        "last_compacted_time": pointer.last_compacted_ms,
    }


def _pointer(raw: Mapping[str, Any]) -> Pointer:
    infos = tuple(
        EpochInfo(number(i["writer_epoch"]), number(i["starting_sst"]), text(i["claim"]))
        for i in raw["writer_epoch_infos"]
    )
    for before, after in pairwise(infos):
        if after.writer_epoch <= before.writer_epoch or after.starting_sst < before.starting_sst:
            raise ValueError(f"writer {after.writer_epoch} stands after {before.writer_epoch}")
    if not isinstance(raw["settings"], dict):
        raise ValueError("its settings aren't an object")
    return Pointer(
        manifest=_name(raw["manifest"]),
        compactor_epoch=number(raw["compactor_epoch"]),
        infos=infos,
        table_id=text(raw["table_id"]),
        first_epoch=number(raw["first_epoch"]),
        revision=number(raw["revision"]),
        nonce=text(raw["nonce"]),
        settings=raw["settings"],
        last_compacted_ms=optional_number(raw["last_compacted_time"]),
    )


def _manifest(raw: Mapping[str, Any]) -> ManifestFile:
    name = _name(raw["name"])
    full = raw["type"] == "full"
    base = raw["base_manifest"]
    chain = tuple(_name(link) for link in raw["chain"])
    if raw["type"] not in ("full", "incremental") or full != (base is None):
        raise ValueError(f"type {raw['type']!r} with base {base!r}")
    if chain[-1:] != (name,) or (chain[:-1][-1:] or (None,)) != (base,):
        raise ValueError("its chain doesn't end with its base and itself")
    last = raw["last_compacted_l0"]
    changes = {"adds": raw["ssts"], "deletes": []} if full else raw["changes"]
    return ManifestFile(
        name=name,
        base=base,
        adds=tuple(_sst(sst) for sst in changes["adds"]),
        deletes=tuple(text(file) for file in changes["deletes"]),
        chain=chain,
        last_compacted=-1 if last is None else number(last["sst_number"]),
        last_epoch=None if last is None else optional_number(last["writer_epoch"]),
        next_sst=number(raw["next_sst"]),
        compactor_epoch=number(raw["compactor_epoch"]),
        definition=Entries.from_json(raw.get("definition", {}), name),
        replaced=tuple(_replacement(step) for step in raw.get("replaced", ())),
    )


def _replacement(raw: Mapping[str, Any]) -> Replacement:
    return Replacement(
        manifest=_name(raw["manifest"]),
        last_compacted=number(raw["last_compacted"], least=-1),
        ssts=tuple(text(file) for file in raw["ssts"]),
        time_ms=number(raw["time_ms"]),
    )


def _snapshot(raw: Mapping[str, Any]) -> SnapshotFile:
    return SnapshotFile(
        id=text(raw["id"]),
        name=None if raw["name"] is None else text(raw["name"]),
        pointer=_pointer(raw["pointer"]),
        chain=tuple(_name(link) for link in raw["chain"]),
        l0=tuple((number(f["writer_epoch"]), number(f["sst_number"]), number(f["bytes"])) for f in raw["l0"]),
        last_l0=number(raw["last_l0"], least=-1),
        created_ms=number(raw["created_ms"]),
        expires_ms=optional_number(raw["expires_ms"]),
        revision=number(raw["revision"]),
        nonce=text(raw["nonce"]),
        expired=truth(raw["expired"]),
    )


_SST_FIELDS = tuple(field.name for field in fields(SSTInfo) if field.name != "clock")


def _sst_fields(sst: SSTInfo) -> dict[str, Any]:
    clock = {"clock": sst.clock} if sst.clock else {}
    return {
        **{name: getattr(sst, name) for name in _SST_FIELDS},
        **clock,
        "min_key": base64.b64encode(sst.min_key).decode(),
        "max_key": base64.b64encode(sst.max_key).decode(),
    }


def _sst(raw: Mapping[str, Any]) -> SSTInfo:
    return SSTInfo(
        level=number(raw["level"]),
        run=number(raw["run"]),
        number=number(raw["number"]),
        file=text(raw["file"]),
        min_key=base64.b64decode(raw["min_key"], validate=True),
        max_key=base64.b64decode(raw["max_key"], validate=True),
        rows=number(raw["rows"]),
        bytes=number(raw["bytes"]),
        max_seq=number(raw["max_seq"], least=-(2**63)),
        tombstones=number(raw["tombstones"]),
        min_expire=None if raw["min_expire"] is None else number(raw["min_expire"], least=-(2**63)),
        max_loaded=number(raw["max_loaded"], least=-1),
        clock=number(raw.get("clock", 0)),
    )


def _name(value: Any) -> str:
    if parse_manifest_name(text(value)) is None:
        raise ValueError(f"{value!r} isn't a manifest's name")
    return str(value)
