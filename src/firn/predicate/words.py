"""The words of a statement, one after another: what heads of statements are read with.

DuckDB's own tokenizer finds them, so comments, quotes and dollar quotes end where they end for the engine. A word
that no reader asks for is an error with line and column: nothing is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb

from firn.errors import InvalidInputError, TableNotFoundError
from firn.names import fold
from firn.predicate.select import SCHEMAS, shown

_OPEN, _CLOSE = "([{", ")]}"

_BARE = re.compile(r"[^\W\d][\w$]*")


@dataclass(frozen=True)
class Word:
    """A token: its text as written, and where it begins and ends in the statement, in characters."""

    text: str
    start: int
    end: int

    @property
    def key(self) -> str:
        """A bare word in capitals; of all else the text as written."""
        return self.text.upper() if _BARE.fullmatch(self.text) else self.text


def words(text: str) -> list[Word]:
    """The words of a text, comments left out."""
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        said = shown(text).encode(errors="replace").decode()
        raise InvalidInputError(f"the statement {said} isn't Unicode: {error.reason}.") from None
    tokens = duckdb.tokenize(text)
    ends = [*(start for start, _ in tokens[1:]), *[len(data)] * bool(tokens)]
    found = []
    at = used = 0  # characters, and the bytes that they take
    for (start, kind), end in zip(tokens, ends, strict=True):
        at += len(data[used:start].decode())
        used = start
        if kind != duckdb.token_type.comment:
            word = data[start:end].decode().rstrip()
            found.append(Word(word, at, at + len(word)))
    return found


def statements(text: str) -> Iterator[str]:
    """The statements of a script: what stands between semicolons, less what has no words. Each begins as far down
    and right as it does in the script, so that errors name the script's lines and columns."""
    start = 0
    each = words(text)
    for number, word in enumerate([*each, Word(";", len(text), len(text))]):
        if word.text == ";":
            first = next((other.start for other in each[:number] if other.start >= start), None)
            if first is not None:
                yield re.sub(r"[^\n]", " ", text[:first]) + text[first : word.start]
            start = word.end


def outline_of(text: str, each: Sequence[Word] | None = None, quote: str = '"') -> str:
    """A statement with `?` for each value, its comments left out: a log may keep it for ever, and the rows not.

    Only names, in the engine's `quote` or bare, and signs are kept. A list of values is as long as one of two.

    >>> outline_of("DELETE FROM t WHERE email IN ('ann@example.com', 'bob')  -- on request")
    'DELETE FROM t WHERE email IN (?, …)'
    """
    pieces: list[str] = []
    end = 0
    for word in words(text) if each is None else each:
        kept = word.text[0] == quote or _BARE.fullmatch(word.text) or not _HAS_VALUE.search(word.text)
        follows_value = pieces[-1:] == ["?"] and word.start == end
        if follows_value and (word.text[0].isalnum() or word.text[0] == "'"):
            end = word.end  # as 0 and xFF of 0xFF
            continue
        pieces += [" "] * bool(pieces and word.start > end) + [word.text if kept else "?"]
        end = word.end
    found = "".join(pieces)
    for pattern in (_VALUES, _VALUE_ROWS):
        found = pattern.sub(r"\1, …", found)
    return found if len(found) <= MAX_OUTLINE else found[: MAX_OUTLINE - 1] + "…"


_HAS_VALUE = re.compile(r"[\w'\"`]")
_VALUES = re.compile(r"(\?)(?:, ?\?)+")
_VALUE_ROWS = re.compile(r"(\([?, …]+\))(?:, ?\([?, …]+\))+")

MAX_OUTLINE = 2000
"""Characters of a statement that a log keeps."""


class WordReader:
    """Reads one statement from its beginning; `each` are its words if it `is_foreign`: not DuckDB's SQL."""

    def __init__(self, text: str, each: Sequence[Word] | None = None) -> None:
        self.text, self.is_foreign = text, each is not None
        self._words = list(words(text) if each is None else each)
        while self._words and self._words[-1].text == ";":
            self._words.pop()
        self._at = 0

    @property
    def words(self) -> Sequence[Word]:
        """All words of the statement."""
        return self._words

    @property
    def at(self) -> int:
        """How many words were read."""
        return self._at

    def go(self, at: int) -> None:
        """Go on behind the first `at` words."""
        self._at = at

    def since(self, at: int) -> str:
        """The text of the words since the first `at` of them, as written."""
        return self.text[self._words[at].start : self._words[self._at - 1].end]

    @property
    def ended(self) -> bool:
        return self._at >= len(self._words)

    def peek(self, ahead: int = 0) -> str:
        """The key of a word that comes; empty behind the end."""
        at = self._at + ahead
        return self._words[at].key if at < len(self._words) else ""

    def take(self, *keys: str) -> bool:
        """Go past these words if they come next."""
        if any(self.peek(ahead) != key for ahead, key in enumerate(keys)):
            return False
        self._at += len(keys)
        return True

    def expect(self, *keys: str) -> None:
        if not self.take(*keys):
            raise self.error(f"{' '.join(keys)} should stand here")

    def end(self) -> None:
        """Nothing may follow."""
        if not self.ended:
            raise self.error("the statement should end here")

    def name(self) -> str:
        """An identifier, bare or quoted."""
        text = self._words[self._at].text if not self.ended else ""
        quote = text[:1]
        if quote in ('"', "`") and text[-1:] == quote and len(text) > 2:
            self._at += 1
            return text[1:-1].replace(quote * 2, quote)
        if _BARE.fullmatch(text):
            self._at += 1
            return text
        raise self.error("a name should stand here")

    def table(self) -> str:
        """A table's name; `main.t` and `firn.t` mean t."""
        name = self.name()
        if self.take("."):
            schema, name = name, self.name()
            if fold(schema) not in SCHEMAS or self.peek() == ".":
                raise TableNotFoundError(
                    f"the statement {shown(self.text)} names the table {name!r} of {schema!r}; name a table of this "
                    "database, without a schema."
                )
        return name

    def alias(self, *stops: str) -> str | None:
        """The other name of a table that may follow it; `stops` are words that it can't be without AS."""
        if self.take("AS"):
            return self.name()
        return None if self.ended or self.peek() in (*stops, "AT", "(", ",", ".", "=") else self.name()

    def string(self) -> str:
        """A text in quotes."""
        text = self._words[self._at].text if not self.ended else ""
        if text[:1] != "'" or text[-1:] != "'" or len(text) < 2:
            raise self.error("a text in single quotes should stand here")
        self._at += 1
        return text[1:-1].replace("''", "'")

    def span(self, *stops: str) -> str:
        """The text until one of these words, outside of brackets and of CASE … END, or until the end."""
        first, depth = self._at, 0
        while not self.ended:
            key = self.peek()
            if not depth and (key in stops or key in tuple(_CLOSE)):
                break
            depth += (key in tuple(_OPEN)) + (key == "CASE") - (key in tuple(_CLOSE))
            depth -= key == "END" and depth > 0
            self._at += 1
        if self._at == first:
            raise self.error("an expression should stand here")
        if depth:
            raise self.error("a bracket is still open")
        return self.since(first)

    def spans(self) -> list[str]:
        """The texts between the commas of a bracket."""
        self.expect("(")
        found = [self.span(",")]
        while self.take(","):
            found.append(self.span(","))
        self.expect(")")
        return found

    def names(self) -> list[str]:
        """The names in a bracket."""
        self.expect("(")
        found = [self.name()]
        while self.take(","):
            found.append(self.name())
        self.expect(")")
        return found

    def inside(self) -> str:
        """The text in a bracket."""
        self.expect("(")
        found = self.span()
        self.expect(")")
        return found

    def rest(self) -> str:
        """The text until the end."""
        return self.span()

    def place(self, at: int | None = None) -> str:
        """Where the word behind the first `at` stands, by default that which comes next: `line 1, column 8`."""
        at = self._at if at is None else at
        if at >= len(self._words):
            return "at its end"
        before = self.text[: self._words[at].start]
        return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"

    def error(self, reason: str) -> InvalidInputError:
        said = f"the statement {shown(self.text)} isn't SQL that Firn reads: {reason}"
        if self.ended:
            return InvalidInputError(f"{said}, at its end.")
        return InvalidInputError(f"{said}, and not {self._words[self._at].text!r} ({self.place()}).")
