"""Commands that keep keyed tables in shape, and copies of them: compact, checkpoint, clone, sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from firn.cli.call import KeyedCall, on_table, sweep_line
from firn.cli.keyed.group import keyed
from firn.cli.keyed.text import one_of
from firn.cli.options import argument, flag, option
from firn.cli.terminal import output, waiting
from firn.errors import InvalidInputError, NotFoundError
from firn.inspect.dump.decoded import moment

if TYPE_CHECKING:
    from firn.journal.manifest.model import CollectReport
    from firn.keyed.maintain.checkpoints import Checkpoint
    from firn.keyed.maintain.compaction import CompactionReport


@on_table(keyed, "keyed", "dry_run")
def compact(
    call: KeyedCall,
    full: Annotated[
        bool, flag("Everything into one sorted run, not only what the policy asks for.", "--full")
    ] = False,
) -> None:
    """Merge flushes and files into larger ones. The table's writer goes on meanwhile; another compactor is fenced.

    firn keyed compact ./prod/delays
    """
    with call.progress("compacting"):
        report = call.table.compact(full=full, dry_run=call.dry_run)
    amplified = round(report.write_amplification, 3)
    call.answer(report, compact_line(call.name, report), write_amplification=amplified)


def compact_line(name: str, report: CompactionReport) -> str:
    """Say in one line what a compaction did."""
    inputs = [
        output.plural(count, noun)
        for count, noun in ((report.l0_files, "flush"), (report.ssts_in, "SST"))
        if count
    ]
    if not inputs:
        return f"compact: nothing to do in {name}"
    verb = "would begin with" if report.dry_run else "merged"
    line = f"compact of {name} {verb} {' and '.join(inputs)}, {output.size(report.bytes_in)}"
    if report.dry_run:
        return line
    return (
        f"{line} into {output.plural(report.ssts_out, 'SST')}, {output.size(report.bytes_out)}: "
        f"{'1 entry' if report.rows_in == 1 else f'{report.rows_in:,} entries'} became {report.rows_out:,}"
    )


@on_table(keyed, "keyed")
def checkpoint(
    call: KeyedCall,
    name: Annotated[
        str | None, argument("[NAME]", "A name for it; checkpoints are listed without one.")
    ] = None,
    ttl: Annotated[
        str | None, option("TIME", "How long it stays, like 10m or 7d; else until it is deleted.")
    ] = None,
    refresh: Annotated[
        bool, flag("Let the checkpoint NAME (or id) stay for --ttl from now on.", "--refresh")
    ] = False,
    delete: Annotated[bool, flag("Delete the checkpoint NAME (or id).", "--delete")] = False,
) -> None:
    """Keep a keyed table as it is now readable under a name; without one, list what is kept.

    firn keyed checkpoint ./prod/delays before-import --ttl 7d
    """
    one_of([("--refresh", refresh), ("--delete", delete)])
    one_of([("--delete", delete), ("--ttl", ttl is not None)])
    if name is None and (refresh or delete or ttl is not None):
        raise InvalidInputError("name the checkpoint.")
    if name is None:
        _list(call.name, call.table.checkpoints(), call.json)
        return
    if not refresh and not delete:
        made, verb = call.table.checkpoint(name, ttl), "made"
    else:
        made, verb = _chosen(call.table.checkpoints(), name, call.name), "deleted" if delete else "refreshed"
        if delete:
            made.delete()
        else:
            made = made.refresh(ttl)
    until = "" if delete else f", kept {_until(made)}"
    line = f"checkpoint {made.name or made.id} of {call.name} {verb}: {made.version}{until}"
    call.say({"done": verb, **_plain(made)}, line)


def _chosen(found: list[Checkpoint], name: str, table: str) -> Checkpoint:
    chosen = [c for c in found if name in (c.name, c.id)]
    if not chosen:
        known = ", ".join(c.name or c.id for c in found) or "none"
        raise NotFoundError(f"{table} has no checkpoint {name!r}; there are: {known}.")
    if len(chosen) > 1:
        ids = ", ".join(c.id for c in chosen)
        raise InvalidInputError(f"{table} has {len(chosen)} checkpoints {name!r}: give an id, one of {ids}.")
    return chosen[0]


def _list(table: str, found: list[Checkpoint], json: bool) -> None:
    if json:
        output.document({"table": table, "checkpoints": [_plain(c) for c in found]})
    elif found:
        output.table(
            ["name", "id", "version", "kept"], [[c.name or "", c.id, c.version, _until(c)] for c in found]
        )
    else:
        output.note(f"{table} has no checkpoints.")


def _plain(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "name": checkpoint.name,
        "id": checkpoint.id,
        "version": checkpoint.version,
        "expires_ms": checkpoint.expires_ms,
    }


def _until(checkpoint: Checkpoint) -> str:
    ends = checkpoint.expires_ms
    return "until it is deleted" if ends is None else f"until {moment(ends)}"


@on_table(keyed, "keyed")
def clone(
    call: KeyedCall,
    name: Annotated[str, argument("NAME", "The new table's, in the same database.")],
    at: Annotated[str | None, option("CHECKPOINT", "As it was at a checkpoint; else as it is.")] = None,
) -> None:
    """Create a table that begins as another is, without copying its data. Each goes on by itself from there.

    firn keyed clone ./prod/delays what_if --at before-import
    """
    made = call.table.clone(name, at)
    if call.json:
        output.document({"table": made.name, "parent": call.name, "at": at, **call.meter.plain()})
    else:
        output.line(f"cloned {call.name} as {made.name} in {call.database.url}")
        call.meter.note()


@on_table(keyed, "keyed", "dry_run")
def sweep(
    call: KeyedCall,
    older_than: Annotated[
        str | None,
        option(
            "AGE",
            "Compacted flushes older than that; the table's, 10m. Less is your word that nobody writes.",
        ),
    ] = None,
) -> None:
    """Delete what neither the table nor a checkpoint of it names any more.

    firn keyed sweep ./prod/delays --dry-run
    """
    with waiting.spinner(f"sweeping {call.name}"):
        report = call.table.sweep(older_than=older_than, dry_run=call.dry_run)
    counts = (
        (report.l0, "flush"),
        (report.fences, "fence"),
        (report.ssts, "SST"),
        (report.manifests, "manifest"),
        (report.snapshots, "checkpoint"),
    )
    line = sweep_line(call.name, counts, report.bytes, dry_run=report.dry_run)
    call.answer(report, line, lambda: _tell_keys(call.name, report))


def _tell_keys(name: str, report: CollectReport) -> None:
    if report.dry_run:
        output.keys(report.deleted)
    for key in report.dangling:
        output.warn(
            f"{key} is a checkpoint that nobody can read: something that it names is gone. What it keeps goes "
            f"with `firn keyed checkpoint {name} {key.rpartition('.')[2]} --delete`."
        )
