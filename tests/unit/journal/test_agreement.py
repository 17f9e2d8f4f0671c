"""What all files of a table agree on, and how each of them is read."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from firn.journal import agreement
from firn.journal.agreement import Agreement, Rules, Source, agree, aside_name
from firn.journal.columns import OnConflict, converts, join
from firn.journal.typenames import canonical, parse


def agreed(*columns: dict[str, str], on_conflict: OnConflict = "aside", **rules: object) -> Agreement:
    sources = [Source(str(number), each) for number, each in enumerate(columns, 1)]
    return agree(Rules(on_conflict=on_conflict, **rules), sources)  # type: ignore[arg-type]


def test_columns_unite_in_order_of_appearance() -> None:
    got = agreed({"a": "INTEGER"}, {"b": "DATE", "a": "BIGINT"}, {}, {"c": "INT8"})
    assert list(got.columns.items()) == [("a", "BIGINT"), ("b", "DATE"), ("c", "BIGINT")]
    assert (got.plain, got.warnings) == (True, ())
    assert agree(Rules(), []).columns == {}


def test_a_type_that_doesnt_fit_is_a_column_of_its_own() -> None:
    got = agreed({"a": "INTEGER"}, {"a": "BIGINT"}, {"a": "DOUBLE", "b": "DATE"}, {"a": "VARCHAR"})
    assert got.columns == {"a": "BIGINT", "b": "DATE", "a~double": "DOUBLE", "a~varchar": "VARCHAR"}
    assert got.aside == {"a~double", "a~varchar"} and not got.loose and got.refusal is None
    assert got.reads({"a": "INTEGER"}) == {}
    assert got.reads({"a": "DOUBLE"}) == {"a": (), "a~double": ("a",)}
    first, second = got.conflicts
    assert first[:4] == ("a", "DOUBLE", "a~double", "3") and second.common_type == "VARCHAR"
    for part in ("'a' is BIGINT in 2", "DOUBLE in 3", "'a~double'", "resolve('a', to='DOUBLE')"):
        assert part in str(first) and str(first) in got.warnings


def test_names_of_what_is_set_aside_follow_from_name_and_type_alone() -> None:
    kinds = ["DECIMAL(5,2)", "DECIMAL(6,2)", "STRUCT(a BIGINT)", "BIGINT[]", "DATE[]", "MAP(VARCHAR, DATE)"]
    names = [aside_name("a", kind) for kind in kinds]
    assert len(set(names)) == len(names) and names[2].startswith("a~struct-")


def test_an_error_is_asked_for_and_says_what_to_do() -> None:
    got = agreed({"a": "BIGINT"}, {"a": "DATE"}, on_conflict="error")
    assert got.refusal is not None and "resolve('a', to='VARCHAR')" in got.refusal
    assert got.columns == {"a": "BIGINT", "a~date": "DATE"}
    assert agreed({"a": "BIGINT"}, {"a": "DATE"}, on_conflict="skip-file").refusal is None


def test_widening_reads_types_loosely_and_warns_once() -> None:
    logs = [{"a": "BIGINT"}, {"a": "DOUBLE"}, {"a": "BIGINT", "b": "DATE"}]
    got = agreed(*logs, *({"a": "BIGINT", f"c{i}": "DATE"} for i in range(5)), on_conflict="widen")
    assert got.columns["a"] == "DOUBLE" and got.loose == {"a"} and not got.aside
    assert got.reads({"a": "BIGINT"}) == {"a": ("a",)} and got.reads({}) == {}
    assert len(got.warnings) <= 2 and "DOUBLE in 2" in got.warnings[0]


def test_keys_are_never_set_aside() -> None:
    got = agreed({"k": "BIGINT", "v": "BIGINT"}, {"k": "DATE", "v": "DOUBLE"}, key=("K",), version_by="v")
    assert got.columns == {"k": "VARCHAR", "v": "DOUBLE"} and got.loose == {"k", "v"}


def test_an_explicit_type_takes_in_what_converts() -> None:
    got = agreed({"a": "BIGINT"}, {"a": "DOUBLE"}, {"a": "DATE"}, explicit={"A": "DOUBLE"})
    assert got.columns == {"a": "DOUBLE", "a~date": "DATE"}
    assert got.reads({"a": "BIGINT"}) == {"a": ("a",)}
    got = agreed({"a": "BIGINT"}, {"a": "DOUBLE"}, explicit={"a": "VARCHAR"})
    assert got.columns == {"a": "VARCHAR"} and not got.conflicts


def test_a_structs_fields_may_stand_in_any_order_and_case() -> None:
    first, other = "STRUCT(a INTEGER, b VARCHAR)", "STRUCT(B VARCHAR, a SMALLINT)"
    kept = {"s": first, "l": f"{first}[]"}
    for rules in ({}, {"explicit": kept}, {"declared": kept}, {"key": ("s",)}):
        got = agreed(kept, {"s": other, "l": f"{other}[]"}, **rules)
        assert got.columns == kept and got.plain and not got.warnings
    got = agreed({"s": first}, {"s~1": other}, into={"s~1": "s"})
    assert got.columns == {"s": first} and got.reads({"s": first, "s~1": other}) == {"s": ("s", "s~1")}
    got = agreed({"s": "DATE"}, {"s": first}, {aside_name("s", first): other.replace("SMALLINT", "INTEGER")})
    assert len(got.columns) == 2


def test_a_column_goes_into_another() -> None:
    rules = Rules(explicit={"a": "DOUBLE"}, into={"a~double": "a"})
    got = agree(rules, [Source("merged", {"a": "BIGINT"}, {"a~double": "DOUBLE"})])
    assert got.columns == {"a": "DOUBLE"} and not got.aside
    assert got.reads({"a": "BIGINT", "a~double": "DOUBLE"}) == {"a": ("a", "a~double")}
    assert got.reads({"a": "BIGINT"}) == {"a": ("a",)}
    plain = agreed({"a": "BIGINT", "b": "INTEGER"}, into={"b": "a"})
    assert plain.columns == {"a": "BIGINT"} and plain.reads({}) == {"a": ("a", "b")}
    other = agreed({"a": "BIGINT", "b": "DATE"}, into={"b": "a"})
    assert other.columns == {"a": "BIGINT", "b": "DATE"} and other.reads({}) == {}


def test_files_that_arent_live_make_columns_and_set_nothing_aside() -> None:
    got = agree(Rules(), [Source("live", {"a": "DATE"})], [Source("dead", {"a": "BIGINT", "b": "DATE"})])
    assert got.columns == {"a": "DATE", "b": "DATE"} and got.plain
    wider = agree(Rules(), [Source("live", {"a": "INTEGER"})], [Source("dead", {"a": "BIGINT"})])
    assert wider.columns == {"a": "BIGINT"}


def test_what_was_set_aside_before_is_no_column_of_the_table() -> None:
    got = agree(Rules(), [Source("f", {"a": "BIGINT"}, {"a~double": "DOUBLE"})])
    assert got.aside == {"a~double"} and got.reads({"a~double": "DOUBLE"}) == {}


def test_names_that_differ_by_case_are_one_column_and_a_warning() -> None:
    got = agreed({"Day": "INTEGER"}, {"day": "BIGINT"})
    assert got.columns == {"Day": "BIGINT"} and "'day' in 2" in got.warnings[0]
    assert agreed({"Day": "INTEGER"}, {"day": "DATE"}).columns == {"Day": "INTEGER", "Day~date": "DATE"}


def test_a_null_column_has_no_type_yet() -> None:
    assert agreed({"a": '"NULL"', "b": '"NULL"'}, {"a": "DATE"}).columns == {"a": "DATE"}


def test_equal_sources_cost_one_comparison_each(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(agreement, "parse", lambda text: calls.append(text) or parse(text))
    one = {f"c{i}": "BIGINT" for i in range(20)}
    two = {**one, "extra": "DATE"}
    assert agreed(*(dict(two if i % 2 else one) for i in range(10_000))).columns == two
    assert len(calls) == 41


TYPES = ["INTEGER", "BIGINT", "DOUBLE", "VARCHAR", "DATE", "DECIMAL(5,2)", "BIGINT[]", '"NULL"']
NAMES = ["a", "A", "b", "a~double", "a~date"]
LOGS = st.lists(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TYPES), max_size=3), max_size=5)


@example([{"a": "INTEGER", "a~double": "INTEGER"}, {"a~double": "VARCHAR"}], "aside", {}, {"a~double": "a"})
@given(
    LOGS,
    st.sampled_from(["aside", "widen", "error"]),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TYPES[:5]), max_size=2),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(NAMES), max_size=1),
)
def test_every_value_has_one_place_that_takes_it_in(
    logs: list[dict[str, str]], on_conflict: OnConflict, explicit: dict[str, str], into: dict[str, str]
) -> None:
    logs = [log for log in logs if len({name.lower() for name in log}) == len(log)]
    got = agreed(*logs, on_conflict=on_conflict, explicit=explicit, into=into)
    for log in logs:
        own = {name: canonical(kind) for name, kind in log.items() if parse(kind) != parse('"NULL"')}
        spelled = {name.lower(): name for name in got.columns}
        types = {n: k for n, k in own.items() if got.columns.get(spelled.get(n.lower(), "")) != k}
        reads = got.reads(types)
        places: dict[str, list[str]] = {name.lower(): [] for name in own}
        for column, kind in got.columns.items():
            for name in reads.get(column, (column,)):
                if name.lower() in places:
                    places[name.lower()].append(column)
                    stored = next(k for n, k in own.items() if n.lower() == name.lower())
                    assert join(stored, kind) == kind or (column in got.loose and converts(stored, kind))
        assert all(len(found) == 1 for found in places.values()), (got, places)
