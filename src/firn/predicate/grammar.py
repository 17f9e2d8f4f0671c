"""DuckDB's grammar as users may write it, by sqlglot: what `dialect` parses with."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokens import TokenType


class FirnSQL(DuckDB):  # type: ignore[misc]
    """DuckDB's dialect, reading backticks as well as double quotes.

    The parser is sqlglot's own: where sqlglot is compiled, nothing can be derived from it.
    """

    class Tokenizer(DuckDB.Tokenizer):  # type: ignore[misc]
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012


_STATEMENT_TEXT = """
ALTER ANALYZE ATTACH BEGIN CACHE CALL COMMENT COMMIT COPY DELETE DESCRIBE DETACH DROP EXECUTE EXPLAIN FETCH FORCE
GRANT INSERT INSTALL KILL LOAD MERGE OPTIMIZE PARTITIONED_BY PRAGMA PREPARE RENAME RESET REVOKE ROLLBACK SET SHOW
SUMMARIZE TRUNCATE UNCACHE UPDATE USE VACUUM
"""
_STATEMENT_WORDS = frozenset(_STATEMENT_TEXT.split())


class ExpressionSQL(FirnSQL):
    """The same for expressions, in which words that begin a statement are names of columns."""

    class Tokenizer(FirnSQL.Tokenizer):
        KEYWORDS = {  # noqa: RUF012
            word: kind for word, kind in FirnSQL.Tokenizer.KEYWORDS.items() if word not in _STATEMENT_WORDS
        }
        COMMANDS: set[TokenType] = set()  # noqa: RUF012 (what follows one of them would be one text)


@contextmanager
def quiet() -> Iterator[None]:
    """Let sqlglot log nothing in this thread: it would log a text that it takes for another program's command."""
    _silent.on = True
    try:
        yield
    finally:
        _silent.on = False


_silent = threading.local()
logging.getLogger("sqlglot").addFilter(lambda record: not getattr(_silent, "on", False))
