"""The interactive shell of `firn sql`: statements until ';', words that begin with a backslash, and a history."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from firn.cli.sql.answers import Format, FormatName, print_answer
from firn.cli.terminal import output, waiting
from firn.errors import FirnError, InvalidInputError
from firn.names import fold
from firn.predicate.words import WordReader, statements, words
from firn.sql.script import SqlScript

if TYPE_CHECKING:
    from firn.database.database import Database, Engine

HELP = r"""\d [TABLE]      the tables, or a table's columns     \timing   how long statements take
\engine NAME    duckdb or spark                      \fence    let statements take keyed tables over
\format NAME    table, json or csv                   \q        leave; so does Ctrl-D
A statement ends with ';'. Ctrl-C interrupts it."""

_SECRET = re.compile("password|secret|token", re.IGNORECASE)

_WORDS = """
SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT JOIN LEFT USING ON AS DISTINCT UNION ALL WITH VALUES INSERT INTO UPDATE
SET DELETE MERGE MATCHED THEN NOT CREATE TABLE PARTITIONED SORTED PRIMARY KEY DROP TRUNCATE DESCRIBE SUMMARIZE SHOW
TABLES EXPLAIN ANALYZE CALL OVERWRITE CONFLICT NOTHING ALTER RESET COPY TO BEGIN COMMIT ROLLBACK AT VERSION TIMESTAMP
RENAME ADD COLUMN COLUMNS TYPE DATA DEFAULT IF EXISTS COMMENT IS NULL CONSTRAINT CHECK TBLPROPERTIES UNSET
"""


class Prompt:
    """Reads statements and prints answers until the end of input.

    Args:
        read: gives the next line after a prompt; raises `EOFError` at the end.
    """

    def __init__(
        self,
        database: Database,
        chosen: Format,
        *,
        engine: Engine | None = None,
        fence: bool = False,
        read: Callable[[str], str] = input,
    ) -> None:
        self._database, self._format, self._engine, self._fence = database, chosen, engine, fence
        self._read, self._timing = read, False
        self._script = SqlScript(database)
        self._known: list[str] | None = None
        self._fitting: list[str] = []

    def run(self) -> None:
        with self._script:
            self._follow()

    def _follow(self) -> None:
        output.note(f"{self._database.url}: a statement ends with ';', \\? lists more, \\q leaves.")
        self._remember()
        text = ""
        while True:
            try:
                first = "firn*> " if self._script.in_block else "firn> "
                line = self._read(first if not text else "  ... ")
            except EOFError:
                return
            except KeyboardInterrupt:
                text = ""
                output.line("")
                continue
            if not text and line.strip().startswith("\\"):
                if self._tell(line.strip()):
                    return
                continue
            text = f"{text}\n{line}" if text else line
            if not text.strip():
                text = ""
            elif self._is_whole(text):
                self._answer(text)
                text = ""

    def _is_whole(self, text: str) -> bool:
        """Whether a statement has come to its ';', or can't be read at all, as running it will say."""
        try:
            each = words(text)
        except FirnError:
            return True
        return bool(each) and each[-1].text == ";"

    def _answer(self, text: str) -> None:
        began = time.monotonic()
        in_block = self._script.in_block
        try:
            for one in statements(text):
                if WordReader(one).peek() == "DROP" and not self._is_sure(one):
                    continue
                with waiting.working(self._database) as answered:
                    result = self._script.sql(one, engine=self._engine, fence=self._fence)
                    print_answer(result, self._format, answered)
        except (FirnError, KeyboardInterrupt) as error:
            output.error(str(error) or "interrupted")
            if in_block and not self._script.in_block:
                output.error("the transaction is rolled back")
        except Exception as error:
            if os.environ.get("FIRN_TRACEBACK"):
                raise
            output.error(f"unexpected {type(error).__name__}: {error} (FIRN_TRACEBACK=1 shows where)")
        if self._timing:
            output.note(f"{time.monotonic() - began:.3f} s")

    def _is_sure(self, statement: str) -> bool:
        with suppress(EOFError, KeyboardInterrupt):
            said = self._read(f"{' '.join(statement.split())}: it is gone at once and for good. Sure? [y/N] ")
            return said.strip() in ("y", "Y", "yes")
        return False

    def _tell(self, line: str) -> bool:
        """Follow a word with a backslash; True ends the shell."""
        word, _, rest = line.partition(" ")
        rest = rest.strip().rstrip(";")
        try:
            if word == "\\q":
                return True
            if word in ("\\d", "\\dt"):
                query = f"DESCRIBE {rest}" if rest else "SHOW TABLES"
                print_answer(self._database.sql(query), self._format)
            elif word == "\\timing":
                self._timing = not self._timing
                output.line(f"timing is {'on' if self._timing else 'off'}")
            elif word == "\\fence":
                self._fence = not self._fence
                output.line(f"fence is {'on' if self._fence else 'off'}")
            elif word == "\\engine" and rest in ("duckdb", "spark"):
                self._engine = "spark" if rest == "spark" else "duckdb"
            elif word == "\\format" and rest in ("table", "json", "csv"):
                self._format = replace(self._format, name=cast("FormatName", rest))
            elif word == "\\?":
                output.line(HELP)
            else:
                raise InvalidInputError(f"{line!r} isn't known here; \\? lists what is.")
        except FirnError as error:
            output.error(str(error))
        return False

    def _remember(self) -> None:
        """Line editing, a history of its own, and completion, where Python has readline."""
        if self._read is not input or not sys.stdin.isatty():
            return
        try:
            import readline
        except ImportError:
            return
        import atexit

        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "firn"
        history = state / "history"
        with suppress(OSError):
            state.mkdir(mode=0o700, parents=True, exist_ok=True)
            history.touch(mode=0o600)
            readline.read_history_file(history)

        def keep() -> None:
            for at in reversed(range(readline.get_current_history_length())):
                if _SECRET.search(readline.get_history_item(at + 1) or ""):
                    readline.remove_history_item(at)
            with suppress(OSError):
                readline.write_history_file(history)

        atexit.register(keep)
        readline.set_completer(self.complete)
        readline.parse_and_bind("tab: complete")

    def complete(self, text: str, number: int) -> str | None:
        """The name that `text` may begin, of several the one with this number: words, tables, columns."""
        if number == 0:
            known = [*_WORDS.split(), *self._names()]
            fits = [name for name in known if text and fold(name).startswith(fold(text))]
            self._fitting = [fold(name) if text.islower() and name.isupper() else name for name in fits]
        return self._fitting[number] if number < len(self._fitting) else None

    def _names(self) -> list[str]:
        """Tables and their columns, read once."""
        if self._known is None:
            self._known = []
            with suppress(FirnError):
                for table in self._database.tables():
                    self._known.append(table)
                    with suppress(FirnError):
                        described = self._database.sql(f'DESCRIBE "{table}"')
                        self._known += [row["column_name"] for row in described]
        return self._known
