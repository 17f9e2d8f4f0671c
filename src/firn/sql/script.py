"""Statements one after another, with transactions between BEGIN and COMMIT: what `firn sql` runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import pairwise
from typing import Any, Protocol

from firn.errors import InvalidInputError, UnsupportedError
from firn.predicate.parameters import names_in
from firn.predicate.words import WordReader, statements
from firn.sql.outcome import Outcome
from firn.sql.result import Result
from firn.sql.syntax.time_travel import Parameters


class SqlTransactions(Protocol):
    """What a script needs of a database; `firn.Database` is one."""

    def table(self, name: str) -> Any: ...

    def tables(self) -> list[str]: ...

    @property
    def sql(self) -> Callable[..., Result]: ...

    def begin(self) -> AbstractContextManager[Any]: ...

    def writer_transaction(self) -> AbstractContextManager[Any]: ...


class SqlScript:
    """Runs statements, in a transaction from BEGIN until COMMIT or ROLLBACK.

    The first table after BEGIN that has transactions decides which one it is: over record tables, or, where rows of a
    writer's catalog are changed, over tables of that. Statements on other tables only read. After an error the block
    is rolled back.

    As a context manager it rolls back at its end what wasn't committed.
    """

    def __init__(self, database: SqlTransactions) -> None:
        self._database = database
        self._block: ExitStack | None = None
        self._transaction: Any = None

    @property
    def in_block(self) -> bool:
        """Whether a BEGIN waits for its COMMIT."""
        return self._block is not None

    def sql(
        self,
        query: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        tables: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Result:
        """As `Database.sql`, and BEGIN, COMMIT and ROLLBACK.

        Raises:
            UnsupportedError: besides, an option that a transaction's statements don't take.
        """
        reader = WordReader(query)
        head = reader.peek()
        if head in _MARKS:
            return self._mark(reader, _MARKS[head])
        if self._block is None:
            return self._database.sql(query, parameters, tables=tables, **options)
        try:
            if options.get("engine") == "spark":
                raise UnsupportedError("a transaction runs in this process, and not on Spark.")
            if self._transaction is None:
                self._transaction = self._begun(query, parameters)
            if self._transaction is None:
                return self._database.sql(query, parameters, tables=tables, **options)
            _check_options(options)
            found: Result = self._transaction.sql(query, parameters, tables=tables)
            return found
        except BaseException:
            self._end(commit=False)
            raise

    def _mark(self, reader: WordReader, op: str) -> Result:
        reader.take(reader.peek())
        reader.take("TRANSACTION") or reader.take("WORK")
        reader.end()
        if op == "begin":
            if self._block is not None:
                raise InvalidInputError("BEGIN: there is a transaction already. COMMIT or ROLLBACK ends it.")
            self._block = ExitStack()
        elif self._block is None:
            raise InvalidInputError(f"{op.upper()}: there is no transaction. BEGIN starts one.")
        else:
            self._end(commit=op == "commit")
        return Result(Outcome(op).rows(), _no_session)

    def _end(self, *, commit: bool) -> None:
        block, self._block, self._transaction = self._block, None, None
        if block is None:
            return
        if commit:
            block.close()
        else:
            block.__exit__(_RolledBack, _RolledBack(), None)

    def _begun(self, query: str, parameters: Parameters) -> Any:
        """The transaction that the statement calls for; None where it only reads tables that have none."""
        from firn.sql.blocks import transaction_for

        assert self._block is not None
        verb = transaction_for(self._database, query, parameters)
        return None if verb is None else self._block.enter_context(getattr(self._database, verb)())

    def __enter__(self) -> SqlScript:
        return self

    def __exit__(self, *error: object) -> None:
        self._end(commit=False)


def run_script(
    database: SqlTransactions,
    text: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    on_spark: bool = False,
    **options: Any,
) -> Iterator[Result]:
    """The answers of statements with `;` between, one after another; each takes the parameters that it names:
    `$name`, and `:name` where queries run on Spark.

    Raises:
        InvalidInputError: there is no statement; a parameter that none names; a BEGIN without COMMIT.
    """
    found = list(statements(text))
    if not found:
        raise InvalidInputError("there is no statement: write one, like SELECT * FROM flights.")
    given = {} if parameters is None else parameters
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            "a script has several statements: give its parameters by name, {'n': 1} for $n."
        )

    def named(part: str) -> set[str]:
        return names_in(part) | (_colons(part) if on_spark and given else set())

    if unused := [name for name in given if name not in named(text)]:
        raise InvalidInputError(f"no statement has ${unused[0]}.")
    with SqlScript(database) as script:
        for one in found:
            used = {name: given[name] for name in named(one) if name in given}
            yield script.sql(one, used or None, **options)
        if script.in_block:
            raise InvalidInputError(
                "the script ends in a transaction, which is rolled back: COMMIT is missing."
            )


def _colons(text: str) -> set[str]:
    """The names of Spark's parameters in a text."""
    from firn.sql.on_spark import spark_words  # which few scripts need

    each = spark_words(text)
    return {b.text for a, b in pairwise(each) if a.text == ":" and a.end == b.start}


def run_to_last(
    database: SqlTransactions, text: str, parameters: Mapping[str, Any] | None = None, **options: Any
) -> Result:
    """The last answer of a script. The queries before it run, too, as an error in one ends the script; their rows are
    dropped.

    Raises:
        InvalidInputError: as of `run_script`.
    """
    left = sum(1 for _ in statements(text))
    last: Result | None = None
    for last in run_script(database, text, parameters, **options):
        left -= 1
        if left:
            for _ in last.to_batches():
                pass
    assert last is not None
    return last


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuse what `Database.sql` takes and a transaction's `sql` doesn't. `fence` is harmless: a transaction changes
    no keyed table."""
    for name in ("in_process", "verify"):
        if (given := options.get(name)) is not None and given is not False:
            raise UnsupportedError(
                f"{name}={given!r}: statements of a transaction don't take it. Run the transaction without it."
            )


class _RolledBack(Exception):
    """Ends a transaction without a commit."""


def _no_session() -> Any:
    raise UnsupportedError("a transaction's answer isn't for Spark.")


_MARKS = {
    "BEGIN": "begin",
    "START": "begin",
    "COMMIT": "commit",
    "END": "commit",
    "ROLLBACK": "rollback",
    "ABORT": "rollback",
}
