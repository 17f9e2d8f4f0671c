"""DuckDB type names: a parser into a small tree, and back to the text that DuckDB's `typeof` prints.

Logs record a column's type by its DuckDB name, and the reference compares those names as strings, so the
canonical text has to be DuckDB's own to the letter, down to which field names of a STRUCT stand in quotes.
Pure: knows neither Arrow nor DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from firn.errors import InvalidInputError
from firn.names import fold


@dataclass(frozen=True)
class Scalar:
    """A type without parts, by its canonical name; also any that Firn knows nothing about."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Decimal:
    """`precision` digits in all, `scale` of them behind the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})"


@dataclass(frozen=True)
class Enum:
    """One of `values`, in this order."""

    values: tuple[str, ...]

    def __str__(self) -> str:
        return "ENUM(" + ", ".join("'" + value.replace("'", "''") + "'" for value in self.values) + ")"


@dataclass(frozen=True)
class List:
    """Items of one type; exactly `size` of them where that isn't None."""

    item: Type
    size: int | None = None

    def __str__(self) -> str:
        return f"{self.item}[{'' if self.size is None else self.size}]"


@dataclass(frozen=True)
class Struct:
    """Named fields in order; no two names are equal up to case."""

    fields: tuple[tuple[str, Type], ...]

    def __str__(self) -> str:
        return "STRUCT(" + ", ".join(f"{quoted(name)} {kind}" for name, kind in self.fields) + ")"


@dataclass(frozen=True)
class Map:
    """Keys of one type to values of another."""

    key: Type
    value: Type

    def __str__(self) -> str:
        return f"MAP({self.key}, {self.value})"


Type = Scalar | Decimal | Enum | List | Struct | Map
"""A parsed type name; `str` gives the canonical text."""

NULL = Scalar('"NULL"')
"""The type of nothing but nulls, as DuckDB spells it."""


def leaves(kind: Type) -> Iterator[Type]:
    """The types without parts that a type is made of.

    >>> [str(leaf) for leaf in leaves(parse("STRUCT(a BIGINT[], m MAP(VARCHAR, DATE))"))]
    ['BIGINT', 'VARCHAR', 'DATE']
    """
    if isinstance(kind, List):
        yield from leaves(kind.item)
    elif isinstance(kind, Map):
        yield from (*leaves(kind.key), *leaves(kind.value))
    elif isinstance(kind, Struct):
        for _, inner in kind.fields:
            yield from leaves(inner)
    else:
        yield kind


@lru_cache(maxsize=4096)
def parse(text: str) -> Type:
    """The tree of a type name; aliases come out under their canonical name.

    A name that Firn doesn't know parses to an opaque `Scalar`: a reader of a log must not fail on a type of a later
    DuckDB. `InvalidInputError` for text that isn't a type name at all. Free of requests.

    >>> parse("INT8[]")
    List(item=Scalar(name='BIGINT'), size=None)
    """
    return _Parser(text).whole()


def canonical(text: str) -> str:
    """The text that DuckDB's `typeof` prints for this type.

    >>> canonical('struct("when" timestamptz, n numeric)')
    'STRUCT("when" TIMESTAMP WITH TIME ZONE, n DECIMAL(18,3))'
    """
    return str(parse(text))


def quoted(name: str) -> str:
    """An identifier, in double quotes where DuckDB prints it so: keywords, and all but plain ASCII words.

    >>> quoted("origin"), quoted("year"), quoted('a"b')
    ('origin', '"year"', '"a""b"')
    """
    if _PLAIN.fullmatch(name) and name.lower() not in _KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


_DEEPEST = 64

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted>"(?:[^"]|"")*") | (?P<string>'(?:[^']|'')*') |
        (?P<number>\d+) | (?P<word>[^\W\d][\w$]*) | (?P<sign>[()\[\],])
    )""",
    re.VERBOSE,
)

_ALIASES = {
    alias: name
    for name, aliases in {
        "TINYINT": "INT1",
        "SMALLINT": "INT2 INT16 SHORT",
        "INTEGER": "INT INT4 INT32 SIGNED INTEGRAL",
        "BIGINT": "INT8 INT64 LONG OID",
        "HUGEINT": "INT128",
        "UTINYINT": "UINT8",
        "USMALLINT": "UINT16",
        "UINTEGER": "UINT32",
        "UBIGINT": "UINT64",
        "UHUGEINT": "UINT128",
        "FLOAT": "FLOAT4 REAL",
        "DOUBLE": "FLOAT8",
        "BOOLEAN": "BOOL LOGICAL",
        "VARCHAR": "TEXT STRING CHAR CHARACTER BPCHAR NVARCHAR",
        "BLOB": "BYTEA BINARY VARBINARY",
        "UUID": "GUID",
        "TIMESTAMP": "DATETIME TIMESTAMP_US",
        "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
        "TIME WITH TIME ZONE": "TIMETZ",
        "DECIMAL": "DEC NUMERIC",
        "STRUCT": "ROW",
        "BIT": "BITSTRING",
        "BIGNUM": "VARINT",
        '"NULL"': "NULL",
    }.items()
    for alias in aliases.split()
}


class _Parser:
    """Recursive descent over the tokens of one type name."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._tokens())
        self.at = 0
        self.depth = 0

    def _tokens(self) -> Iterator[tuple[str, str, int]]:
        at, end = 0, len(self.text.rstrip())
        while at < end:
            found = _TOKEN.match(self.text, at)
            if found is None or found.lastgroup is None:
                raise self._error(f"{self.text[at:].strip()[:10]!r} is out of place")
            at = found.end()
            yield found.lastgroup, found[found.lastgroup], at

    def whole(self) -> Type:
        kind = self.type()
        if self.at < len(self.tokens):
            raise self._error(f"{self.tokens[self.at][1]!r} is out of place")
        return kind

    def type(self) -> Type:
        self.depth += 1
        kind, lists = self._base(), 0
        while True:
            if lists > _DEEPEST:
                raise self._error(f"it is nested more than {_DEEPEST} deep")
            if self._word("ARRAY"):
                size = self._brackets() if self._next() == "[" else None
            elif self._next() == "[":
                size = self._brackets()
            else:
                self.depth -= 1
                return kind
            kind, lists = List(kind, size), lists + 1

    def _base(self) -> Type:
        if self.depth > _DEEPEST:
            raise self._error(f"it is nested more than {_DEEPEST} deep")
        group, token, _ = self._take("word", "quoted")
        if group == "quoted":
            return Scalar(token)
        name = _ALIASES.get(token.upper(), token.upper())
        if name == "STRUCT":
            return self._struct()
        if name == "MAP":
            self._sign("(")
            key = self.type()
            self._sign(",")
            value = self.type()
            self._sign(")")
            return Map(key, value)
        if name == "ENUM":
            return self._enum()
        if name == "DECIMAL":
            return self._decimal()
        if name in ("TIMESTAMP", "TIME"):
            return self._time(name)
        if name == "DOUBLE":
            self._word("PRECISION")
        elif name == "VARCHAR":
            self._word("VARYING")
            self._numbers()  # DuckDB ignores a length
        elif self._next() == "(":
            return Scalar(name + self._raw())
        return Scalar(name)

    def _struct(self) -> Type:
        fields: list[tuple[str, Type]] = []
        if self._next() != "(":
            return Scalar("STRUCT")
        self._sign("(")
        while True:
            group, token, _ = self._take("word", "quoted")
            name = token[1:-1].replace('""', '"') if group == "quoted" else token
            if any(fold(name) == fold(other) for other, _ in fields):
                raise self._error(f"it has the field {name!r} twice (case doesn't count)")
            fields.append((name, self.type()))
            if self._next() != ",":
                self._sign(")")
                return Struct(tuple(fields))
            self._sign(",")

    def _enum(self) -> Type:
        self._sign("(")
        values = [self._take("string")[1]]
        while self._next() == ",":
            self._sign(",")
            values.append(self._take("string")[1])
        self._sign(")")
        return Enum(tuple(value[1:-1].replace("''", "'") for value in values))

    def _decimal(self) -> Type:
        precision, scale = ((*self._numbers(), 0) if self._next() == "(" else (18, 3))[:2]
        if not (1 <= precision <= 38 and scale <= precision):
            raise self._error("a DECIMAL has 1 to 38 digits, and no more of them behind the point")
        return Decimal(precision, scale)

    def _time(self, name: str) -> Type:
        unit = self._numbers()
        if unit and name == "TIMESTAMP":
            if unit[0] > 9:
                raise self._error("a TIMESTAMP has at most 9 digits of seconds")
            name = ("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP_NS")[(unit[0] + 2) // 3]
        for word, suffix in (("WITH", " WITH TIME ZONE"), ("WITHOUT", "")):
            if self._word(word):
                if not (self._word("TIME") and self._word("ZONE")):
                    raise self._error(f"TIME ZONE has to follow {word}")
                return Scalar(name + suffix)
        return Scalar(name)

    def _numbers(self) -> list[int]:
        found: list[int] = []
        if self._next() == "(":
            self._sign("(")
            found.append(int(self._take("number")[1]))
            while self._next() == ",":
                self._sign(",")
                found.append(int(self._take("number")[1]))
            self._sign(")")
        return found

    def _brackets(self) -> int | None:
        self._sign("[")
        size = None if self._next() == "]" else int(self._take("number")[1])
        self._sign("]")
        return size

    def _raw(self) -> str:
        start, depth = self.tokens[self.at - 1][2], 0
        while True:
            _, token, end = self._take("quoted", "string", "number", "word", "sign")
            depth += {"(": 1, ")": -1}.get(token, 0)
            if not depth:
                return self.text[start:end].strip()

    def _next(self) -> str | None:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else None

    def _word(self, word: str) -> bool:
        there = (self._next() or "").upper() == word
        self.at += there
        return there

    def _sign(self, sign: str) -> None:
        if self._next() != sign:
            raise self._error(f"{sign!r} is missing {self._where()}")
        self.at += 1

    def _take(self, *groups: str) -> tuple[str, str, int]:
        if self.at == len(self.tokens) or self.tokens[self.at][0] not in groups:
            wanted = {1: f"a {groups[0]}", 2: "a name"}.get(len(groups), "')'")
            raise self._error(f"{wanted} is missing {self._where()}")
        self.at += 1
        return self.tokens[self.at - 1]

    def _where(self) -> str:
        return "at the end" if self.at == len(self.tokens) else f"before {self.tokens[self.at][1]!r}"

    def _error(self, what: str) -> InvalidInputError:
        return InvalidInputError(
            f"{self.text[:200]!r} isn't a DuckDB type name: {what}; write BIGINT, DECIMAL(12,2), VARCHAR[], "
            "STRUCT(a BIGINT, b VARCHAR), MAP(VARCHAR, BIGINT) and the like"
        )


# Frozen: the keywords of DuckDB 1.4. Other versions know a few more, so names that hold such a word differ in
# quotes only; Firn compares parsed names.
_KEYWORD_TEXT = """
abort absolute access action add admin after aggregate all also alter always analyse analyze and
anti any array as asc asof assertion assignment asymmetric at attach attribute authorization
backward before begin between bigint binary bit boolean both by cache call called cascade cascaded
case cast catalog centuries century chain char character characteristics check checkpoint class
close cluster coalesce collate collation column columns comment comments commit committed
compression concurrently configuration conflict connection constraint constraints content continue
conversion copy cost create cross csv cube current cursor cycle data database day days deallocate
dec decade decades decimal declare default defaults deferrable deferred definer delete delimiter
delimiters depends desc describe detach dictionary disable discard distinct do document domain
double drop each else enable encoding encrypted end enum error escape event except exclude excluding
exclusive execute exists explain export export_state extension extensions external extract false
family fetch filter first float following for force foreign forward freeze from full function
functions generated glob global grant granted group grouping grouping_id groups handler having
header hold hour hours identity if ignore ilike immediate immutable implicit import in include
including increment index indexes inherit inherits initially inline inner inout input insensitive
insert install instead int integer intersect interval into invoker is isnull isolation join json key
label lambda language large last lateral leading leakproof left level like limit listen load local
location lock locked logged macro map mapping match matched materialized maxvalue merge method
microsecond microseconds millennia millennium millisecond milliseconds minute minutes minvalue mode
month months move name names national natural nchar new next no none not nothing notify notnull
nowait null nullif nulls numeric object of off offset oids old on only operator option options or
order ordinality others out outer over overlaps overlay overriding owned owner parallel parser
partial partition partitioned passing password percent persistent pivot pivot_longer pivot_wider
placing plans policy position positional pragma preceding precision prepare prepared preserve
primary prior privileges procedural procedure program publication qualify quarter quarters quote
range read real reassign recheck recursive ref references referencing refresh reindex relative
release rename repeatable replace replica reset respect restart restrict returning returns revoke
right role rollback rollup row rows rule sample savepoint schema schemas scope scroll search second
seconds secret security select semi sequence sequences serializable server session set setof sets
share show similar simple skip smallint snapshot some sorted source sql stable standalone start
statement statistics stdin stdout storage stored strict strip struct subscription substring
summarize symmetric sysid system table tables tablesample tablespace target temp template temporary
text then ties time timestamp to trailing transaction transform treat trigger trim true truncate
trusted try_cast type types unbounded uncommitted unencrypted union unique unknown unlisten unlogged
unpack unpivot until update use user using vacuum valid validate validator value values varchar
variable variadic varying verbose version view views virtual volatile week weeks when where
whitespace window with within without work wrapper write xml xmlattributes xmlconcat xmlelement
xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable year years yes zone
"""
_KEYWORDS = frozenset(_KEYWORD_TEXT.split())
