"""Planning took a constant under a collation for its text: files whose statistics lie beside that weren't read, or
went as a whole."""

from __future__ import annotations

import pytest

from lake_journals import Lake

TEXTS = ["ABC", "abd", "zz", "ZZ"]


@pytest.mark.parametrize(
    ("where", "matching"),
    [
        ("s = 'abc' COLLATE NOCASE", ["ABC"]),
        ("s <> 'ZZ' COLLATE NOCASE", ["ABC", "abd"]),
        ("'zz' COLLATE NOCASE = s", ["ZZ", "zz"]),
        ("s COLLATE NOCASE = 'zz'", ["ZZ", "zz"]),
        ("s IN ('abc' COLLATE NOCASE, 'zZ')", ["ABC", "ZZ", "zz"]),
        ("s BETWEEN 'ABC' COLLATE NOCASE AND 'abd' COLLATE NOCASE", ["ABC", "abd"]),
        ("s < ('ABD' COLLATE NOCASE || '')", ["ABC"]),
        ("NOT (s = (('abc') COLLATE NOCASE))", ["ZZ", "abd", "zz"]),
        ("s = CAST('abc' COLLATE NOCASE AS VARCHAR)", ["ABC"]),
    ],
)
@pytest.mark.parametrize("partition_by", [[], ["s"], ["truncate(2, s)"]])
def test_a_collation_counts_wherever_a_predicate_is_judged(
    lake: Lake, where: str, matching: list[str], partition_by: list[str]
) -> None:
    t = lake.create("t", partition_by=partition_by, properties={"bloom_filters": "s"})
    for text in TEXTS:
        t.append([{"s": text}])
    expected = sorted(row for row in _texts(t) if row in matching)
    assert sorted(t.scan(where=where).to_arrow()["s"].to_pylist()) == expected
    assert t.scan(where=where).count() == len(matching)
    if partition_by == ["s"]:
        assert t.remove_partitions(where, dry_run=True).files_removed == len(matching)
    t.delete(where)
    assert _texts(t) == sorted(set(TEXTS) - set(matching))


def _texts(t: object) -> list[str]:
    return sorted(t.scan().to_arrow()["s"].to_pylist())  # type: ignore[attr-defined]
