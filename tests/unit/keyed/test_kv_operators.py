"""Merge operators: each against what it means, and merging operands early never changes what comes out."""

from __future__ import annotations

import json
import math
import struct
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import partial

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.errors import InvalidInputError
from firn.keyed.encoding.values import Values
from firn.keyed.merge.json_patch import apply_patch, compose_patches
from firn.keyed.merge.operators import merge_operator, operator_of

BYTES = Values()
HERE = __name__


@merge_operator
def longest(value, operand):
    return operand if value is None or len(operand) >= len(value) else value


@merge_operator(associative=False)
def average(value, operand):
    return operand if value is None else b"%d" % ((int(value) + int(operand)) // 2)


@merge_operator
def nothing(value, operand):
    return None


@merge_operator
def counted(row, operand):
    return {"n": (row or {"n": 0})["n"] + operand["n"], "name": operand["name"]}


@merge_operator
def wrong_type(row, operand):
    return {"n": "text"}


def unmarked(value, operand):
    return operand


documents = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
integers = st.integers(-(10**30), 10**30).map(b"%d".__mod__)
json_bytes = documents.map(orjson.dumps)
written = st.dictionaries(
    st.sampled_from("abc"),
    st.none()
    | st.integers(-(10**30), 10**30)
    | st.dictionaries(st.sampled_from("ab"), st.integers(2**63, 2**80)),
    max_size=3,
)

ON_BYTES = {
    "add": (integers, lambda base, ops: b"%d" % sum(map(int, ops if base is None else [base, *ops]))),
    "max": (st.binary(max_size=3), lambda base, ops: max(ops if base is None else [base, *ops])),
    "min": (st.binary(max_size=3), lambda base, ops: min(ops if base is None else [base, *ops])),
    "append": (st.binary(max_size=3), lambda base, ops: (base or b"") + b"".join(ops)),
}


@pytest.mark.parametrize("name", ON_BYTES)
def test_operators_on_bytes(name):
    strategy, model = ON_BYTES[name]
    operator = operator_of(name, BYTES)

    @settings(max_examples=60, deadline=None)
    @given(st.none() | strategy, st.lists(strategy, min_size=1, max_size=5), st.data())
    def check(base, operands, data):
        expected = model(base, operands)
        assert operator.merge(base, operands) == expected
        early_is_late(operator, base, operands, data)

    check()


def early_is_late(operator, base, operands, data):
    """Some neighbours combined first, and what is merged onto a base in two steps, come to the same."""
    for operand in operands:
        operator.check(operand)
    expected = operator.merge(base, operands)
    low = data.draw(st.integers(0, len(operands) - 1))
    high = data.draw(st.integers(low + 1, len(operands)))
    combined = operator.combine(operands[low:high])
    if combined is not None:
        operator.check(combined)
        assert operator.merge(base, [*operands[:low], combined, *operands[high:]]) == expected
    if low:
        assert operator.merge(operator.merge(base, operands[:low]), operands[low:]) == expected
    operator.check(expected)


@settings(max_examples=80, deadline=None)
@given(st.none() | json_bytes, st.lists(json_bytes, min_size=1, max_size=4), st.data())
def test_json_patches_merge_early_only_where_one_patch_can_say_both(base, operands, data):
    early_is_late(operator_of("json_merge", BYTES), base, operands, data)


@settings(max_examples=100, deadline=None)
@given(documents, documents, documents)
def test_composed_patches_do_what_both_do(document, older, newer):
    composed = compose_patches(older, newer)
    if composed is not None:
        assert apply_patch(document, composed[0]) == apply_patch(apply_patch(document, older), newer)


def test_patches_keep_what_they_remove_until_they_meet_their_base():
    operator = operator_of("json_merge", BYTES)
    both = operator.combine([b'{"a":1,"c":2}', b'{"a":null}'])
    assert orjson.loads(both) == {"a": None, "c": 2}
    assert orjson.loads(operator.merge(b'{"a":0,"b":1}', [both])) == {"b": 1, "c": 2}
    assert operator.combine([b'{"a":null}', b'{"a":{"b":1}}']) is None
    assert operator.combine([b"1", b"{}"]) is None
    # A name that is set after its removal comes last, whether compactions were between or not.
    removed_and_set = [b'{"a":null,"b":2}', b'{"a":3}']
    assert operator.combine(removed_and_set) is None
    assert (
        operator.merge(None, removed_and_set)
        == operator.merge(b'{"a":1}', removed_and_set)
        == b'{"b":2,"a":3}'
    )


def test_json_merge_is_the_rfc_s():
    """Examples of RFC 7396, appendix A."""
    cases = [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ]
    for document, patch, expected in cases:
        assert apply_patch(document, patch) == expected


def units(number: int) -> Decimal:
    """So many ten thousandths, with all digits."""
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -4))


def sum_of(kind, values):
    """The sum, which goes round past the ends of its type."""
    if not kind.startswith("DECIMAL"):
        low, end = (0, 1 << 8) if kind == "UTINYINT" else (-(1 << 63), 1 << 63)
        return (sum(values) - low) % (end - low) + low
    scale, half = (4, 10**38) if "38" in kind else (1, 10**4)
    total = sum(int(Fraction(value) * 10**scale) for value in values)
    return Fraction((total + half) % (2 * half) - half, 10**scale)


KINDS = {
    "BIGINT": (st.integers(-(2**63), 2**63 - 1), ("add", "max", "min")),
    "UTINYINT": (st.integers(0, 255), ("add", "max", "min")),
    "DECIMAL(4,1)": (st.decimals("-999.9", "999.9", places=1), ("add", "max", "min")),
    "DECIMAL(38,4)": (st.integers(1 - 10**38, 10**38 - 1).map(units), ("add", "max", "min")),
    "VARCHAR": (st.text("ab", max_size=2), ("append", "max", "min")),
    "JSON": (documents.map(lambda d: orjson.dumps(d).decode()), ("json_merge",)),
    "BIGINT[]": (st.lists(st.integers(0, 3), max_size=2), ("append",)),
    "DATE": (st.dates(date(2020, 1, 1), date(2020, 1, 9)), ("max", "min", None)),
}


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_rows_are_merged_column_by_column(data):
    kinds = data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
    values = Values({f"c{at}": kind for at, kind in enumerate(kinds)})
    chosen = {f"c{at}": data.draw(st.sampled_from(KINDS[kind][1])) for at, kind in enumerate(kinds)}
    operator = operator_of({name: op for name, op in chosen.items() if op}, values)
    rows = st.tuples(*(st.none() | KINDS[kind][0] for kind in kinds))
    base = data.draw(st.none() | rows)
    operands = data.draw(st.lists(rows, min_size=1, max_size=4))
    early_is_late(operator, base, operands, data)
    merged = operator.merge(base, operands)
    values.to_arrays([merged])  # what comes out can always be stored
    for at, name in enumerate(values.names):
        given_ = [row[at] for row in ([] if base is None else [base]) + operands if row[at] is not None]
        expected = {
            None: lambda v: v[-1],
            "add": partial(sum_of, kinds[at]),
            "max": max,
            "min": min,
            "append": lambda v: [i for x in v for i in x] if isinstance(v[0], list) else "".join(v),
        }.get(chosen[name])
        if not given_:
            assert merged[at] is None
        elif expected is not None:
            found = Fraction(merged[at]) if chosen[name] == "add" else merged[at]
            assert found == expected(given_)


def test_sums_go_round_past_the_ends_of_their_type():
    values = Values({"b": "BIGINT", "t": "UTINYINT", "d": "DECIMAL(3,1)"})
    operator = operator_of("add", values)
    assert operator.merge((2**63 - 1, 250, Decimal("99.9")), [(1, 10, Decimal("0.2"))]) == (
        -(2**63),
        4,
        Decimal("-99.9"),
    )
    assert operator.merge((1, 2, Decimal("1.5")), [(1, 10, Decimal("0.2"))]) == (2, 12, Decimal("1.7"))


def test_floats():
    values = Values({"d": "DOUBLE", "f": "FLOAT"})
    add, greatest = operator_of("add", values), operator_of("max", values)
    single = struct.unpack("f", struct.pack("f", 0.1))[0]
    assert add.merge((0.5, single), [(0.25, None), (None, single)]) == (0.75, 2 * single)
    assert add.merge((0.0, 3e38), [(0.0, 3e38)]) == (0.0, math.inf)
    assert greatest.merge((math.nan, 1.0), [(2.0, math.nan)]) == (2.0, 1.0)


def test_one_name_works_on_the_columns_that_it_suits():
    values = Values({"n": "BIGINT", "name": "VARCHAR"})
    operator = operator_of("add", values)
    assert operator.merge((1, "old"), [(2, "new"), (3, None)]) == (6, "new")
    assert operator.merge(None, [(None, "x")]) == (None, "x")


def test_compact_operators_are_those_that_never_grow():
    values = Values({"n": "BIGINT", "name": "VARCHAR"})
    assert operator_of("add", values).compact
    assert operator_of({"n": "max"}, values).compact
    assert not operator_of({"name": "append"}, values).compact
    assert not operator_of("append", BYTES).compact


def test_operators_of_one_s_own():
    operator = operator_of(f"{HERE}:longest", BYTES)
    assert operator.merge(None, [b"a", b"bcd", b"ef"]) == b"bcd"
    assert operator.combine([b"a", b"bcd"]) == b"bcd"
    assert operator_of(f"{HERE}:average", BYTES).combine([b"1", b"2"]) is None
    assert operator_of(f"{HERE}:average", BYTES).merge(b"1", [b"3", b"6"]) == b"4"


def test_operators_of_one_s_own_on_rows():
    values = Values({"n": "BIGINT", "name": "VARCHAR"})
    whole = operator_of(f"{HERE}:counted", values)
    assert whole.merge((1, "a"), [(2, "b")]) == (3, "b")
    column = operator_of({"name": f"{HERE}:longest", "n": "add"}, values)
    assert column.merge((1, "abc"), [(2, "b"), (3, None)]) == (6, "abc")


def test_what_an_operator_returns_is_checked():
    with pytest.raises(InvalidInputError, match="nothing returned None"):
        operator_of(f"{HERE}:nothing", BYTES).merge(None, [b"x"])
    with pytest.raises(InvalidInputError, match="'n'"):
        operator_of(f"{HERE}:wrong_type", Values({"n": "BIGINT"})).merge(None, [(1,)])


def test_a_table_cannot_name_any_function():
    """Its definition lies in the bucket: who may write there mustn't choose what is called here."""
    for name in (f"{HERE}:unmarked", "os:system", "builtins:exec"):
        with pytest.raises(InvalidInputError, match="not marked as a merge operator"):
            operator_of(name, BYTES)


@pytest.mark.parametrize(
    ("merge", "values", "message"),
    [
        ("sum", BYTES, "there is no merge operator 'sum'"),
        ("sum", Values({"n": "BIGINT"}), "there is no merge operator 'sum'"),
        ({"n": "sum"}, Values({"n": "BIGINT"}), "there is no merge operator 'sum'"),
        ({"n": "append"}, Values({"n": "BIGINT"}), "doesn't suit column 'n'"),
        ({"m": "add"}, Values({"n": "BIGINT"}), "'m', which is no value column"),
        ("add", Values({"s": "VARCHAR"}), "suits none"),
        ({"n": "add"}, BYTES, "need a schema"),
        (["add"], Values({"n": "BIGINT"}), "no merge operator"),
        ("no_such_module_anywhere:f", BYTES, "can't be found here"),
        ("math:no_such_function", BYTES, "can't be found here"),
        ("os.path:../x", BYTES, "there is no merge operator"),
    ],
)
def test_operators_that_there_are_not(merge, values, message):
    with pytest.raises(InvalidInputError, match=message):
        operator_of(merge, values)


def test_no_operator():
    assert operator_of(None, BYTES) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("add", b"1.5"), ("add", b""), ("add", b"1 "), ("add", b"9" * 1001), ("json_merge", b"{")],
)
def test_values_that_could_not_be_merged_are_refused_before(name, value):
    with pytest.raises(InvalidInputError):
        operator_of(name, BYTES).check(value)


def test_a_row_s_refusal_names_the_column():
    with pytest.raises(InvalidInputError, match="value column 'doc'"):
        operator_of("json_merge", Values({"doc": "JSON"})).check(("{",))


@settings(max_examples=60, deadline=None)
@given(written, written, written)
def test_patches_keep_whole_numbers_of_any_size(base, older, newer):
    operator = operator_of("json_merge", BYTES)
    texts = [json.dumps(each).encode() for each in (base, older, newer)]
    merged = operator.merge(texts[0], texts[1:])
    assert json.loads(merged) == apply_patch(apply_patch(base, older), newer)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1 - 10**38, 10**38 - 1) | st.integers(10**30, 10**38 - 1), min_size=2, max_size=4)
)
def test_sums_of_decimals_have_all_digits(numbers):
    (total,) = operator_of("add", Values({"d": "DECIMAL(38,4)"})).merge(None, [(units(n),) for n in numbers])
    assert Fraction(total) == sum_of("DECIMAL(38,4)", [units(n) for n in numbers])
