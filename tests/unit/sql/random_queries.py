"""Random queries over known tables, of every shape that DuckDB's SQL has, with one answer whatever the order of rows.

What a query finds wrong hides in what is left out of its tables: columns that it doesn't name, files and row groups
that its conditions exclude. So conditions are many, and stand where they may decide about other tables' rows.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

LITERALS: Final[Mapping[str, Sequence[str]]] = {
    "BIGINT": ["3", "5", "0", "11", "-1", "2.5", "1e1", "'4'", "99999999999999999999"],
    "INTEGER": ["2", "0", "-3", "4", "2.5", "3::TINYINT", "'4'"],
    "DOUBLE": ["1.5", "5", "'nan'::DOUBLE", "0", "-0.0", "'inf'::DOUBLE", "-3", "0.1", "7e0", "'NaN'"],
    "FLOAT": ["1.5", "5", "'nan'::FLOAT", "0", "'inf'::DOUBLE", "0.1", "16777217"],
    "VARCHAR": ["'a'", "''", "'it''s'", "'Ä'", "'5'", "'B'", "'a' COLLATE NOCASE", "$$zz$$"],
    "DATE": ["DATE '2024-01-10'", "'2024-03-05'", "DATE '0001-01-05'", "DATE '9999-12-10'", "DATE 'infinity'"],
    "TIMESTAMP": ["TIMESTAMP '2024-01-10 12:00:00'", "DATE '2024-03-05'", "'2024-01-15'"],
    "TIMESTAMP WITH TIME ZONE": ["TIMESTAMPTZ '2024-01-10 12:00:00+02'", "DATE '2024-03-05'"],
    "DECIMAL(12,2)": ["1.5", "0", "-100", "12.255", "1e1"],
    "BLOB": ["'a'::BLOB", "''", "'\\xFF'::BLOB"],
    "BOOLEAN": ["true", "false"],
}  # fmt: skip
SHAPES: Final[Mapping[str, Sequence[str]]] = {
    "BIGINT": ["{} % 3 = 0", "{0} + 1 > 4", "({0}, 1) = (3, 1)", "{} = ANY([3, 5])", "{} <> ALL([3])", "{} IN [3]"],
    "DOUBLE": ["isnan({})", "NOT ({} <= 7)", "({} > 100) = true", "greatest({}, 1) > 1e9", "{}::FLOAT >= 100"],
    "VARCHAR": [
        "{} LIKE 'a%'", "{} NOT LIKE 'a%'", "{} LIKE '_'", "{} ILIKE 'A%'", "{} LIKE 'a\\%' ESCAPE '\\'",
        "{} COLLATE NOCASE = 'A'", "{} ^@ 'a'", "upper({}) = 'A'", "TRY_CAST({} AS INTEGER) = 5", "length({}) > 1",
        "{} GLOB 'a*'",
    ],
    "DATE": ["year({}) = 2024", "month({}) IN (1, 12)", "{}::VARCHAR LIKE '2024%'"],
    "BOOLEAN": ["{}", "NOT {}", "{} IS NOT TRUE", "{} IS FALSE"],
}  # fmt: skip
PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "DOUBLE[]": ("{}[1]", "DOUBLE"),
    "STRUCT(a DOUBLE, b VARCHAR)": ("({}).a", "DOUBLE"),
    "STRUCT(a FLOAT)[]": ("{}[1].a", "FLOAT"),
    "MAP(VARCHAR, DOUBLE)": ("{}['p']", "DOUBLE"),
}
COMPARED: Final = ("=", "<", ">", "<=", ">=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
WHOLE: Final = ("BIGINT", "INTEGER")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Source:
    """What stands in a FROM: its text, its alias, and the columns with their types."""

    text: str
    alias: str
    columns: Mapping[str, str]


class Queries:
    """Queries over tables; each name in `tables` has its columns and their types, and `id` is a number that no two
    rows of a table share."""

    def __init__(self, rng: random.Random, tables: Mapping[str, Mapping[str, str]], id: str) -> None:
        self.rng, self.tables, self.id = rng, tables, id
        self._count = 0
        self._ctes: list[Source] = []

    def query(self) -> str:
        self._count, self._ctes = 0, []
        begin = self._with() if self.rng.random() < 0.2 else ""
        text, scope = self._from()
        terms = [
            self.condition(scope, self.rng.choice([0, 0, 1, 2])) for _ in range(self.rng.choice([0, 1, 1, 2]))
        ]
        if len(scope) > 1 and self.rng.random() < 0.3:
            terms.append(self._of_null(scope[1]))
        where = f" WHERE {' AND '.join(terms)}" if terms else ""
        shape = self.rng.choice(
            [self._plain, self._plain, self._grouped, self._windowed, self._distinct, self._set]
        )
        return begin + shape(f"FROM {text}{where}", scope)

    def condition(self, scope: Sequence[Source], depth: int = 1) -> str:
        """A condition over the columns of sources."""
        pick, again = self.rng.choice, depth - 1
        shape = self.rng.random() if depth > 0 else 1.0
        if shape < 0.4:
            return f"({self.condition(scope, again)} {pick(['AND', 'AND', 'OR'])} {self.condition(scope, again)})"
        if shape < 0.48:
            return f"NOT ({self.condition(scope, again)})"
        if shape < 0.52:
            return f"({self.condition(scope, again)}) IS {pick(['TRUE', 'NOT TRUE', 'FALSE', 'NULL', 'NOT NULL'])}"
        if shape < 0.55:
            return (
                f"CASE WHEN {self.condition(scope, again)} THEN {self.condition(scope, again)} ELSE NULL END"
            )
        if shape < 0.63:
            return self._subquery(scope, again)
        column, kind = self._column(scope)
        literals, shapes = (
            LITERALS[kind],
            SHAPES.get({"INTEGER": "BIGINT", "FLOAT": "DOUBLE"}.get(kind, kind), ()),
        )
        leaf = self.rng.random()
        if leaf < 0.4:
            return f"{column} {pick(COMPARED)} {pick(literals)}"
        if leaf < 0.5:
            return f"{pick(literals)} {pick(COMPARED[:6])} {column}"
        if leaf < 0.6:
            return f"{column} {pick(['', 'NOT '])}IN ({pick(literals)}, {pick([*literals, 'NULL'])})"
        if leaf < 0.68:
            return f"{column} {pick(['', 'NOT '])}BETWEEN {pick(literals)} AND {pick(literals)}"
        if leaf < 0.78:
            return f"{column} IS {pick(['', 'NOT '])}NULL"
        if leaf < 0.84:
            return f"{column} {pick(COMPARED)} {self._column(scope, [kind])[0]}"
        return pick(shapes).format(column) if shapes else f"{column} = {column}"

    # -- parts

    def _column(self, scope: Sequence[Source], kinds: Sequence[str] = ()) -> tuple[str, str]:
        """A column that can be compared, or a part of one, and its type."""
        known = [
            (source, name, kind)
            for source in scope
            for name, kind in source.columns.items()
            if (kind in kinds if kinds else kind in LITERALS or kind in PARTS)
        ]
        if not kinds and self.rng.random() < 0.3:  # floats, of which statistics tell less than of others
            known = [one for one in known if one[2] in (*PARTS, "DOUBLE", "FLOAT")] or known
        source, name, kind = self.rng.choice(known)
        alone = sum(name.lower() == other.lower() for each in scope for other in each.columns) == 1
        text = quoted(name) if alone and self.rng.random() < 0.5 else f"{source.alias}.{quoted(name)}"
        if kind in PARTS and not kinds:
            part, kind = PARTS[kind]
            text = part.format(text)
        return text, kind

    def _id(self, scope: Sequence[Source]) -> str:
        return f"{scope[0].alias}.{quoted(self.id)}"

    def _table(self) -> Source:
        self._count += 1
        alias = self.rng.choice([f"a{self._count}", f'"A {self._count}"'])
        if self._ctes and self.rng.random() < 0.4:
            cte = self.rng.choice(self._ctes)
            return Source(cte.text, alias, cte.columns)
        name = self.rng.choice(list(self.tables))
        return Source(self.rng.choice(["", "main."]) + quoted(name), alias, self.tables[name])

    def _with(self) -> str:
        """A CTE, which may have the name of a table."""
        source, name = self._table(), self.rng.choice(["c", *self.tables])
        kept = self.rng.choice(["", "MATERIALIZED ", "NOT MATERIALIZED "])
        body = f"SELECT * FROM {source.text} {source.alias} WHERE {self.condition([source])}"
        self._ctes.append(Source(quoted(name), "", source.columns))
        return f"WITH {quoted(name)} AS {kept}({body}) "

    def _derived(self) -> Source:
        """A subquery: with conditions, columns that have one another's names, or by their places."""
        inner = self._table()
        self._count += 1
        alias, names = f"q{self._count}", list(inner.columns)
        where = f" WHERE {self.condition([inner])}" if self.rng.random() < 0.6 else ""
        whole = [name for name in names if inner.columns[name] in WHOLE and name != self.id]
        shape = self.rng.random()
        if shape < 0.2 and len(whole) > 1:
            swapped = dict(zip(whole, whole[1:] + whole[:1], strict=True))
            items = ", ".join(f"{inner.alias}.{quoted(swapped.get(n, n))} AS {quoted(n)}" for n in names)
            columns = {name: inner.columns[swapped.get(name, name)] for name in names}
            return Source(f"(SELECT {items} FROM {inner.text} {inner.alias}{where})", alias, columns)
        if shape < 0.4:
            renamed = ", ".join(f"p{number}" if n != self.id else quoted(n) for number, n in enumerate(names))
            columns = {
                f"p{n}" if name != self.id else name: kind
                for n, (name, kind) in enumerate(inner.columns.items())
            }
            return Source(inner.text, f"{alias}({renamed})", columns)
        return Source(f"(SELECT * FROM {inner.text} {inner.alias}{where})", alias, inner.columns)

    def _from(self) -> tuple[str, list[Source]]:
        """A FROM, and the sources whose columns may be named; the first one's rows are never made up."""
        pick = self.rng.choice
        first = self._named(self._table() if self.rng.random() < 0.7 else self._derived())
        text, scope = first[0], [first[1]]
        for _ in range(pick([0, 0, 1, 1, 2])):
            shown, source = self._named(self._table() if self.rng.random() < 0.8 else self._derived())
            left, right = self._column(scope, WHOLE)[0], self._column([source], WHOLE)[0]
            if "." not in left or "." not in right:
                left, right = self._id(scope), f"{source.alias}.{quoted(self.id)}"
            extra = f" AND {self.condition([*scope, source])}" if self.rng.random() < 0.5 else ""
            shape = self.rng.random()
            if shape < 0.1:
                text += f" {pick(['SEMI', 'ANTI'])} JOIN {shown} ON {left} = {right}"
                continue
            if shape < 0.2 and len(scope) == 1:
                text += f" {pick(['', 'LEFT'])} JOIN {shown} USING ({quoted(self.id)})"
            elif shape < 0.3:
                body = f"SELECT * FROM {shown} WHERE {left} = {right} AND {self.condition([source])}"
                text += f", LATERAL ({body}) {source.alias}"
            else:
                side = pick(["", "INNER", "LEFT", "LEFT"] + (["RIGHT", "FULL"] if len(scope) == 1 else []))
                text += f" {side} JOIN {shown} ON {left} = {right}{extra}"
            scope.append(source)
        return text, scope

    def _named(self, source: Source) -> tuple[str, Source]:
        """The text of a source, and the source under its alias alone."""
        return f"{source.text} {source.alias}", Source(
            source.text, source.alias.partition("(")[0], source.columns
        )

    def _of_null(self, source: Source) -> str:
        """A condition that is true for rows that an outer join makes up, too."""
        name, kind = self.rng.choice(
            [(name, kind) for name, kind in source.columns.items() if kind in LITERALS]
        )
        column, literal = f"{source.alias}.{quoted(name)}", self.rng.choice(LITERALS[kind])
        shapes = [
            "{0} IS NULL",
            "({0} = {1}) IS NOT TRUE",
            "{0} IS DISTINCT FROM {1}",
            "{0} = {1} OR {0} IS NULL",
        ]
        return f"({self.rng.choice(shapes).format(column, literal)})"

    def _subquery(self, scope: Sequence[Source], depth: int) -> str:
        pick, inner = self.rng.choice, self._table()
        shown, own = f"{inner.text} {inner.alias}", self._column([inner], WHOLE)[0]
        outer = self._id(scope)
        where = self.condition([inner], depth)
        if self.rng.random() < 0.5:
            where += f" AND {inner.alias}.{quoted(self.id)} {pick(['=', '<'])} {outer}"
        if self.rng.random() < 0.2:
            where += f" AND {self.condition([scope[0]], 0)}" if len(scope) == 1 else ""
        return pick(
            [
                f"{pick(['', 'NOT '])}EXISTS (SELECT 1 FROM {shown} WHERE {where})",
                f"{outer} {pick(['', 'NOT '])}IN (SELECT {own} FROM {shown} WHERE {where})",
                f"{outer} {pick(['<', '>='])} (SELECT {pick(['max', 'count'])}({own}) FROM {shown} WHERE {where})",
                f"{outer} {pick(['> ALL', '= ANY', '<> ALL'])} (SELECT {own} FROM {shown} WHERE {where})",
            ]
        )

    # -- shapes of queries

    def _plain(self, rest: str, scope: Sequence[Source]) -> str:
        items = [self._column(scope)[0] for _ in range(self.rng.randint(1, 4))]
        if self.rng.random() < 0.3:  # another name of a column, which a condition may mean, or not
            name = self.rng.choice(["z", *map(quoted, scope[0].columns)])
            items.append(f"{self._column(scope, WHOLE)[0]} + 1 AS {name}")
            rest += f"{' AND' if ' WHERE ' in rest else ' WHERE'} {name} > 2" if len(scope) == 1 else ""
        if self.rng.random() < 0.1:
            items.append(f"#{self.rng.randint(1, 3)}")
        if self.rng.random() < 0.1:
            items = ["*"]
        end = self.rng.choice(["", "", f" ORDER BY ALL LIMIT {self.rng.randint(1, 20)}"])
        return f"SELECT {', '.join(items)} {rest}{end}"

    def _grouped(self, rest: str, scope: Sequence[Source]) -> str:
        pick = self.rng.choice
        made = [
            f"{pick(['min', 'max', 'count', 'count(DISTINCT'])}({self._column(scope)[0]}" for _ in range(2)
        ]
        counted = ["count(*)", *(f"{one}{')' * one.count('(')}" for one in made if "COLLATE" not in one)]
        counted.append(f"sum({self._column(scope, WHOLE)[0]}) FILTER (WHERE {self.condition(scope, 0)})")
        by = list(dict.fromkeys(self._column(scope)[0] for _ in range(self.rng.randint(0, 2))))
        if not by:
            return f"SELECT {', '.join(counted)} {rest}"
        keys = ", ".join(by)
        how = pick([keys, keys, "ALL", f"ROLLUP ({keys})", f"CUBE ({keys})", f"GROUPING SETS (({keys}), ())"])
        having = pick(["", "", f" HAVING {counted[-1]} IS NOT NULL"])
        return f"SELECT {keys}, {', '.join(counted)} {rest} GROUP BY {how}{having}"

    def _windowed(self, rest: str, scope: Sequence[Source]) -> str:
        own, part, value = self._id(scope), self._column(scope)[0], self._column(scope, WHOLE)[0]
        made = self.rng.choice(
            [
                f"rank() OVER (PARTITION BY {part} ORDER BY {own})",
                f"sum({value}) OVER (PARTITION BY {part})",
                f"count(*) OVER (ORDER BY {own} RANGE BETWEEN 3 PRECEDING AND CURRENT ROW)",
                f"dense_rank() OVER (ORDER BY {part} DESC NULLS LAST)",
            ]
        )
        return f"SELECT {own}, {made} AS w {rest}{self.rng.choice(['', ' QUALIFY w > 1'])}"

    def _distinct(self, rest: str, scope: Sequence[Source]) -> str:
        one, other = self._column(scope)[0], self._column(scope)[0]
        if self.rng.random() < 0.5:
            return f"SELECT DISTINCT {one}, {other} {rest}"
        return f"SELECT DISTINCT ON ({one}) {one}, {other} {rest} ORDER BY {one}, {other}"

    def _set(self, rest: str, scope: Sequence[Source]) -> str:
        inner = self._table()
        column, _ = self._column([inner], WHOLE)
        again = f"SELECT {column} FROM {inner.text} {inner.alias} WHERE {self.condition([inner])}"
        how = self.rng.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL"])
        return f"SELECT {self._column(scope, WHOLE)[0]} {rest} {how} {again}"
