"""Queries: the SELECT that `append`, `merge` and `rewrite` run over rows at hand, checked before it runs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from firn.errors import InvalidInputError, UnsupportedError
from firn.names import fold
from firn.predicate.dialect import function_names, parse, readable_depth, to_duckdb
from firn.predicate.trees import exp

_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(select|with|from)\b", re.IGNORECASE | re.DOTALL)

# Scalars with effects, or with knowledge of the machine that runs them.
_OUTSIDE = frozenset(["getenv", "sleep_ms", "write_log", "setseed", "nextval", "setval", "currval"])


@dataclass(frozen=True)
class Query:
    """One SELECT whose only table is `source`. `sql` is DuckDB's text; `ast` isn't to be changed."""

    sql: str
    source: str
    ast: exp.Expression = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.sql, self.source)

    @staticmethod
    def looks_like(text: str) -> bool:
        """Whether a text is meant as a query rather than as an expression.

        >>> Query.looks_like("SELECT 1"), Query.looks_like("origin = 'DTW'")
        (True, False)
        """
        return _FIRST_WORD.match(text) is not None

    @staticmethod
    def parse(text: str, source: str) -> Query:
        """Parse and check a query in DuckDB's dialect.

        Args:
            text: one SELECT (or SELECTs joined by UNION and the like), with CTEs if it likes.
            source: the name by which it reads the rows: ``_rows`` or ``source_files``.

        Raises:
            InvalidInputError: the text doesn't parse, isn't a query, never reads `source`, or reads another
                table, a file or a table function.

        Example:
            >>> Query.parse("SELECT a, count(*) AS n FROM _rows GROUP BY a", "_rows").sql
            'SELECT "a", COUNT(*) AS "n" FROM "_rows" GROUP BY "a"'
        """
        where = f"the query {text!r}"
        with readable_depth("query", text):
            tree = parse(text, "query") if Query.looks_like(text) or not text.strip() else None
            if not isinstance(tree, exp.Query):
                raise InvalidInputError(f"{where} isn't a SELECT; write SELECT … FROM {source}.")
            _check(tree, where, source)
            return Query(to_duckdb(tree), source, tree)

    def check_row_by_row(self) -> None:
        """Refuse what looks at more than one row, as far as the text tells: such a query has another result over
        some of the rows. A plain aggregate shows by the row that it gives of no rows.

        Raises `UnsupportedError` that names the part.

        Example:
            >>> Query.parse("SELECT a + 1 AS a FROM _rows WHERE b", "_rows").check_row_by_row()
            >>> Query.parse("SELECT DISTINCT a FROM _rows", "_rows").check_row_by_row()
            Traceback (most recent call last):
            firn.errors.UnsupportedError: the query 'SELECT DISTINCT "a" FROM "_rows"' has DISTINCT, and a Spark ...
        """
        if not isinstance(self.ast, exp.Select):
            raise UnsupportedError(whole_rows(self.sql, self.ast.key.upper()))
        for name, value in self.ast.args.items():
            if value and name not in _ROW_BY_ROW:
                raise UnsupportedError(whole_rows(self.sql, name.strip("_").upper()))
        for node in self.ast.walk():
            if isinstance(node, (exp.Window, exp.Subquery)) or (
                isinstance(node, exp.Query) and node is not self.ast
            ):
                raise UnsupportedError(whole_rows(self.sql, f"a {node.key}"))
            if isinstance(node, exp.Table) and any(
                value and name not in ("this", "alias") for name, value in node.args.items()
            ):
                raise UnsupportedError(whole_rows(self.sql, "a sample or pivot"))


_ROW_BY_ROW = frozenset(("expressions", "from", "from_", "where", "kind"))
"""The parts of a SELECT that ask one row at a time."""


def whole_rows(query: str, part: str) -> str:
    """Why a query can't be computed in Spark's tasks, and what to do."""
    return (
        f"the query {query!r} has {part}, and a Spark DataFrame's rows are queried one by one, in tasks: do that "
        "part by the DataFrame's own methods before the append."
    )


def _restored(sql: str, source: str) -> Query:
    return Query(sql, source, parse(sql, "query"))


def _check(tree: exp.Expression, where: str, source: str) -> None:
    names = {fold(source)}
    for cte in tree.find_all(exp.CTE):
        if not isinstance(cte.this, exp.Query):
            raise InvalidInputError(f"{where} has the CTE {cte.alias!r}, which isn't a SELECT.")
        if fold(cte.alias) == fold(source):
            raise InvalidInputError(
                f"{where} names a CTE {source!r}, which hides the rows; call it otherwise."
            )
        names.add(fold(cte.alias))
    reads = False
    for node in tree.walk():
        if isinstance(node, (exp.Into, exp.DML, exp.DDL, exp.Command)) and not isinstance(node, exp.Query):
            raise InvalidInputError(f"{where} does more than select: {node.sql('duckdb')!r}.")
        if function_names(node) & _OUTSIDE:
            raise InvalidInputError(f"{where} calls {node.sql('duckdb')}, which reaches outside of the rows.")
        if not isinstance(node, exp.Table):
            continue
        if not isinstance(node.this, exp.Identifier):
            raise InvalidInputError(
                f"{where} reads the table function {node.this.sql('duckdb')}; it may read {source} alone."
            )
        if node.args.get("db") or node.args.get("catalog") or fold(node.name) not in names:
            raise InvalidInputError(
                f"{where} reads {node.sql('duckdb', comments=False)!r}; the only table there is {source}."
            )
        reads = reads or fold(node.name) == fold(source)
    if not reads:
        raise InvalidInputError(f"{where} never reads {source}; write SELECT … FROM {source}.")
