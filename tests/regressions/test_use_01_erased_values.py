"""A predicate was read as a statement where the log's text of it was made: columns named like one failed in delete,
or left the values in the log for ever."""

from __future__ import annotations

import pytest
from sqlglot import exp

from firn.errors import InvalidInputError
from firn.predicate.dialect import parse, without_values
from firn.predicate.predicate import outline
from lake_journals import Lake
from planted import found_in

NAMES_TEXT = """
begin commit copy update delete merge use desc kill cache describe truncate analyze attach detach pragma comment
load show set alter call drop execute explain fetch force grant insert install optimize prepare rename reset
revoke rollback uncache vacuum summarize export import checkpoint replace
"""
NAMES = NAMES_TEXT.split()


@pytest.mark.parametrize("name", NAMES)
def test_a_column_named_like_a_statement_is_one(name: str, caplog: pytest.LogCaptureFixture) -> None:
    for text in (
        f"{name} = 'anna'",
        f"n = 1 AND {name} <> 'anna'",
        f"{name} LIKE 'anna%'",
        f"NOT ({name} = 'anna')",
    ):
        assert f'"{name}"' in outline(text)
        assert "anna" not in outline(text)
    assert not caplog.records


def test_columns_named_like_statements_work_in_delete_as_in_scan(lake: Lake) -> None:
    t = lake.create("t")
    t.append([dict.fromkeys(NAMES, value) for value in ("anna@example.com", "bob")])
    for name in NAMES:
        assert t.scan(where=f"{name} = 'anna@example.com'").count() == 1
        assert t.delete(f"{name} = 'anna@example.com'", dry_run=True).files
    t.delete("comment = 'anna@example.com'", soft=False)
    t.overwrite([{"load": "carl"}], where="load = 'carl'")
    t.rewrite("set IS NULL OR set <> 'anna@example.com'")
    t.append([dict.fromkeys(NAMES, "dora")])
    t.merge()
    lake.forget(t)
    assert sorted(t.scan().to_arrow()["load"].to_pylist()) == ["bob", "carl", "dora"]
    assert not found_in(lake.db.bucket, ["anna@example.com"])


@pytest.mark.parametrize(
    "text",
    [
        "x = $$anna$$",
        "x = $tag$anna$tag$",
        "x = E'anna\\n'",
        "doc->>'anna' = 'b'",
        "doc['anna'] = 1",
        "x = MAP {'anna': 1}",
        "x IN ('bob', 'anna', -1)",
        "x = CAST('anna' AS ENUM('anna', 'bob'))",
        "x /* anna */ = 'b' -- anna",
        "regexp_matches(x, 'anna', 'i')",
        "x SIMILAR TO 'anna'",
        "x LIKE 'anna' ESCAPE 'a'",
        "x = 'anna' COLLATE NOCASE",
        "strptime(x, 'anna') IS NULL",
        "n = 170117 OR n BETWEEN 170117 AND 1.70117",
        "x = '🧊' AND y = 'anna'",
    ],
)
def test_no_kind_of_value_stays(text: str) -> None:
    for form in (text, f"SELECT * FROM _rows WHERE {text}"):
        tree = parse(form, "text", into=exp.Condition if form is text else None)
        told = without_values(tree)
        assert "anna" not in told
        assert "70117" not in told


def test_what_is_no_expression_is_refused_without_a_word_to_stderr(caplog: pytest.LogCaptureFixture) -> None:
    for text in ("if = 'anna'", "SHOW TABLES", "COMMENT ON TABLE t IS 'anna'", "SET x = 1", "LOAD 'anna'"):
        with pytest.raises(InvalidInputError):
            outline(text)
    with pytest.raises(InvalidInputError):
        parse("CALL anna()", "query")
    assert not caplog.records
