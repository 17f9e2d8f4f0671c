"""The horizon: before which time snapshots can't be read any more, since sweeps deleted files of them."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from firn.bucket.base import Bucket
from firn.bucket.conditional import create, swap
from firn.errors import CorruptObjectError, ObjectChangedError, ObjectExistsError, ObjectNotFoundError
from firn.journal.leaderless.format.layout import TableLayout
from firn.journal.model import SweepReport
from firn.journal.sealed import seal, unseal

SWEEPS_KEPT = 100
_FIELDS = frozenset(("firn", "id", "t", "sweeps"))


@dataclass(frozen=True)
class SweepHorizon:
    """`_firn/sweep.json`: snapshots before `ms` can't be read any more; the last sweeps for `history()`."""

    ms: int = 0
    sweeps: tuple[dict[str, Any], ...] = ()
    etag: str | None = None


def read_horizon(bucket: Bucket, layout: TableLayout) -> SweepHorizon:
    """1 GET."""
    key = layout.horizon_key
    try:
        blob = bucket.get(key)
        raw = unseal(blob.data, _FIELDS)
        return SweepHorizon(int(raw["t"]), tuple(raw.get("sweeps") or ()), blob.info.etag)
    except ObjectNotFoundError:
        return SweepHorizon()
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptObjectError(
            f"{bucket.uri(key)} is not a record of sweeps ({error!r}): which versions can still be read isn't "
            "known. `firn mend TABLE` writes it anew; versions before the newest merge can't be read then."
        ) from error


def record(bucket: Bucket, layout: TableLayout, *, horizon_ms: int, report: SweepReport, now: int) -> None:
    """Before anything is deleted: a reader of an older version then learns why it can't be read.

    By compare-and-swap, as cleanups may race: 1 GET + 1 PUT.
    """
    key = layout.horizon_key
    entry = {
        "t": now,
        "data_files": len(report.data_files),
        "logs": len(report.logs),
        "orphans": len(report.orphans),
        "bytes": report.bytes,
    }
    while True:
        horizon = read_horizon(bucket, layout)
        nonce = secrets.token_hex(16)
        body = seal(
            {
                "firn": 1,
                "id": nonce,
                "t": max(horizon.ms, horizon_ms),
                "sweeps": [*horizon.sweeps, entry][-SWEEPS_KEPT:],
            }
        )
        if not bucket.capabilities.conditional_put:
            bucket.put(key, body)
            return
        try:
            if horizon.etag is None:
                create(bucket, key, body, nonce=nonce)
            else:
                swap(bucket, key, body, horizon.etag, nonce=nonce)
            return
        except (ObjectExistsError, ObjectChangedError):
            continue


def replace_horizon(bucket: Bucket, layout: TableLayout, horizon_ms: int) -> None:
    """Write the record anew in place of a damaged one. 1 PUT."""
    bucket.put(
        layout.horizon_key, seal({"firn": 1, "id": secrets.token_hex(16), "t": horizon_ms, "sweeps": []})
    )
