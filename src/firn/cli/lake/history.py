"""What `firn log` prints of a lake table: its commits and sweeps, the newest last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from firn.cli.terminal import output
from firn.errors import InvalidInputError

if TYPE_CHECKING:
    from firn.cli.kind import LogOptions
    from firn.database.database import Database
    from firn.journal.model import CommitInfo
    from firn.lake.table import LakeTable

LOG_WIDTH = 150
"""Terminals less wide show a commit on two lines."""

NARROW = 74
"""Less wide ones show the figures of a commit on a line of their own."""


def newest(lines: Sequence[Any], limit: int | None) -> Sequence[Any]:
    return lines if limit is None or limit >= len(lines) else lines[len(lines) - limit :]


def print_commits(database: Database, table: LakeTable, asked: LogOptions) -> None:
    """The history of one table."""
    from firn.journal.writer.federation.federation import check_known

    history: Sequence[CommitInfo] = table.history()
    writer, at = asked.writer, asked.at
    if table.context.definition.journal == "writer":
        known = database.writers()
        for each in known:
            if each.health != "ok":
                output.warn(
                    f"the writer {each.name} is left out beyond revision {each.revision}: {each.detail}"
                )
        if writer is not None:
            check_known([writer], [each.name for each in known], database.url)
            history = [c for c in history if _place(c.version)[0] == writer]
        if at is not None:
            heads = dict(map(_place, table.snapshot(at).version.split(",")))
            history = [c for c in history if _place(c.version)[1] <= heads.get(_place(c.version)[0], 0)]
    else:
        if writer is not None:
            raise InvalidInputError(f"{table.name} has one log and no writers: leave --writer out.")
        if at is not None:
            until = table.snapshot(at)
            history = [c for c in history if c.time.timestamp() * 1000 <= until.time_ms]
    history = newest(history, asked.limit)
    if asked.json:
        output.document(
            {"table": table.name, "history": [{**output.plain(c), "inlined": c.inlined} for c in history]}
        )
        return
    lines = [_commit_line(c) for c in history]
    console = output.stdout()
    if console.is_terminal and console.width < LOG_WIDTH:
        _print_narrow(lines, console.width)
        return
    heads_line = ["time (UTC)", "what", "files", "rows", "size", "version", ""]
    output.table(heads_line, lines, right=(2, 3, 4))


def _print_narrow(lines: Sequence[Sequence[str]], width: int) -> None:
    """Commits on several lines each: a version broken into lines couldn't be copied, so it has one of its own."""
    for time, what, files, rows, size, version, more in lines:
        if width >= NARROW:
            output.line(f"{time}  {what:<9}  {files:>13}  {rows:>11}  {size:>9}".rstrip())
        else:
            output.line(f"{time}  {what}")
            output.line("  " + "  ".join(filter(None, (files, rows, size))))
        both = "  ".join(filter(None, (version, more)))
        for rest in [both] if len(both) + 2 <= width else filter(None, (version, more)):
            output.note(f"  {rest}", answer=True)


def _place(version: str) -> tuple[str, int]:
    """The writer and the revision in a version like `host-17=12`."""
    writer, _, revision = version.rpartition("=")
    return writer, int(revision or 0)


def _commit_line(c: CommitInfo) -> tuple[str, ...]:
    return (
        time_text(c.time),
        c.op,
        f"+{c.files_added:,} -{c.files_removed:,}",
        "" if c.rows_added is None else f"+{c.rows_added:,}",
        output.size(c.bytes_added) if c.files_added or c.inlined else "",
        c.version,
        detail(c.summary),
    )


def time_text(time: Any) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03d}"


def detail(summary: Mapping[str, Any]) -> str:
    """The parts of a commit's summary for people: predicates, and what a sweep deleted."""
    from firn.journal.model import SUMMARY_TEXTS

    shown = []
    for name, value in summary.items():
        if name == "statement":
            shown.append(str(value))
        elif name in SUMMARY_TEXTS:
            shown.append(f"{name} {value}")
        elif name in ("data_files", "logs", "orphans") and value:
            shown.append(output.counted(value, name.replace("_", " ")))
        elif name == "bytes":
            shown.append(output.size(value))
    return ", ".join(shown)
