"""What EXPLAIN says before the engine's plan: which engine and why, and what is read of each table."""

from __future__ import annotations

from collections.abc import Mapping

from firn.lake.plan.read import LakeRead
from firn.reads import TableRead
from firn.units import size_text


def preamble(engine: str, why: str, whole: Mapping[str, TableRead], kept: Mapping[str, TableRead]) -> str:
    """Lines about the engine, and about each table: its version, of a lake table the files that are read and those
    there are, and what its reads leave out.

    Args:
        why: who chose the engine.
        whole: the tables at their versions, by the names that the query gives them.
        kept: the same, less what the query doesn't need.
    """
    lines = [f"engine {engine}: {why}"]
    for name, read in whole.items():
        version = f" at {read.version}" if read.version else ""
        lines.append(f"{name}{version}: {_shares(read, kept.get(name, read))}")
        lines += [f"  warning: {text}" for text in read.warnings]
    return "\n".join(lines) + "\n\n"


def warnings_of(reads: Mapping[str, TableRead]) -> tuple[str, ...]:
    """What the reads leave out, or show aside, with the tables' names."""
    return tuple(dict.fromkeys(f"{read.table}: {text}" for read in reads.values() for text in read.warnings))


def _shares(whole: TableRead, kept: TableRead) -> str:
    if not (isinstance(whole, LakeRead) and isinstance(kept, LakeRead)):
        return f"{whole.kind} table"
    files = kept.files if kept.keys is None else [file for group in kept.groups() for file in group.files]
    total = sum(file.size for file in whole.files)
    size = sum(file.size for file in files)
    return f"{len(files):,} of {len(whole.files):,} files, {size_text(size)} of {size_text(total)}"
