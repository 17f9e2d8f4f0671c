"""What a statement may take and reach: bytes that it reads, memory, a directory to spill into, files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from firn.bucket.base import Bucket
from firn.errors import QueryTooLargeError
from firn.predicate.pushdown import argument
from firn.predicate.select import shown
from firn.predicate.trees import exp
from firn.units import parse_size, size_text

if TYPE_CHECKING:
    from firn.sql.files.allowed import AllowedFiles
    from firn.sql.files.spill import SpillDirectory
    from firn.sql.relation import Relation

Watch = Callable[[Callable[[], float] | None], None]

IN_PROCESS_LOCAL = "64GB"
IN_PROCESS_REMOTE = "8GB"


@dataclass(frozen=True)
class QueryLimits:
    """What one statement may take in this process, and reach, whether it looks twice, and who watches it.

    Attributes:
        in_process: bytes that it may read; None for any number.
        spill: where it puts rows that don't fit into memory; None to fail instead.
        files: gives the files outside of the database that COPY may reach; None for none.
        verify: whether Firn reads all Parquet files, and so compares the checksums of footers.
        watch: is given a function that tells how many percent of a query are done, -1 for unknown, when it begins,
            and None when it ends.
    """

    in_process: int | None = None
    spill: SpillDirectory | None = None
    files: Callable[[], AllowedFiles] | None = None
    verify: bool = False
    watch: Watch | None = None

    @staticmethod
    def of(
        bucket: Bucket,
        in_process: int | None = None,
        spill: str | os.PathLike[str] | None = None,
        files: Callable[[], AllowedFiles] | None = None,
        owner: object = None,
    ) -> QueryLimits:
        """The limits of a connection, whose engines are the `owner`."""
        remote = bucket.capabilities.shareable and bucket.local_path("_firn") is None
        if in_process is None:
            in_process = parse_size(IN_PROCESS_REMOTE if remote else IN_PROCESS_LOCAL)
        if spill is None:
            return QueryLimits(in_process, None, files)
        from firn.sql.files.spill import SpillDirectory  # which few connections need

        return QueryLimits(in_process, SpillDirectory(spill, owner), files)

    def check(
        self,
        text: str,
        relations: Mapping[str, Relation],
        tree: Callable[[], exp.Expression | None],
    ) -> None:
        """Refuse a query that would read too much. One that ends after some rows as they come isn't that.

        Args:
            tree: gives what runs.

        Raises:
            QueryTooLargeError: see there; the message says how many bytes, and what leaves some out.
        """
        if self.in_process is None:
            return
        total = sum(relation.bytes for relation in relations.values())
        if total <= self.in_process or _ends_early(tree()):
            return
        largest = max(relations, key=lambda name: relations[name].bytes)
        fields = ", ".join(relations[largest].partitioned_by)
        raise QueryTooLargeError(
            f"the query {shown(text)} would read about {size_text(total)} in this process, most of it of {largest}; "
            f"in_process allows {size_text(self.in_process)}. A condition{f' on {fields}' if fields else ''} that "
            "leaves files out makes it less, and so do fewer columns; else give a larger in_process, or "
            'engine="spark".'
        )

    def out_of_memory(self, text: str) -> QueryTooLargeError:
        """For a query that DuckDB gave up."""
        known = f"the query {shown(text)} needs more than the {size_text(memory_limit())} of memory that it may have"
        if self.spill is None:
            return QueryTooLargeError(f'{known}: connect with spill="a directory", or use engine="spark".')
        return QueryTooLargeError(f'{known}, and more than {self.spill.path()} holds: use engine="spark".')


def memory_limit() -> int:
    """Bytes that a query may take: 60 % of what this process may have."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return total * 6 // 10


def threads() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _ends_early(tree: exp.Expression | None) -> bool:
    """Whether a query of one table stops when it has as many rows as it may give, or only counts all rows."""
    ends = False
    while isinstance(tree, exp.Select):
        columns = [column.unalias() for column in tree.expressions]
        counts = [isinstance(one, exp.Count) and isinstance(one.this, exp.Star) for one in columns] == [True]
        computes = any(one.find(exp.AggFunc, exp.Window, exp.Query, exp.Anonymous) for one in columns)
        if (computes and not counts) or any(argument(tree, part) for part in _READ_ALL):
            return False
        ends = ends or counts or argument(tree, "limit") is not None
        source = argument(tree, "from")
        tree = source.this.this if source is not None and isinstance(source.this, exp.Subquery) else None
    return ends


_READ_ALL = ("where", "group", "having", "qualify", "distinct", "order", "joins", "windows", "with")
"""Parts of a SELECT for which DuckDB may read all rows."""
