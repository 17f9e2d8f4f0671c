"""Keyed tables in commands that take a table of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from firn.cli.keyed.group import keyed
from firn.cli.keyed.text import columns_now
from firn.cli.kind import Ingest, LogOptions, ShellKind, TableRow
from firn.cli.opening import pairs
from firn.cli.terminal import output
from firn.errors import InvalidInputError
from firn.inspect.dump.decoded import moment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from firn.database.database import Database
    from firn.journal.manifest.history import ManifestCommit
    from firn.keyed.table import KeyedTable


class KeyedInShell(ShellKind):
    group = keyed
    verbs = ("read", "write", "maintain", "size")

    def row(self, table: KeyedTable) -> TableRow:
        """`rows` are entries, and known where all of them are compacted into one run."""
        view = table.view()
        ssts = view.manifest.ssts
        one_run = not view.l0 and len({(s.level, s.run) for s in ssts}) <= 1
        whole = one_run and not any(s.tombstones or s.min_expire is not None for s in ssts)
        changed = view.pointer.last_compacted_ms
        return {
            "name": table.name,
            "kind": table.definition.kind,
            "rows": sum(s.rows for s in ssts) if whole else None,
            "files": len(ssts) + len(view.l0),
            "bytes": sum(s.bytes for s in ssts) + sum(f.bytes for f in view.l0),
            "partition_by": [],
            "sort_by": list(table.definition.key or ("key",)),
            "version": view.version,
            "time": None if changed is None else datetime.fromtimestamp(changed / 1000, timezone.utc),
        }

    def print_schema(self, table: KeyedTable, *, at: str | None, json: bool) -> None:
        if at is not None:
            raise InvalidInputError(
                f"{table.name} is a keyed table, whose columns are shown as they are now: leave out --at."
            )
        from firn.keyed.maintain.alter import definition_now

        d = definition_now(table)
        key, columns = dict(d.key or {"key": "BLOB"}), dict(d.columns or {"value": "BLOB"})
        if json:
            output.document(
                {
                    "table": table.name,
                    "columns": [
                        {"name": c, "type": t, "key": c in key} for c, t in {**key, **columns}.items()
                    ],
                    "merge_operator": d.merge_operator,
                    "ttl_ms": d.ttl_ms,
                    "properties": dict(d.properties),
                }
            )
            return
        rows = [[name, kind, "key"] for name, kind in key.items()]
        output.table(["column", "type", ""], [*rows, *([name, kind, ""] for name, kind in columns.items())])
        if d.merge_operator is not None:
            output.line(f"merge operator: {output.cell(d.merge_operator)}")
        if d.ttl_ms is not None:
            output.line(f"entries live: {d.ttl_ms / 1000:g} s")
        for name, value in d.properties.items():
            output.line(f"property {name}: {value}")

    def key(self, words: Sequence[str]) -> dict[str, str]:
        if untyped := [word for word in words if "=" not in word]:
            raise InvalidInputError(
                f"the key {untyped[0]!r} of a keyed table needs its type: --key {untyped[0]}=VARCHAR, or =BIGINT, …."
            )
        return pairs(words, "--key")

    def print_log(self, database: Database, table: KeyedTable, asked: LogOptions) -> None:
        if asked.writer is not None or asked.at is not None:
            raise InvalidInputError(
                f"{table.name} is a keyed table, whose log are its manifests: leave --writer and --at out."
            )
        _print_manifests(table, asked.limit, asked.json)

    def check_ingest(self, table: KeyedTable | None, asked: Ingest) -> None:
        from firn.cli.keyed.ingest import check_key

        asked.refuse_lake_options("keyed")
        if table is not None:
            check_key(table, asked.key)
            asked.refuse_properties()

    def columns(self, table: KeyedTable) -> dict[str, str]:
        return dict(columns_now(table) or {})

    def ingest(self, database: Database, table: KeyedTable | None, frame: DataFrame, asked: Ingest) -> None:
        from firn.cli.keyed.ingest import create_for, load_frame

        into = table or create_for(database, asked.name, frame, asked.key, asked.properties)
        load_frame(database, into, frame, asked.json)


_SHOWN = {
    "current": "current",
    "chain": "current stands on it",
    "kept": "a checkpoint's",
    "replaced": "replaced",
    "open": "not committed",
}


def _print_manifests(table: KeyedTable, limit: int | None, json: bool) -> None:
    """The history of one table."""
    found = table.history(limit)[::-1]
    if json:
        output.document({"table": table.name, "history": [_manifest_plain(commit) for commit in found]})
    elif found:
        heads = ["time (UTC)", "epoch", "flushes", "SSTs", "all SSTs", "entries", "size", "version", ""]
        output.table(heads, [_manifest_line(commit) for commit in found], right=(1, 2, 3, 4, 5, 6))
    else:
        output.note(f"{table.name} has no manifest yet: nothing was compacted or loaded.")


def _manifest_line(commit: ManifestCommit) -> tuple[str, ...]:
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


def _manifest_plain(commit: ManifestCommit) -> dict[str, Any]:
    return {
        **output.plain(commit),
        "adds": [sst.file for sst in commit.adds],
        "deletes": list(commit.deletes),
    }


PART: ShellKind = KeyedInShell()
