"""One rule compares names. A lint keeps others out, and pairs on which rules differ say which one it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import firn
from firn.names import fold

SOURCE = Path(firn.__file__).parent

NO_NAMES = {
    "arrow/pyvalues.py: name[0].lower()",  # an article
    "bucket/options.py: endpoint.lower()",  # schemes
    "bucket/options.py: str(name).lower()",  # options of stores
    "bucket/options.py: str(no_bulk).lower()",
    "bucket/urls.py: match[1].lower()",  # schemes
    "cli/input/inputs.py: Path(name).suffix.lower()",
    "cli/terminal/output.py: str(value).lower()",
    "cli/terminal/output.py: stream.encoding.lower()",
    "cli/opening.py: value.lower()",
    "errors.py: c.lower()",
    "inspect/dump/footer.py: chunk.compression.lower()",
    "journal/agreement.py: parsed.name.lower()",  # types
    "journal/agreement.py: type(parsed).__name__.lower()",
    "journal/leaderless/format/layout.py: socket.gethostname().lower()",
    "journal/manifest/dynamo.py: str(name).lower()",
    "journal/typenames.py: name.lower()",  # DuckDB's keywords
    "keyed/encoding/values.py: str(value).lower()",  # UUIDs
    "journal/writer/unclaimed/repair.py: keep.replace('-', '').lower()",
    "predicate/constants.py: text.lower()",
    "predicate/dialect.py: str(name).lower()",  # functions of SQL
    "predicate/dialect.py: str(node.name).lower()",
    "lake/partition/partition.py: call[1].lower()",  # transforms
    "lake/prune/prune.py: node.name.lower()",  # functions of SQL
    "lake/definition/order.py: direction.lower()",
    "names.py: name.lower()",
    "records/read/order.py: direction.lower()",
    "spark/keyed/load.py: F.lower()",  # UUIDs
    "spark/native/parquet.py: kind.name.lower()",  # types
    "spark/session/options.py: name.lower()",  # Spark's own options
    "spark/session/options.py: text.lower()",
    "spark/session/options.py: text.strip().lower()",
    "units.py: match[2].lower()",
    "units.py: unit.lower()",
}
"""Where text is lowered that isn't a name of a column, field or table."""


def test_names_are_compared_by_one_function() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in ("lower", "casefold"):
                text = f"{ast.unparse(node)}()"
                assert node.attr == "lower", f"{path}: {text}: compare names by firn.names.fold"
                found.add(f"{path.relative_to(SOURCE)}: {text}")
    assert not (more := found - NO_NAMES), (
        f"names compare by firn.names.fold; what isn't one is listed here: {more}"
    )
    assert not (gone := NO_NAMES - found), f"these are gone: {gone}"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Delay", "DELAY", True),
        ("Ä", "ä", True),
        ("straße", "strasse", False),
        ("straße", "STRASSE", False),
        ("ς", "σ", False),
        ("σ", "Σ", True),
        ("µ", "μ", False),  # the micro sign and the Greek letter
        ("\u212a", "k", True),  # the Kelvin sign
        ("İ", "i", False),
        ("ı", "I", False),
        ("ﬁ", "fi", False),
        ("é", "e\u0301", False),
    ],
)
def test_names_fold_as_spark_does(one: str, other: str, same: bool) -> None:
    assert (fold(one) == fold(other)) is same
