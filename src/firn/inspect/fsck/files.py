"""Whether data files are there, as large as the journal says, and end in the footers that were written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from firn.alter import RESERVED
from firn.bucket.base import Bucket, ObjectInfo
from firn.errors import CorruptObjectError, ObjectNotFoundError, UnsupportedError
from firn.inspect.fsck.findings import Finding, Findings
from firn.journal.entries import DROP, INTO, NAME, TYPE, Entries
from firn.journal.model import DataFile
from firn.lake.parquet.footer import read_footer
from firn.names import fold

THREADS = 16

T = TypeVar("T")

GONE = "Copy it back from a backup or an older version of the object; until then reads that need it fail"
LOST = f"{GONE}. Or let it go, with its rows: `firn forget-files TABLE PATH`"


@dataclass(frozen=True)
class Expected:
    """A data file that should be there. `why` completes "it is …"; only `live` ones are looked into. `columns` are
    folded names of those that it may have, in files; None if nobody can tell."""

    file: DataFile
    why: str
    live: bool = True
    columns: frozenset[str] | None = None


def check_files(
    bucket: Bucket,
    expected: Sequence[Expected],
    listed: Mapping[str, ObjectInfo],
    found: Findings,
    *,
    footers: bool = True,
) -> None:
    """Compare files with a LIST that was made after the journal was read.

    Cost: 1 HEAD for each that isn't among the `listed`; with `footers` 1 or 2 ranged GETs for each that is live.
    """
    found.count("data files", len(expected))
    check_each(lambda each: _check(bucket, each, listed, footers), expected, found)


def check_each(check: Callable[[T], Iterable[Finding]], things: Sequence[T], found: Findings) -> None:
    """Add the findings of a check of each of many things, several at a time."""
    with ThreadPoolExecutor(THREADS, thread_name_prefix="firn-fsck") as pool:
        for findings in pool.map(lambda each: list(check(each)), things):
            found.add(*findings)


def altered_columns(entries: Entries) -> frozenset[str]:
    """Folded names in files of the columns that entries of a definition are about."""
    return frozenset(fold(name) for kind, name in entries.map if kind in (NAME, DROP, TYPE, INTO))


def _unknown(where: str, expected: Expected, schema: pa.Schema) -> Iterable[Finding]:
    """The columns of a file that no definition knows: nobody sees their values."""
    if expected.columns is None:
        return
    known = expected.columns | {fold(own) for own in (expected.file.cols or {}).values()}
    for column in schema:
        name = column.name
        # A column of nothing but nulls has no type, and is no column yet.
        if fold(name) in known or fold(name).startswith(RESERVED) or pa.types.is_null(column.type):
            continue
        remedy = (
            "Read them from the file itself, which is Parquet"
            if "~" in name
            else f"alter(add={{{name!r}: TYPE}}), with their type, shows them again"
        )
        yield Finding(
            where, f"it has a column {name!r} that no definition knows: nobody sees its values", remedy
        )


def _check(
    bucket: Bucket, expected: Expected, listed: Mapping[str, ObjectInfo], footers: bool
) -> Iterable[Finding]:
    file = expected.file
    where = bucket.uri(file.path)
    remedy = LOST if expected.live else GONE
    try:
        info = listed.get(file.path) or bucket.head(file.path)
        if info.size != file.size:
            yield Finding(
                where,
                f"it has {info.size:,} bytes, the journal says {file.size:,}; it is {expected.why}",
                remedy,
            )
        elif footers and expected.live:
            footer = read_footer(bucket, file.path, file.size, crc=(file.extra or {}).get("crc"))
            yield from _unknown(where, expected, footer.metadata.schema.to_arrow_schema())
    except ObjectNotFoundError:
        yield Finding(where, f"it is missing, and {expected.why}", remedy)
    except (CorruptObjectError, UnsupportedError) as error:
        what = str(error).removeprefix(where).partition(". ")[0].strip()
        yield Finding(where, f"{what}; it is {expected.why}", remedy)
