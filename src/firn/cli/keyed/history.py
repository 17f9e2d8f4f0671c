"""What `firn log` prints of a keyed table: its manifests, the newest last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firn.cli.terminal import output
from firn.inspect.dump.decoded import moment

if TYPE_CHECKING:
    from firn.journal.manifest.history import ManifestCommit
    from firn.keyed.table import KeyedTable

_SHOWN = {
    "current": "current",
    "chain": "current stands on it",
    "kept": "a checkpoint's",
    "replaced": "replaced",
    "open": "not committed",
}


def print_manifests(table: KeyedTable, limit: int | None, json: bool) -> None:
    """The history of one table."""
    found = table.history(limit)[::-1]
    if json:
        output.document({"table": table.name, "history": [_plain(commit) for commit in found]})
    elif found:
        heads = ["time (UTC)", "epoch", "flushes", "SSTs", "all SSTs", "entries", "size", "version", ""]
        output.table(heads, [_line(commit) for commit in found], right=(1, 2, 3, 4, 5, 6))
    else:
        output.note(f"{table.name} has no manifest yet: nothing was compacted or loaded.")


def _line(commit: ManifestCommit) -> tuple[str, ...]:
    return (
        moment(commit.time_ms).removesuffix(" UTC"),
        str(commit.compactor_epoch),
        f"+{commit.flushes:,}" if commit.flushes else "",
        f"+{len(commit.adds):,} -{len(commit.deletes):,}",
        output.number(commit.ssts),
        output.number(commit.rows),
        output.size(commit.bytes),
        commit.version,
        _SHOWN[commit.state],
    )


def _plain(commit: ManifestCommit) -> dict[str, Any]:
    return {
        **output.plain(commit),
        "adds": [sst.file for sst in commit.adds],
        "deletes": list(commit.deletes),
    }
