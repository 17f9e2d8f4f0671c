"""Commands that read keyed tables: get, scan, manifest, changes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firn.cli.call import KeyedCall, on_table
from firn.cli.keyed.group import AtView, Hex, keyed
from firn.cli.keyed.text import Words, one_of
from firn.cli.options import argument, flag, option
from firn.cli.target import Csv, Limit
from firn.cli.terminal import output
from firn.cli.terminal.exits import NOT_FOUND
from firn.errors import AccessDeniedError, InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

    from firn.journal.manifest.model import View
    from firn.keyed.encoding.keys import Keys
    from firn.keyed.read.reads import KeyedScan


@on_table(keyed, "keyed")
def get(
    call: KeyedCall,
    keys: Annotated[list[str], argument("KEY...", "Text, a number, …; of several columns a JSON array.")],
    at: AtView = None,
    hex: Hex = False,
    raw: Annotated[bool, flag("The value's bytes as they are, and no newline.", "--raw")] = False,
) -> None:
    """Print the values of keys. Exits with 3 if one of them isn't there.

    firn keyed get ./prod/delays DTW
    """
    one_of([("--raw", raw), ("--json", call.json), ("--hex", hex)])
    one_of([("--raw", raw), ("several keys", len(keys) > 1)])
    words = Words.of(call.table, hex=hex)
    with call.table.reader(at, follow=None) as reader:
        values = reader.multi_get([words.key(key) for key in keys])
        version = reader.version
    missing = [key for key, value in zip(keys, values, strict=True) if value is None]
    if call.json:
        found = [
            {"key": words.plain_key(words.key(key)), "found": value is not None, "value": words.plain(value)}
            for key, value in zip(keys, values, strict=True)
        ]
        output.document({"table": call.name, "version": version, "values": found, **call.meter.plain()})
    elif raw and not missing:
        value = values[0]
        sys.stdout.flush()
        sys.stdout.buffer.write(value if isinstance(value, bytes) else output.encode(value))
    else:
        for key, value in zip(keys, values, strict=True):
            if value is not None:
                output.line(words.shown(value) if len(keys) == 1 else f"{key}  {words.shown(value)}")
    if missing:
        if not call.json:
            output.error(f"{call.name} has no key {', '.join(missing)}.")
        raise typer.Exit(NOT_FOUND)


@on_table(keyed, "keyed")
def scan(
    call: KeyedCall,
    start: Annotated[str | None, option("KEY", "From this key on.")] = None,
    end: Annotated[str | None, option("KEY", "Up to, and without, this key.")] = None,
    prefix: Annotated[str | None, option("PREFIX", "Keys that begin with this.")] = None,
    reverse: Annotated[bool, flag("The greatest keys first.", "--reverse")] = False,
    at: AtView = None,
    limit: Limit = None,
    count: Annotated[bool, flag("Only count the keys.", "--count")] = False,
    hex: Hex = False,
    csv: Csv = False,
) -> None:
    """Print a range of keys with their values, in the order of the keys.

    firn keyed scan ./prod/delays --start A --end C
    """
    one_of([("--csv", csv), ("--json", call.json)])
    one_of([("--prefix", prefix is not None), ("--start or --end", start is not None or end is not None)])
    words = Words.of(call.table, hex=hex)
    with call.table.reader(at, follow=None) as reader:
        if prefix is not None:
            found = reader.scan_prefix(words.prefix(prefix), reverse=reverse)
        else:
            first, last = (None if word is None else words.bound(word) for word in (start, end))
            found = reader.scan(first, last, reverse=reverse)
        if count:
            rows = sum(batch.num_rows for batch in found.to_batches())
            call.say({"version": reader.version, "rows": rows}, str(rows))
            return
        schema, batches = _readable(found, words)
        output.print_rows(schema, batches, json=call.json, as_csv=csv, limit=limit)


def _readable(found: KeyedScan, words: Words) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """A scan's columns and batches, with bytes as words."""
    batches = words.batches(found.to_batches())
    first = next(batches, None)
    if first is None:
        return words.schema(found.schema), iter(())
    return first.schema, chain([first], batches)


@on_table(keyed, "keyed")
def manifest(
    call: KeyedCall,
    at: AtView = None,
    files: Annotated[bool, flag("Every SST and L0 object, not only their sums.", "--files")] = False,
    hex: Hex = False,
) -> None:
    """Print what a keyed table is made of: its writers, compactors, levels and files.

    firn keyed manifest ./prod/delays
    """
    from firn.keyed.read.runs import runs_of

    view = call.table.view(at)
    if call.json:
        output.document({"table": call.name, **view_plain(view)})
        return
    pointer, settled = view.pointer, view.manifest
    writer = pointer.infos[-1] if pointer.infos else None
    compacted = "none" if settled.last_compacted < 0 else f"up to {settled.last_compacted:,}"
    for title, value in (
        ("version", view.version),
        (
            "writer",
            "none yet"
            if writer is None
            else f"epoch {writer.writer_epoch}, from flush {writer.starting_sst:,} on",
        ),
        ("compactor", f"epoch {pointer.compactor_epoch}" if pointer.compactor_epoch else "none yet"),
        ("manifest", f"{settled.name}, read from {output.plural(len(settled.chain), 'object')}"),
        ("compacted flushes", compacted),
        ("flushes since", f"{len(view.l0):,}, {output.size(sum(f.bytes for f in view.l0))}"),
    ):
        output.line(f"{title:<18} {value}")
    runs = runs_of(settled.ssts)
    if runs:
        output.line("")
        output.table(
            ["level", "run", "SSTs", "entries", "deletes", "size", "first key", "last key"],
            [
                [
                    ssts[0].level,
                    ssts[0].run,
                    output.number(len(ssts)),
                    output.number(sum(s.rows for s in ssts)),
                    output.number(sum(s.tombstones for s in ssts)),
                    output.size(sum(s.bytes for s in ssts)),
                    _edge(call.table.keys, ssts[0].min_key, hex=hex),
                    _edge(call.table.keys, ssts[-1].max_key, hex=hex),
                ]
                for ssts in runs
            ],
            right=range(6),
        )
    if files and (view.l0 or settled.ssts):
        output.line("")
        output.table(
            ["file", "size", "entries"],
            [
                *([f.key, output.size(f.bytes), None] for f in view.l0),
                *([s.file, output.size(s.bytes), output.number(s.rows)] for s in settled.ssts),
            ],
            right=(1, 2),
        )


def view_plain(view: View) -> Mapping[str, Any]:
    """A view as JSON holds it; keys, which are encoded, in hexadecimal."""
    pointer, settled = view.pointer, view.manifest
    return {
        "version": view.version,
        "manifest": settled.name,
        "chain": list(settled.chain),
        "last_compacted": settled.last_compacted,
        "compactor_epoch": pointer.compactor_epoch,
        "writers": [{"writer_epoch": i.writer_epoch, "starting_sst": i.starting_sst} for i in pointer.infos],
        "l0": [output.plain(file) for file in view.l0],
        "ssts": [
            {**output.plain(sst), "min_key": sst.min_key.hex(), "max_key": sst.max_key.hex()}
            for sst in settled.ssts
        ],
    }


def _edge(keys: Keys, key: bytes, *, hex: bool) -> str:
    """A key for people: its columns' values; bytes as text if they are some, else in hexadecimal. With `hex`, bytes
    are hexadecimal digits, all of them."""
    if not keys.typed and not hex:
        short = key[:24]
        text = short.decode("utf-8", "replace")
        shown = text if text.isprintable() and "\ufffd" not in text else short.hex()
        return shown + ("…" if len(key) > len(short) else "")
    found = keys.decode(key)
    if hex:
        found = [_digits(value) for value in found] if isinstance(found, tuple) else _digits(found)
    return found if isinstance(found, str) else output.encode(found).decode()


def _digits(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


@on_table(keyed, "keyed")
def changes(
    call: KeyedCall,
    since: Annotated[
        str | None, option("VERSION", "After this version; else all that the table holds.")
    ] = None,
    upto: Annotated[str | None, option("VERSION", "Up to, and with, this version.")] = None,
    state: Annotated[
        Path | None,
        option("FILE", "After the version in this file, if it is there; what is printed last goes into it."),
    ] = None,
    limit: Limit = None,
    hex: Hex = False,
    csv: Csv = False,
) -> None:
    """Print what was put, merged and deleted, commit by commit. The version where that ends goes to standard error.

    firn keyed changes ./prod/delays --state delays.version --json >> changes.jsonl
    """
    one_of([("--csv", csv), ("--json", call.json)])
    one_of([("--state", state is not None), ("--since", since is not None)])
    one_of([("--state", state is not None), ("--limit", limit is not None)])
    found = call.table.changes(_kept(state) if state is not None else since, upto)
    words = Words.of(call.table, hex=hex)
    schema, batches = words.schema(found.schema), words.batches(found.to_batches())
    output.print_rows(schema, batches, json=call.json, as_csv=csv, limit=limit)
    if state is not None:
        _keep(state, found.version)
    if limit is None:
        output.note(f"version {found.version}")


def _kept(state: Path) -> str | None:
    """The version in a file; None where there is no file yet."""
    try:
        return state.read_text().strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{state} can't be read: {error}. Give --state another file.") from error


def _keep(state: Path, version: str) -> None:
    """Replaced at once: whoever is interrupted finds the old version, and is told the same again."""
    fresh = state.with_name(state.name + ".new")
    try:
        fresh.write_text(version + "\n")
        fresh.replace(state)
    except OSError as error:
        raise AccessDeniedError(
            f"{state} can't be written: {error}. What was printed ends at {version}: go on with --since."
        ) from error
