"""Random tables, partition specs and predicates that lie close to one another, for the judge of pruning."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from hypothesis import strategies as st

UTC = dt.timezone.utc

COLUMNS = {
    "i": "BIGINT",
    "t": "TINYINT",
    "u": "UBIGINT",
    "f": "DOUBLE",
    "g": "FLOAT",
    "s": "VARCHAR",
    "d": "DATE",
    "ts": "TIMESTAMP",
    "tz": "TIMESTAMP WITH TIME ZONE",
    "n": "DECIMAL(9,2)",
    "h": "DECIMAL(38,5)",
    "b": "BOOLEAN",
    "m": "TIME",
    "z": "BLOB",
}

NAN, INF = float("nan"), float("inf")
TIMES = [
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(1970, 1, 1),
    dt.datetime(1970, 1, 1, 0, 0, 0, 1),
    dt.datetime(1970, 1, 1, 12),
    dt.datetime(2000, 2, 29, 23, 30),
    dt.datetime(2001, 1, 31, 23, 59, 59),
    dt.datetime(2001, 2, 1),
    dt.datetime(1, 1, 1),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
]
LONG = "x" * 63
VALUES = {
    "i": [-(2**63), -11, -10, -1, 0, 1, 5, 9, 10, 2**53, 2**53 + 1, 2**63 - 1],
    "t": [-128, -1, 0, 1, 5, 6, 127],
    "u": [0, 1, 5, 2**53 + 1, 2**63, 2**64 - 1],
    "f": [NAN, INF, -INF, -0.0, 0.0, 0.1, 0.5, 5.0, -5.5, float(2**53), 1e308],
    "g": [NAN, INF, -INF, -0.0, 0.0, 0.1, 0.5, 5.0, 16777216.0, 3.4e38],
    "s": [
        "",
        "a",
        "ab",
        "abc",
        "abd",
        "b",
        "B",
        "é",
        "é",
        "😀",
        "\uffff",
        "%",
        "5",
        "a\x00b",
        LONG,
        LONG + "ab",
        LONG + "ac",
        LONG + "\U0010ffff\U0010ffff",
        "\U0010ffff" * 65,
        "y" * 5000,
        "1970-01-01",
    ],
    "d": [t.date() for t in TIMES],
    "ts": TIMES,
    "tz": [t.replace(tzinfo=UTC) for t in TIMES],
    "n": [Decimal(x) for x in ("-9999999.99", "-0.01", "0.00", "0.10", "5.00", "5.01", "9999999.99")],
    "h": [Decimal(x) for x in ("-0.00001", "0.00000", "5.00000", "0.10000", "9" * 33 + ".99999")],
    "b": [True, False],
    "m": [dt.time(0), dt.time(12, 0, 0, 500_000), dt.time(23, 59, 59, 999_999)],
    "z": [b"", b"a", b"\xff"],
}

NUMBERS = [
    "0",
    "-0.0",
    "1",
    "-1",
    "5",
    "5.0",
    "5.00",
    "5.01",
    "5.5",
    "0.1",
    "1e-1",
    "5e0",
    "-10",
    "10",
    "127",
    "128",
    "16777216",
    "16777217",
    "9007199254740992",
    "9007199254740993",
    "9007199254740992e0",
    "9007199254740993e0",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "170141183460469231731687303715884105727",
    "0.100000001490116",
    "3.4e38",
    "1e39",
    "1e308",
    "0.00001",
    "-0.01",
    "9999999.99",
    "0.0100000000000000000001",
]
FOLDED = [
    "2 + 3",
    "CAST(5 AS SMALLINT)",
    "CAST(0.1 AS FLOAT)",
    "CAST('nan' AS DOUBLE)",
    "CAST('inf' AS FLOAT)",
]
FOLDED += ["CAST('5' AS DECIMAL(10,4))", "CAST(5 AS HUGEINT)", "abs(-5)", "NULL", "CAST(NULL AS BIGINT)"]
DATES = ["1969-12-31", "1970-01-01", "2000-02-29", "2001-01-31", "2001-02-01", "0001-01-01", "9999-12-31"]
CLOCKS = ["", " 00:00:00", " 12:00", "T12:00:00", " 23:59:59.999999", " 00:00:00.000001", " 00:00:00.0000005"]
ZONES = ["", "", "Z", "+00", "+05:30", "-11"]
TEXTS = ["", "a", "ab", "abc", "b", "B", "é", "\U0001f600", LONG, LONG + "ab", LONG + "zz", "5", "y" * 64]
PATTERNS = [
    "a%",
    "ab%",
    "%",
    "",
    "a_",
    "_b%",
    "a%c",
    "abc",
    "é%",
    "\U0001f600%",
    LONG + "%",
    LONG + "a%",
    "a\\%",
]
PATTERNS += ["\U0010ffff%", "5%"]
COLLATIONS = st.sampled_from(["", "", "", " COLLATE NOCASE", " COLLATE NOACCENT"])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _moments() -> st.SearchStrategy[str]:
    text = st.builds(lambda d, c, z: d + c + (z if c else ""), *map(st.sampled_from, (DATES, CLOCKS, ZONES)))
    kind = st.sampled_from(["", "DATE ", "TIMESTAMP ", "TIMESTAMPTZ "])
    later = st.sampled_from(["", "", "", " + INTERVAL 1 DAY", " - INTERVAL '1 hour'"])
    plain = st.builds(lambda k, t, more: k + _quoted(t) + (more if k else ""), kind, text, later)
    # What these are worth is another thing in each zone.
    zoned = st.builds(
        "CAST(TIMESTAMPTZ {} AS {})".format, text.map(_quoted), st.sampled_from(["DATE", "TIMESTAMP"])
    )
    return st.one_of(plain, plain, plain, zoned)


def _literals(column: str) -> st.SearchStrategy[str]:
    numbers = st.sampled_from(NUMBERS + FOLDED)
    own = {
        "s": st.builds(str.__add__, st.sampled_from(TEXTS).map(_quoted), COLLATIONS),
        "b": st.sampled_from(["TRUE", "FALSE", "1", "'true'"]),
        "m": st.sampled_from(
            ["TIME '12:00:00.5'", "TIME '00:00:00'", "'12:00:00.5'", "TIME '23:59:59.999999'"]
        ),
        "z": st.sampled_from(["'a'", "CAST('a' AS BLOB)", "''", "BLOB '\\xFF'", "unhex('ff')", "'\\xFF'"]),
    } | dict.fromkeys(("d", "ts", "tz"), _moments())
    any_other = st.one_of(numbers, _moments(), st.sampled_from(TEXTS).map(_quoted))
    mine = own.get(column, numbers)
    return st.sampled_from([mine] * 14 + [any_other]).flatmap(lambda chosen: chosen)


@st.composite
def leaves(draw: st.DrawFn, names: list[str]) -> str:
    name = draw(st.sampled_from(names))
    column = draw(st.sampled_from([f'"{name}"', f"({name})", name.upper(), f"`{name}`"]))
    literal = _literals(name)
    shape = draw(
        st.sampled_from(["compare"] * 4 + ["in", "between", "null", "like", "odd", "bare", "distinct"])
    )
    negated = draw(st.sampled_from(["", "NOT "]))
    if shape == "compare":
        operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "==", "!="]))
        left, right = draw(st.permutations([column, draw(literal)]))
        return f"{left} {operator} {right}"
    if shape == "in":
        values = draw(st.lists(literal, min_size=1, max_size=4))
        return f"{column} {negated}IN ({', '.join(values)})"
    if shape == "between":
        return f"{column} {negated}BETWEEN {draw(literal)} AND {draw(literal)}"
    if shape == "null":
        return f"{column} IS {negated}NULL"
    if shape == "like":
        pattern = _quoted(draw(st.sampled_from(PATTERNS)))
        subject = draw(st.sampled_from(["s", "s", "s", column]))
        form = draw(
            st.sampled_from(
                ["{s} {n}LIKE {p}", "{n}starts_with({s}, {p})", "{n}prefix({s}, {p})", "{s} ^@ {p}"]
            )
        )
        return form.format(s=subject, n=negated, p=pattern)
    if shape == "distinct":
        return f"{column} IS {negated}DISTINCT FROM {draw(literal)}"
    if shape == "bare":
        return draw(
            st.sampled_from(
                ["b", "NOT b", "b IS TRUE", "b IS NOT TRUE", "b IS FALSE", "TRUE", "FALSE", "NULL"]
            )
        )
    return draw(
        st.sampled_from(["i > t", "upper(s) = 'A'", "year(d) = 1970", "i + 1 > 5", "coalesce(t, 5) = 5"])
    )


def predicates(names: list[str], depth: int = 2) -> st.SearchStrategy[str]:
    leaf = leaves(names)
    if depth == 0:
        return leaf
    inner = predicates(names, depth - 1)
    truths = st.sampled_from(["TRUE", "NOT TRUE", "FALSE", "NOT FALSE"])
    return st.one_of(
        leaf,
        leaf,
        st.builds("({}) AND ({})".format, inner, inner),
        st.builds("({}) OR ({})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
        st.builds("({}) IS {}".format, inner, truths),
        st.builds("{} OR {} AND {}".format, leaf, leaf, leaf),
    )


def _spellings(value: object) -> st.SearchStrategy[str]:
    """Literals of a value that a row may have."""
    if isinstance(value, str):
        return st.just(_quoted(value))
    if isinstance(value, bytes):
        return st.just(f"unhex('{value.hex()}')")
    if isinstance(value, dt.date):
        kind = (
            "DATE" if not isinstance(value, dt.datetime) else "TIMESTAMPTZ" if value.tzinfo else "TIMESTAMP"
        )
        return st.sampled_from([f"'{value}'", f"{kind} '{value}'"])
    return st.sampled_from(
        [
            f"{value}",
            f"'{value}'",
            f"{value}e0",
            f"CAST('{value}' AS DECIMAL(20,2))",
            f"CAST({value} AS HUGEINT)",
        ]
    )


@st.composite
def equalities(draw: st.DrawFn, names: list[str], depth: int = 2) -> str:
    """Predicates that Bloom filters are made for."""
    if depth and draw(st.booleans()):
        left, right = (draw(equalities(names, depth - 1)) for _ in range(2))
        form = draw(st.sampled_from(["({}) AND ({})", "({}) OR ({})", "(({}) AND ({})) IS FALSE"]))
        return form.format(left, right)
    name = draw(st.sampled_from(names))
    of_rows = st.sampled_from(VALUES[name]).flatmap(_spellings)
    values = draw(st.lists(st.one_of(of_rows, of_rows, _literals(name)), min_size=1, max_size=3))
    if len(values) == 1:
        return f"{name} = {values[0]}"
    return f"{name} IN ({', '.join(values)})"


FIELDS = (
    """
i|truncate(10, i)|bucket(4, i)|t|truncate(3, t)|bucket(3, t)|u|truncate(7, u)|f|g|s|truncate(2, s)|bucket(3, s)
d|year(d)|month(d)|day(d)|bucket(3, d)|ts|year(ts)|month(ts)|day(ts)|hour(ts)|bucket(4, ts)|tz|month(tz)|hour(tz)
n|truncate(50, n)|bucket(3, n)|h|truncate(3, h)|b|m|bucket(2, m)|bucket(2, z)
""".replace("\n", "|")
    .strip("|")
    .split("|")
)

WIDER = {
    "i": ["HUGEINT", "DECIMAL(21,2)", "DOUBLE", "VARCHAR"],
    "t": ["SMALLINT", "BIGINT", "DECIMAL(5,2)", "FLOAT", "DOUBLE", "VARCHAR"],
    "u": ["DECIMAL(20,0)", "DOUBLE", "HUGEINT"],
    "g": ["DOUBLE", "VARCHAR"],
    "f": ["VARCHAR"],
    "s": [],
    "d": ["VARCHAR"],
    "ts": ["VARCHAR"],
    "n": ["DECIMAL(12,4)", "DOUBLE", "VARCHAR"],
    "b": ["VARCHAR"],
}


@st.composite
def tables(draw: st.DrawFn, names: list[str]) -> dict[str, list[object]]:
    rows = draw(st.integers(0, 6))
    table: dict[str, list[object]] = {}
    for name in names:
        pool = draw(st.lists(st.sampled_from(VALUES[name]), min_size=1, max_size=3))
        nulls = draw(st.sampled_from([0, 0, 1, 4]))
        table[name] = [draw(st.sampled_from(pool + [None] * nulls)) for _ in range(rows)]
    return table
