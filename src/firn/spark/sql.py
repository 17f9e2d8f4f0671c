"""SQL over tables on Spark: DuckDB's dialect in, a Spark DataFrame out.

Each place where the query reads a table becomes a placeholder `{t0}`, `{t1}`, … that `spark.sql` fills with a
DataFrame of its own, so no view is left behind and nothing outside of the query changes. Placeholders of one
table share a snapshot, and differ in the files that the predicates around them leave.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from sqlglot import exp

from firn.errors import InvalidInputError, TableNotFoundError
from firn.names import fold
from firn.predicate.dialect import function_names, parse, to_duckdb, to_spark
from firn.predicate.predicate import Predicate
from firn.spark.native.pushdown import argument, conjuncts_by_table, used_columns
from firn.spark.plan import plan_read
from firn.spark.reads import QueryMoment, TableRead

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OUTSIDE = frozenset(("reflect", "java_method", "try_reflect", "getenv", "read_text", "read_blob"))
"""Functions that reach outside of the tables."""


class QueryTables(Protocol):
    """The tables that a query can name; `firn.Database` is one."""

    def table(self, name: str) -> Any: ...

    def tables(self) -> list[str]: ...


def run_sql(spark: SparkSession, query: str, tables: QueryTables) -> DataFrame:
    """One SELECT over the tables; lazy, and bound to one snapshot of each table, and of all record tables together.

    Args:
        spark: where it runs.
        query: one SELECT (or SELECTs joined by UNION and the like, with CTEs) in DuckDB's dialect.
        tables: the tables that it can name. Names match exactly, else in any case.

    Raises:
        InvalidInputError: text that doesn't parse or isn't a SELECT, unknown columns, table functions.
        TableNotFoundError: a table that isn't there; the message names those that are.
        UnsupportedError: what Spark's SQL can't express.

    Cost: that of opening and scanning each table once.
    """
    tree = parse(query, "query")
    nodes = table_nodes(tree, query)
    opened = {name: _find(tables, name) for name in dict.fromkeys(node.name for node in nodes)}
    # All are open before a snapshot is taken, which then has them.
    reads, moment = {}, QueryMoment()
    for name, table in opened.items():
        read = plan_read(table, moment=moment)
        reads[name] = read.select(used_columns(tree, read.known))
    by_node = {id(node): reads[node.name] for node in nodes}
    wanted = conjuncts_by_table(tree, lambda node: by_node[id(node)].known if id(node) in by_node else None)
    frames: dict[tuple[str, Hashable], DataFrame] = {}

    def frame_of(node: exp.Table) -> DataFrame:
        read = pruned_read(by_node[id(node)], wanted.get(id(node), []))
        key = (read.table, read.scope())
        if key not in frames:
            frames[key] = read.frame(spark)
        return frames[key]

    return _run(spark, query, tree, nodes, frame_of)


def pruned_read(read: TableRead, conjuncts: Sequence[exp.Expression]) -> TableRead:
    """Less what can't hold a row for which all conjuncts are true; Spark asks them of the rows."""
    understood = []
    for conjunct in conjuncts:
        # Spark will say what is wrong with one that isn't understood, or knows better.
        with suppress(InvalidInputError):
            understood.append(Predicate.parse(to_duckdb(conjunct), read.known))
    return read.pruned(understood) if understood else read


def table_nodes(tree: exp.Expression, query: str) -> list[exp.Table]:
    """The places where a query reads a table, CTEs left out.

    Raises `InvalidInputError` for what isn't a SELECT, and for anything but plain table names.
    """
    where = f"the query {query!r}"
    if not isinstance(tree, exp.Query):
        raise InvalidInputError(
            f"{where} isn't a SELECT, which is all that sql() runs. Tables change by their own verbs (append, "
            "delete, merge); db.tables() lists them, table.snapshot().columns tells their columns, and explain() of "
            "a result shows its plan."
        )
    nodes = []
    for node in tree.walk():
        if isinstance(node, (exp.Into, exp.DML, exp.DDL, exp.Command)) and not isinstance(node, exp.Query):
            raise InvalidInputError(f"{where} does more than select: {node.sql('duckdb')!r}.")
        if function_names(node) & _OUTSIDE:
            raise InvalidInputError(
                f"{where} calls {node.sql('duckdb')}, which reaches outside of the tables."
            )
        if not isinstance(node, exp.Table) or _is_cte(node):
            continue
        if not isinstance(node.this, exp.Identifier):
            raise InvalidInputError(
                f"{where} reads the table function {node.this.sql('duckdb')}; it can read "
                "tables of the database only."
            )
        if node.args.get("version") or node.args.get("when"):
            raise InvalidInputError(
                f"{where} asks for a version of {node.name!r}; scan(at=…).to_spark() reads an older one."
            )
        if node.args.get("db") or node.args.get("catalog"):
            raise TableNotFoundError(
                f"{where} reads {node.sql('duckdb', comments=False)!r}; name a table of this "
                "database, without a schema."
            )
        nodes.append(node)
    return nodes


def _is_cte(node: exp.Table) -> bool:
    """Whether a name means a CTE: one of a WITH around it, an earlier one of the same WITH, or its own if
    that is recursive."""
    if node.args.get("db") or not isinstance(node.this, exp.Identifier):
        return False
    name = fold(node.name)
    child: exp.Expression = node
    parent = node.parent
    within: exp.CTE | None = None
    while parent is not None:
        if isinstance(parent, exp.CTE):
            within = parent
        with_ = argument(parent, "with") if isinstance(parent, exp.Expression) else None
        if isinstance(with_, exp.With):
            visible = list(with_.expressions)
            if child is with_ and within is not None:
                at = next(i for i, cte in enumerate(visible) if cte is within)
                recursive = bool(with_.args.get("recursive"))
                visible = visible[: at + 1] if recursive else visible[:at]
            if any(fold(cte.alias) == name for cte in visible):
                return True
        if not isinstance(parent, (exp.CTE, exp.With)):
            within = None
        child, parent = parent, parent.parent
    return False


def _find(tables: QueryTables, name: str) -> Any:
    known = tables.tables()
    found = [name] if name in known else [other for other in known if fold(other) == fold(name)]
    if len(found) != 1:
        raise TableNotFoundError(
            f"there is no table {name!r}; there are: {', '.join(known) or 'none yet'}."
            if not found
            else f"{name!r} can mean the tables {' and '.join(map(repr, found))}; write one of them exactly."
        )
    return tables.table(found[0])


def _run(
    spark: SparkSession,
    query: str,
    tree: exp.Expression,
    nodes: list[exp.Table],
    frame_of: Callable[[exp.Table], DataFrame],
) -> DataFrame:
    from pyspark.errors import AnalysisException, ParseException

    frames = {f"t{number}": frame_of(node) for number, node in enumerate(nodes)}
    text = splice(tree, nodes, query)
    try:
        frame: DataFrame = spark.sql(text, **frames) if frames else spark.sql(text)
        _ = frame.schema  # Spark Connect analyses only now
    except (AnalysisException, ParseException) as error:
        reason = str(error).split("\n", 1)[0]
        raise InvalidInputError(f"Spark can't run the query {query!r}: {reason}") from error
    return frame


def splice(tree: exp.Expression, nodes: list[exp.Table], query: str) -> str:
    """Spark's text of the query, each of `nodes` replaced by `{t0}`, `{t1}`, …. Changes the tree."""
    mark = "firn_table_"
    while mark in query:
        mark += "_"
    for number, node in enumerate(nodes):
        if node.args.get("alias") is None:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=True)))
        elif not node.alias:
            node.args["alias"].set("this", exp.to_identifier(node.name, quoted=True))
        node.set("this", exp.to_identifier(f"{mark}{number}", quoted=True))
    text = to_spark(tree)
    if not nodes:
        return text
    text = text.replace("{", "{{").replace("}", "}}")
    for number in range(len(nodes)):
        text = text.replace(f"`{mark}{number}`", f"{{t{number}}}")
    return text
