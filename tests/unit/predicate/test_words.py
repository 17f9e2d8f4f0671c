"""The words of statements, and what of a statement a log may keep."""

from __future__ import annotations

import pytest

from firn.predicate.words import MAX_OUTLINE, outline_of
from firn.sql.on_spark import spark_words

SECRET = "secret"


@pytest.mark.parametrize(
    ("statement", "kept"),
    [
        ("UPDATE t SET a1 = a1 + 1_000 WHERE b = 'secret' -- secret", "UPDATE t SET a1 = a1 + ? WHERE b = ?"),
        ('DELETE FROM "my t" /* secret */ WHERE n IN (1, 2,3)', 'DELETE FROM "my t" WHERE n IN (?, …)'),
        ("DELETE FROM t WHERE a = E'se\\'secret' OR b = $$secret$$", "DELETE FROM t WHERE a = ? OR b = ?"),
        ("DELETE FROM t WHERE a = $x$secret$x$ AND b = 0x1F", "DELETE FROM t WHERE a = ? AND b = ?"),
        ("DELETE FROM t WHERE a = X'secret' AND b = 1.5e-7", "DELETE FROM t WHERE a = ? AND b = ?"),
        ("MERGE INTO t USING (VALUES (1, 'secret'), (2, 'b')) AS s(a, b) ON t.a=s.a WHEN MATCHED THEN DELETE",
         "MERGE INTO t USING (VALUES (?, …), …) AS s(a, b) ON t.a=s.a WHEN MATCHED THEN DELETE"),
    ],
)  # fmt: skip
def test_an_outline_has_no_value(statement: str, kept: str) -> None:
    assert outline_of(statement) == kept


def test_in_sparks_sql_double_quotes_are_values() -> None:
    text = "MERGE INTO t USING (SELECT \"secret\" AS `a b`, r'secret' AS c, 12L AS d) AS s ON t.a = s.a"
    found = outline_of(text, spark_words(text), "`")
    assert "secret" not in found and "12" not in found
    assert found.startswith("MERGE INTO t USING (SELECT ? AS `a b`")


def test_a_long_outline_is_cut() -> None:
    found = outline_of("SELECT " + ", ".join(f"a{n}" for n in range(1000)))
    assert len(found) == MAX_OUTLINE and found.endswith("…")
