"""The SQL that users write: DuckDB's, with backticks accepted around identifiers, parsed by sqlglot.

Tasks run text generated from the parsed tree, never the user's own. So they run exactly what was checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from firn.errors import InvalidInputError, UnsupportedError
from firn.predicate.trees import COMPARISONS, exp

if TYPE_CHECKING:
    from sqlglot.errors import SqlglotError


def parse(text: str, what: str, *, into: type[exp.Expression] | None = None) -> exp.Expression:
    """The tree of the one statement or, with `into`, of the one expression in `text`.

    `what` names the argument in errors. Raises `InvalidInputError` for no or several statements, for
    parameters, and for text that doesn't parse.
    """
    from sqlglot.errors import ErrorLevel, SqlglotError
    from sqlglot.tokens import TokenType

    from firn.predicate.grammar import ExpressionSQL, FirnSQL, quiet

    try:
        tokens = (FirnSQL if into is None else ExpressionSQL)().tokenize(text)
        while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
            tokens.pop()
        if not tokens:
            example = "delay > 60, or true for all rows" if what == "predicate" else "SELECT …"
            raise InvalidInputError(f"the {what} is empty; write one, like {example}.")
        if any(token.token_type == TokenType.SEMICOLON for token in tokens):
            raise InvalidInputError(
                f"the {what} {text!r} holds more than one statement; write one, without ';'."
            )
        parser = FirnSQL().parser(error_level=ErrorLevel.IMMEDIATE)
        with quiet():
            trees = parser.parse(tokens, text) if into is None else parser.parse_into(into, tokens, text)
    except SqlglotError as error:
        raise InvalidInputError(f"the {what} {text!r} isn't SQL that Firn reads: {_reason(error)}") from error
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Expression):
        raise InvalidInputError(f"the {what} {text!r} isn't one SQL expression.")
    if tree.find(exp.Command) is not None:  # what sqlglot takes for some other program's command
        raise InvalidInputError(
            f"the {what} {text!r} isn't SQL that Firn reads: neither a SELECT nor an expression."
        )
    if tree.find(exp.Placeholder, exp.Parameter, exp.SessionParameter) is not None:
        raise InvalidInputError(
            f"the {what} {text!r} has a parameter (? or $1 or :name); write the value itself."
        )
    return tree


@contextmanager
def readable_depth(what: str, text: str) -> Iterator[None]:
    """Turn the parser's running out of stack into an `InvalidInputError`."""
    try:
        yield
    except RecursionError:
        raise InvalidInputError(
            f"the {what} {text[:100]!r}… is nested too deeply; write long lists of values with IN (…)."
        ) from None


def to_duckdb(tree: exp.Expression) -> str:
    """DuckDB's text of a tree, with all identifiers quoted."""
    from firn.predicate.grammar import FirnSQL

    return str(_closed(tree).sql(dialect=FirnSQL, identify=True, comments=False))


def to_spark(tree: exp.Expression) -> str:
    """Spark's text of a tree. Raises `UnsupportedError` for what Spark can't express."""
    from sqlglot.errors import ErrorLevel, SqlglotError
    from sqlglot.errors import UnsupportedError as SqlglotUnsupported

    tree = _closed(tree)
    for like in tree.find_all(exp.Like, exp.ILike):
        pattern = like.expression
        if (
            isinstance(pattern, exp.Literal)
            and "\\" in pattern.name
            and not isinstance(like.parent, exp.Escape)
        ):
            # Spark takes a backslash in a pattern for an escape, DuckDB for itself
            pattern.replace(exp.Literal.string(pattern.name.replace("\\", "\\\\")))
    for cast in list(tree.find_all(exp.Cast)):
        if cast.to.is_type("varbinary") and isinstance(cast.this, exp.Literal) and "\\" in cast.this.name:
            # of bytes written as \xFF Spark would keep the backslash
            cast.replace(exp.HexString(this=_blob(cast.this.name).hex()))
    try:
        if (lacking := tree.find(exp.SimilarTo, exp.Glob)) is not None:
            raise SqlglotUnsupported(f"it has no {lacking.key.upper()}")
        return str(tree.sql("spark", identify=True, comments=False, unsupported_level=ErrorLevel.RAISE))
    except SqlglotError as error:
        raise UnsupportedError(
            f"{to_duckdb(tree)} has no counterpart in Spark's SQL ({_reason(error)}); write it differently, "
            "or read the table without Spark."
        ) from error


_BYTE = re.compile(rb"\\x([0-9A-Fa-f]{2})")


def _blob(text: str) -> bytes:
    """The bytes that DuckDB makes of a text with escapes."""
    return _BYTE.sub(lambda found: bytes.fromhex(found[1].decode()), text.encode())


def function_names(node: exp.Expression) -> set[str]:
    """The names, in lower case, by which a function call may be known; empty for any other node."""
    if isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)):
        return {str(node.name).lower()}
    if isinstance(node, exp.Func) and not isinstance(node, (exp.Connector, exp.Cast, exp.Case)):
        return {str(name).lower() for name in node.sql_names()}
    return set()


def _closed(tree: exp.Expression) -> exp.Expression:
    """A copy with parentheses around operands that are expressions themselves, so that the engine which reads
    the generated text arrives at this very tree, whatever it thinks about precedence."""
    tree, composite = tree.copy(), (exp.Binary, exp.Unary, exp.In, exp.Between)
    for node in list(tree.walk()):
        parent = node.parent
        if not isinstance(node, composite) or not isinstance(parent, composite):
            continue
        if isinstance(node, (exp.Paren, exp.Dot)) or isinstance(parent, (exp.Paren, exp.Escape, exp.Dot)):
            continue
        if isinstance(parent, (exp.Connector, exp.Not)) and not isinstance(node, exp.Connector):
            continue
        if isinstance(parent, type(node)) and isinstance(node, exp.Connector):
            continue
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and _compares(parent):
            continue
        placeholder = exp.Paren()
        node.replace(placeholder)
        placeholder.set("this", node)
    return tree


def _compares(node: exp.Expression) -> bool:
    return node.key in COMPARISONS or isinstance(node, (exp.In, exp.Between))


def _reason(error: SqlglotError) -> str:
    errors: list[dict[str, Any]] = getattr(error, "errors", None) or []
    if errors and errors[0].get("description"):
        first = errors[0]
        found = str(first["description"])
        # The parser names a class of its own where an operand is missing.
        found = "something is missing" if found.startswith("Required keyword") else found
        found = found.removeprefix("Invalid expression / ")
        return f"{found} (line {first.get('line')}, column {first.get('col')})"
    return str(error).split("\n", 1)[0]


_LISTED = re.compile(r"\?(?:, \?)+")


def without_values(tree: exp.Expression) -> str:
    """The text of a predicate or query with `?` for each value in it: a log may keep it for ever.

    The log outlives the rows, and what an erasure was about may be the very thing to erase. It goes by the tokens of
    the text, so no kind of value can be forgotten. A list of values is as long as one of two.

    >>> without_values(parse("email IN ('ann@example.com', 'bob') AND n > 3", "predicate", into=exp.Condition))
    '"email" IN (?, …) AND "n" > ?'
    """
    from firn.predicate.grammar import FirnSQL

    text = to_duckdb(tree)
    pieces, at = [], 0
    for token in FirnSQL().tokenize(text):
        if token.token_type.name == "NUMBER" or token.token_type.name.endswith("STRING"):
            pieces += [text[at : token.start], "?"]
            at = token.end + 1
    return _LISTED.sub("?, …", "".join([*pieces, text[at:]]))
