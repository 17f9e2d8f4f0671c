"""The table of advice: what error messages tell users to do, done.

Each entry is a test in `tests/unit/test_advice_<room>.py`, those that need Spark in `tests/spark`. It provokes the
error, follows the advice as the message words it, and shows that things work afterwards:

    def test_a_table_that_is_there_is_opened():
        with advises("Open it with db.table(", names="flights"):
            db.create_table("flights")
        assert db.table("flights").name == "flights"

`advises` takes a piece of the message as the source has it, without any `{…}` in it. So an entry *claims* all
messages of `src/firn` that have the piece. `tests/unit/advice/test_advice.py` looks for messages that no entry
claims.

A message names a remedy, by rule, if it is a literal and
(1) it has a command in backticks, like `firn log`, or a call, like `merge()` or `db.table({})`; or
(2) its error means that something is stuck (`STUCK`), and a clause of it begins with one of `IMPERATIVES`.
"""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import firn
from cli_runs import Run, done

SOURCE = Path(firn.__file__).parent
ENTRIES = Path(__file__).parents[1]

STUCK = frozenset({"CorruptObjectError", "SnapshotTooOldError", "SchemaConflictError", "ForkError"})
IMPERATIVES = (
    "append|ask|call|cast|choose|close|collect|compact|copy|correct|create|declare|delete|drop|fetch|forget|get|give|"
    "install|leave|look|make|merge|move|name|open|overwrite|pass|poll|prune|put|raise|read|rebuild|remove|rename|"
    "repair|resolve|restore|retry|rewrite|run|say|set|settle|start|stop|sweep|take|try|upgrade|use|write"
)

_COMMAND = re.compile(r"`firn [a-z]|(?<![\w.])[a-z_]+(?:\.[a-z_]+)*\([^)]*(?:\)|$)")
_CLAUSE = re.compile(rf"[.:;,] (?:or |and |then )?(?:{IMPERATIVES})\b", re.IGNORECASE)
_NO_VERBS = re.compile(r"\b(?:month|bucket|truncate|day|DECIMAL|VARCHAR|STRUCT)\(")


@dataclass
class Advice:
    """What a message said, once it was raised."""

    text: str = ""

    @property
    def commands(self) -> list[str]:
        """The commands in backticks."""
        return re.findall(r"`(firn [^`]+)`", self.text)

    def after(self, words: str) -> str:
        """The text in quotes that stands behind some words of the message, like `rewrite(`."""
        found = re.search(re.escape(words) + r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", self.text)
        assert found is not None, (words, self.text)
        return str(ast.literal_eval(found[1]))

    def follow(self, index: int = 0, *more: object, **words: object) -> Run:
        """Run a command that the message names; `words` stand for its words in capitals, like `ID`, and `more` is
        what every such command takes: the table's or the database's URL, options of the store."""
        arguments = shlex.split(self.commands[index])[1:]
        return done(*(words.get(word, word) for word in arguments), *more)


@contextmanager
def advises(
    piece: str,
    *,
    names: str | Sequence[str],
    kind: type[Exception] = firn.FirnError,
) -> Iterator[Advice]:
    """The body raises an error, or warns, with `piece` in its message and the objects that it `names`."""
    advice = Advice()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            yield advice
        except kind as error:
            advice.text = str(error)
        else:
            said = [str(w.message) for w in warned if issubclass(w.category, firn.DegradedReadWarning)]
            advice.text = next((text for text in said if piece in text), "")
            if not advice.text:
                pytest.fail(f"no error, and no warning, that says: {piece}")
    assert piece in advice.text, advice.text
    for name in [names] if isinstance(names, str) else names:
        assert name in advice.text, (name, advice.text)


@dataclass(frozen=True)
class Message:
    """A message of the source, of an error of this name."""

    place: str
    error: str
    text: str


def remedies() -> list[Message]:
    """The messages that name a remedy, by the rule above."""
    return [message for message in messages() if _is_remedy(message)]


@cache
def messages() -> list[Message]:
    """All messages of errors and of degraded reads that are literals."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if place.startswith("testing/"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            arguments = node.args
            if name == "Envelopes":  # the remedies of damaged objects, by kind
                name, arguments = (
                    "CorruptObjectError",
                    [v for a in arguments if isinstance(a, ast.Dict) for v in a.values],
                )
            if not name.endswith("Error") and name != "warn_degraded":
                continue
            for argument in arguments:
                text = _text(argument)
                if text is not None:
                    found.append(Message(f"{place}:{node.lineno}", name, text))
    return found


@cache
def claims() -> dict[str, set[str]]:
    """The pieces that entries give to `advises`, and the files that have them."""
    found: dict[str, set[str]] = {}
    for path in sorted(ENTRIES.rglob("test_advice_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "advises":
                piece = _text(node.args[0])
                if piece is None:
                    raise ValueError(f"{path.name}:{node.lineno}: advises(…) begins with a literal piece")
                found.setdefault(piece, set()).add(path.name)
    return found


def _is_remedy(message: Message) -> bool:
    if _COMMAND.search(_NO_VERBS.sub("", message.text)):
        return True
    return message.error in STUCK and _CLAUSE.search(message.text) is not None


def _text(node: ast.expr) -> str | None:
    """A literal as the source has it, `{}` where it says something of its own."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return f"{_text(left) or '{}'}{_text(right) or '{}'}"
        case ast.IfExp(body=body, orelse=other):
            return f"{_text(body) or '{}'} | {_text(other) or '{}'}"
    return None
