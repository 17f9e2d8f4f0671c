"""Write docs/reference from signatures and docstrings.

    python scripts/write_reference.py

Griffe reads the source of the library; the command line is asked for its commands. A test compares the pages,
so that they are never stale.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs/reference"

PAGES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "database": (
        "Databases",
        (
            "firn.database.database.connect",
            "firn.database.database.Database",
            "firn.lake.results.DropReport",
            "firn.sql.result.Result",
            "firn.sql.outcome.Outcome",
            "firn.database.copies.CopyReport",
            "firn.journal.writer.federation.federation.WriterInfo",
            "firn.journal.writer.maintain.prune.PruneReport",
            "firn.journal.writer.rebuild.rebuild.RebuildReport",
            "firn.journal.writer.unclaimed.repair.RepairReport",
        ),
    ),
    "table": (
        "Tables and scans",
        (
            "firn.lake.table.LakeTable",
            "firn.lake.read.scan.Scan",
            "firn.alter.AlterResult",
            "firn.lake.results.AppendResult",
            "firn.lake.appender.appender.Appender",
            "firn.lake.results.AppenderStats",
            "firn.lake.aio.AsyncLakeTable",
            "firn.lake.appender.aio.AsyncAppender",
            "firn.lake.results.ChangeResult",
            "firn.lake.maintain.matching.clauses.MergeClause",
            "firn.lake.results.ForgetResult",
            "firn.lake.results.LostFile",
            "firn.lake.results.MendReport",
            "firn.lake.results.Partition",
            "firn.journal.model.Snapshot",
            "firn.journal.model.DataFile",
            "firn.journal.model.CommitInfo",
            "firn.journal.model.SweepReport",
            "firn.keeping.KeepReport",
        ),
    ),
    "keyed": (
        "Keyed tables",
        (
            "firn.keyed.table.KeyedTable",
            "firn.keyed.write.writer.KeyedWriter",
            "firn.keyed.write.batch.WriteBatch",
            "firn.keyed.read.reads.Reads",
            "firn.keyed.read.reader.KeyedReader",
            "firn.keyed.read.reads.KeyedScan",
            "firn.keyed.table.AsyncKeyedTable",
            "firn.keyed.aio.AsyncKeyedWriter",
            "firn.keyed.aio.AsyncKeyedReader",
            "firn.keyed.maintain.checkpoints.Checkpoint",
            "firn.keyed.read.changes.Changes",
            "firn.keyed.maintain.compaction.CompactionReport",
            "firn.keyed.results.LoadReport",
            "firn.journal.manifest.model.CollectReport",
            "firn.keyed.definition.sizing.Workload",
            "firn.keyed.definition.sizing.SizeRow",
            "firn.keyed.definition.sizing.sizing",
        ),
    ),
    "records": (
        "Record tables",
        (
            "firn.records.table.RecordTable",
            "firn.records.write.transaction.Transaction",
            "firn.database.sql_transaction.SqlTransaction",
            "firn.records.write.writes.Savepoint",
            "firn.records.read.rows.Rows",
            "firn.records.documents.documents.Record",
            "firn.records.read.changes.RecordChanges",
            "firn.records.read.changes.Change",
            "firn.records.definition.definition.Index",
            "firn.records.maintain.indexes.IndexInfo",
            "firn.records.load.load.RecordLoadReport",
            "firn.records.maintain.collection.RecordSweepReport",
            "firn.records.maintain.repair.RowRepairReport",
            "firn.records.documents.predicates.Contains",
            "firn.records.documents.predicates.Prefix",
            "firn.records.documents.predicates.Range",
            "firn.records.row_tables.RowTable",
            "firn.records.aio.AsyncTransactions",
            "firn.records.aio.AsyncTransaction",
            "firn.database.aio.AsyncDatabase",
            "firn.database.aio.AsyncSqlTransaction",
            "firn.database.aio.AsyncResult",
            "firn.records.table.AsyncRecordTable",
            "firn.records.read.changes.AsyncChanges",
            "firn.records.row_tables.AsyncRowTable",
        ),
    ),
    "engines": (
        "Locks and runners",
        (
            "firn.journal.lock.ExclusiveLock",
            "firn.journal.lock.FileLock",
            "firn.runner.Runner",
            "firn.runner.LocalRunner",
        ),
    ),
    "errors": ("Errors", ("firn.errors",)),
    "testing": ("Testing programs that share a bucket", ("firn.testing",)),
}
"""Page → title and what stands on it; a package stands for all of its `__all__`, a module for its classes."""

PARTS = frozenset(
    (
        "firn.database.upkeep.WriterUpkeep",
        "firn.database.transactions.Transactions",
        "firn.concurrency.aio.AsyncVerbs",
        "firn.concurrency.aio.AsyncTableVerbs",
        "firn.keyed.context.KeyedContext",
        "firn.keyed.aio._AsyncHandle",
    )
)
"""Classes that are parts of another one on a page, and have no entry of their own."""

_SECTION = re.compile(r"(Args|Raises|Example|Cost):(.*)")
_TITLES = {"Args": "Arguments"}
_ENTRY = re.compile(r"(\*{0,2}\w+): (.*)")


def pages() -> dict[str, str]:
    """File name → text of all pages."""
    package = griffe.load("firn", search_paths=[ROOT / "src"])
    written = {f"{name}.md": _page(package, title, paths) for name, (title, paths) in PAGES.items()}
    index = ["# Reference", "", "Made from the docstrings by `make docs`.", ""]
    for name, (title, paths) in PAGES.items():
        names = ", ".join(f"`{thing.name}`" for path in paths for thing in _things(package, path))
        index.append(f"- [{title}]({name}.md): {names}")
    commands = _commands()
    written["cli.md"] = _command_line(commands)
    index.append(f"- [The command line](cli.md): {', '.join(f'`firn {name}`' for name in commands)}")
    written["README.md"] = "\n".join(index) + "\n"
    return written


def _things(package: griffe.Object, path: str) -> Iterator[griffe.Object]:
    found = _resolve(package[path.removeprefix("firn.")])
    if isinstance(found, griffe.Module):
        own = [name for name, each in found.members.items() if not each.is_alias and name[0] != "_"]
        for name in sorted(map(str, found.exports)) if found.exports else own:
            thing = _resolve(found[name])
            if isinstance(thing, (griffe.Class, griffe.Function)):
                yield thing
    else:
        yield found


def _resolve(found: griffe.Object | griffe.Alias) -> griffe.Object:
    return found.final_target if isinstance(found, griffe.Alias) else found


def _page(package: griffe.Object, title: str, paths: Iterable[str]) -> str:
    lines = [f"# {title}", ""]
    for path in paths:
        found = _resolve(package[path.removeprefix("firn.")])
        if isinstance(found, griffe.Module) and found.docstring is not None:
            lines += [*_docstring(found.docstring.value), ""]
        for thing in _things(package, path):
            lines += _entry(thing, "##")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def _entry(thing: griffe.Object, heading: str, of: griffe.Class | None = None) -> list[str]:
    lines = [f"{heading} {_title(thing, of)}", ""]
    if isinstance(thing, griffe.Class):
        if thing.bases and not _hidden_base(thing):
            lines += ["Bases: " + ", ".join(f"`{base}`" for base in thing.bases), ""]
        if parameters := _parameters(thing):
            lines += ["```text", *_signature(thing.name, parameters, ""), "```", ""]
    elif isinstance(thing, griffe.Function):
        returns = f" -> {thing.returns}" if thing.returns is not None else ""
        parameters = [p for p in thing.parameters if p.name not in ("self", "cls")]
        lines += ["```text", *_signature(thing.name, parameters, returns), "```", ""]
    if (docstring := _docstring_of(thing)) is not None:
        lines += [*_docstring(docstring.value), ""]
    if isinstance(thing, griffe.Class):
        if awaits := _awaited(thing):
            twin, names = awaits[0][0], ", ".join(f"`{name}`" for _, name in awaits)
            lines += [f"Awaits verbs of `{twin}`, with their arguments, errors and cost: {names}.", ""]
        for name, member in _members(thing).items():
            if not name.startswith("_") and not member.is_alias and _docstring_of(member) is not None:
                lines += _entry(_resolve(member), heading + "#", of=thing)
    return lines


def _docstring_of(thing: griffe.Object | griffe.Alias) -> griffe.Docstring | None:
    """Its own, or that of the function which `@documented(module.function)` names beside it."""
    if thing.docstring is None and isinstance(thing, griffe.Function):
        for decorator in thing.decorators:
            if found := re.fullmatch(r"documented\((?:(\w+)\.)?(\w+)\)", str(decorator.value)):
                module = _resolve(thing.module[found[1]]) if found[1] else thing.module
                return _resolve(module[found[2]]).docstring
    return thing.docstring


def _awaited(thing: griffe.Class) -> list[tuple[str, str]]:
    """The verbs that it has of another class, or of a base of that: `get = awaited(RecordTable.get)`."""
    values = (
        str(member.value) for member in _members(thing).values() if isinstance(member, griffe.Attribute)
    )
    return [
        (found[1], found[2]) for value in values if (found := re.fullmatch(r"awaited\((\w+)\.(\w+)\)", value))
    ]


def _hidden_base(thing: griffe.Class) -> griffe.Class | None:
    """A base that users never meet: its members stand where the class's own do."""
    bases = [base for base in thing.resolved_bases if base.path in PARTS]
    return bases[0] if bases else None


def _members(thing: griffe.Class) -> Mapping[str, griffe.Object | griffe.Alias]:
    base = _hidden_base(thing)
    return {**thing.members, **(_members(base) if base else {}), **thing.members}


def _title(thing: griffe.Object, of: griffe.Class | None) -> str:
    return f"{of.name}.{thing.name}" if of is not None else thing.name


def _parameters(thing: griffe.Class) -> list[griffe.Parameter]:
    if "protocol" in " ".join(map(str, thing.bases)).lower():
        return []
    if not (maker := thing.members.get("__init__")) or not isinstance(maker, griffe.Function):
        maker = None
        if _hidden_base(thing):
            return []
    return [p for p in (maker.parameters if maker else thing.parameters) if p.name != "self"]


def _signature(name: str, parameters: Iterable[griffe.Parameter], returns: str) -> list[str]:
    """On one line if it fits, else one line a parameter."""
    shown: list[str] = []
    starred = False
    for each in parameters:
        kind = each.kind or griffe.ParameterKind.positional_or_keyword
        text = each.name
        if kind is griffe.ParameterKind.var_positional:
            text, starred = f"*{text}", True
        elif kind is griffe.ParameterKind.var_keyword:
            text = f"**{text}"
        elif kind is griffe.ParameterKind.keyword_only and not starred:
            shown.append("*")
            starred = True
        if each.annotation is not None:
            text += f": {each.annotation}"
        if each.default is not None and not kind.name.startswith("var_"):
            text += f" = {each.default}" if each.annotation is not None else f"={each.default}"
        shown.append(text)
    line = f"{name}({', '.join(shown)}){returns}"
    if len(line) <= 100:
        return [line]
    return [f"{name}(", *(f"    {text}," for text in shown), f"){returns}"]


def _docstring(text: str) -> list[str]:
    """A docstring as Markdown: sections become headings in bold, entries lists, examples and drawings blocks."""
    lines: list[str] = []
    section = ""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        first, *rest = paragraph.split("\n")
        found = _SECTION.fullmatch(first.strip())
        indented = first.startswith("    ")
        if found:
            section = found[1]
            lines.append(f"**{_TITLES.get(section, section)}:**{found[2]}")
            lines += _body(section, rest)
        elif indented:
            lines += _body(section if section == "Example" else "Example", paragraph.split("\n"))
        elif first.startswith(">>>"):
            lines += ["```python", *paragraph.split("\n"), "```"]
        else:
            section = ""
            lines += paragraph.split("\n")
        lines.append("")
    return lines[:-1]


def _body(section: str, rest: list[str]) -> list[str]:
    if not rest:
        return []
    indent = min(len(line) - len(line.lstrip()) for line in rest if line.strip())
    rest = [line[indent:] for line in rest]
    if section == "Example":
        language = "python" if rest[0].startswith(">>>") else "text"
        return ["", f"```{language}", *rest, "```"]
    if section in ("Args", "Raises"):
        entries = []
        for line in rest:
            entry = _ENTRY.fullmatch(line)
            entries.append(f"- `{entry[1]}`: {entry[2]}" if entry else f"  {line.strip()}")
        return ["", *entries]
    return rest


def _commands() -> dict[str, Any]:
    import typer

    from firn.cli.app import app
    from firn.cli.commands import register

    register()
    group: Any = typer.main.get_command(app)
    return dict(_flat(group.commands))


def _flat(commands: Mapping[str, Any], of: str = "") -> Iterator[tuple[str, Any]]:
    """Commands by their whole names, single ones first; those of a group below its name."""
    groups = {name: each for name, each in commands.items() if hasattr(each, "commands")}
    yield from ((of + name, each) for name, each in commands.items() if name not in groups)
    for name, each in groups.items():
        yield from _flat(each.commands, f"{of}{name} ")


def _command_line(commands: Mapping[str, Any]) -> str:
    from firn.cli.terminal.exits import EXIT_CODES

    lines = ["# The command line", "", "`firn COMMAND --help` shows the same.", ""]
    for name, command in commands.items():
        words = " ".join(p.metavar or p.name.upper() for p in command.params if p.opts[0][0] != "-")
        lines += [f"## firn {name}", "", "```text", f"firn {name} [OPTIONS] {words}".rstrip(), "```", ""]
        for paragraph in (command.help or "").split("\n\n"):
            example = paragraph.startswith(("firn ", "echo "))
            lines += ["```text", paragraph, "```", ""] if example else [paragraph, ""]
        lines += ["| | |", "| --- | --- |"]
        lines += [f"| {_parameter(each)} | {_cell(each.help)} |" for each in command.params]
        lines.append("")
    lines += ["## Exit codes", "", "| code | meaning |", "| --- | --- |"]
    lines += [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES]
    return "\n".join(lines) + "\n"


def _parameter(each: Any) -> str:
    if each.opts[0][0] != "-":
        return f"`{_cell(each.metavar or each.name.upper())}`"
    value = "" if each.is_flag else f" {each.metavar or each.name.upper()}"
    names = f"`{_cell(', '.join(each.opts) + value)}`"
    return names + (f" (or the variable `{each.envvar}`)" if each.envvar else "")


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|")


def main() -> None:
    written = pages()
    REFERENCE.mkdir(exist_ok=True)
    for name, text in written.items():
        (REFERENCE / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
