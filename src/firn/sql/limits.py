"""What a statement may take and reach: bytes that it reads, memory, a directory to spill into, files."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from firn.bucket.base import Bucket
from firn.concurrency.at_exit import unclosed
from firn.concurrency.once import Once
from firn.errors import InvalidInputError, QueryTooLargeError
from firn.predicate.pushdown import argument
from firn.predicate.select import shown
from firn.sql.allowed_files import AllowedFiles
from firn.units import Size, parse_size, size_text

if TYPE_CHECKING:
    from firn.sql.relation import Relation

IN_PROCESS_LOCAL = "64GB"
IN_PROCESS_REMOTE = "8GB"


class SpillDirectory:
    """A directory of this connection's own below `parent`, of mode 0700, for rows that don't fit into memory. It is
    made when a query first needs it, and removed by `close`, or with the process. A killed process leaves it.

    Args:
        owner: the connection's engines, which close it.

    Raises:
        InvalidInputError: `parent` is no directory, and can't become one; when it is first needed.
    """

    def __init__(self, parent: str | os.PathLike[str], owner: object = None) -> None:
        self._parent, self.owner = Path(parent).expanduser().absolute(), owner
        self._made = Once(self._make)
        self._removal: weakref.finalize[..., SpillDirectory] | None = None
        unclosed.add(self)

    def path(self) -> str:
        return self._made()

    def close(self) -> None:
        if self._removal is not None:
            self._removal()

    _close_at_exit = close

    def _orphaned(self) -> None:
        """In a fork: the directory is its parent's."""
        if self._removal is not None:
            self._removal.detach()
        self._made = Once(self._make)

    def _make(self) -> str:
        try:
            self._parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = tempfile.mkdtemp(prefix="firn-", dir=self._parent)
        except OSError as error:
            reason = error.strerror or error
            raise InvalidInputError(f"nothing can be spilled to {self._parent}: {reason}.") from None
        self._removal = weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        return path


@dataclass(frozen=True)
class QueryLimits:
    """What one statement may take in this process, and reach.

    Attributes:
        in_process: bytes that it may read; None for any number.
        spill: where it puts rows that don't fit into memory; None to fail instead.
        files: the files outside of the database that COPY may reach.
    """

    in_process: int | None = None
    spill: SpillDirectory | None = None
    files: AllowedFiles = field(default_factory=AllowedFiles)

    @staticmethod
    def of(
        bucket: Bucket,
        in_process: Size | None = None,
        spill: str | os.PathLike[str] | None = None,
        files: AllowedFiles | None = None,
        owner: object = None,
    ) -> QueryLimits:
        """The limits of a connection."""
        remote = bucket.capabilities.shareable and bucket.local_path("_firn") is None
        asked = in_process if in_process is not None else IN_PROCESS_REMOTE if remote else IN_PROCESS_LOCAL
        return QueryLimits(
            parse_size(asked),
            None if spill is None else SpillDirectory(spill, owner),
            files or AllowedFiles(),
        )

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
