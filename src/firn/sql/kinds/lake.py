"""Statements on lake tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any

from firn.errors import UnsupportedError
from firn.journal.model import Snapshot
from firn.lake.definition.order import split_order
from firn.lake.maintain.alter import TableDefinition
from firn.names import fold
from firn.predicate.select import shown
from firn.predicate.words import words
from firn.sql.kinds.kind import SourceRows, SqlKind, Target, TransactionVerb, placed
from firn.sql.outcome import Outcome
from firn.sql.syntax.statements import CreateTable, Insert, Merge


class LakeInSql(SqlKind):
    title = "lake"

    def transaction(self, table: Any) -> TransactionVerb | None:
        return "writer_transaction" if table.context.definition.journal == "writer" else None

    def checks(self, table: Any) -> Collection[str]:
        found: TableDefinition = table.definition()
        return found.checks

    def options(self, statement: CreateTable, options: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "schema": statement.columns or None,
            "key": statement.key,
            "partition_by": statement.partition_by,
            "sort_by": statement.sort_by,
            **options,
        }

    def created(self, table: Any) -> CreateTable:
        found: TableDefinition = table.definition()
        keys, journal = found.keys, table.context.definition.journal
        aside = {one.aside for one in table.conflicts()}
        options = {
            **({"journal": journal} if journal != "leaderless" else {}),
            **({"version_by": keys.version_by} if keys is not None and keys.version_by else {}),
            **found.properties,
        }
        columns = [one for one in found.columns if one.name not in aside]
        # What stands in the statement itself needs columns that it creates, so their defaults aren't shown.
        names = [one.name for one in found.columns]
        needed = {fold(one.source) for one in found.partition.fields}
        needed |= {fold(split_order(text, names)[0]) for text in found.sort_by}
        blooms = fold(str(found.properties.get("bloom_filters", "")))
        comments = {"": found.comment, **{one.name: one.comment for one in columns}}
        return CreateTable(
            table.name,
            columns={one.name: one.type for one in columns},
            defaults={
                one.name: one.default
                for one in columns
                if one.default is not None and fold(one.name) not in needed and fold(one.name) not in blooms
            },
            comments={name: text for name, text in comments.items() if text is not None},
            checks=found.checks,
            key=() if keys is None else tuple(keys.key),
            partition_by=tuple(str(one) for one in found.partition.fields),
            sort_by=()
            if keys is not None and tuple(found.sort_by) == tuple(keys.key)
            else tuple(found.sort_by),
            options=options,
        )

    def insert(self, target: Target, rows: SourceRows, statement: Insert) -> Outcome:
        table = target.table
        if statement.conflict is not None:
            key = () if table.keys is None else tuple(table.keys.key)
            named = tuple(target.column(name) for name in statement.conflict_columns)
            if not key or (named and set(named) != set(key)):
                raise UnsupportedError(
                    f"the statement {shown(target.said)}: ON CONFLICT is for tables with a key, and names its columns"
                    f"{': ' + ', '.join(key) if key else ''}. MERGE INTO compares with any columns."
                )
            if (
                statement.conflict == "nothing"
                or statement.assignments is not None
                or statement.conflict_where
            ):
                raise UnsupportedError(
                    f"the statement {shown(target.said)}: a lake table takes ON CONFLICT DO UPDATE of whole rows; "
                    "MERGE INTO says what happens otherwise."
                )
            done = table.upsert(rows.data())
        else:
            done = table.append(rows.data())
        return Outcome("insert", done.version, rows_inserted=done.rows, files_added=done.files)

    def overwrite(self, target: Target, rows: SourceRows, statement: Insert) -> Outcome:
        partitions = "touched" if statement.overwrite == "partitions" else None
        done = target.table.overwrite(rows.data(), where=statement.replace_where, partitions=partitions)
        return outcome("overwrite", done)

    def change(self, target: Target, merge: Merge) -> Outcome:
        table = target.table
        if merge.op == "delete" and merge.source is None and _is_plain(merge, table.name):
            return outcome("delete", table.delete(merge.on))
        text = merge.source

        def source(snapshot: Snapshot | None) -> Any:
            at = None if snapshot is None else {table.name: snapshot.version}
            return target.source(text or "", at).data()

        from firn.lake.maintain.merge_into import merge_into

        done = merge_into(
            table.context,
            None if text is None else source,
            on=merge.using or merge.on,
            clauses=[placed(target, clause) for clause in merge.clauses],
            target=merge.alias,
            source_name=merge.source_alias,
            op=merge.op,
            summary={"statement": target.outline()},
            before_lock=text is not None and not target.is_read_by(text),
        )
        return outcome(merge.op, done)


def _is_plain(merge: Merge, table: str) -> bool:
    """Whether a DELETE's condition is a predicate as `LakeTable.delete` takes it, which may be a soft delete."""
    each = words(merge.on)
    names = {fold(merge.alias), fold(table)}
    return not any(b.text == "." and fold(a.text.strip('"')) in names for a, b in pairwise(each))


def outcome(op: str, done: Any) -> Outcome:
    """The row of a `ChangeResult`."""
    return Outcome(
        op, done.version, done.rows_inserted, done.rows_updated, done.rows_deleted, done.files_added,
        done.files_removed, done.foreign_files,
    )  # fmt: skip


PART: SqlKind = LakeInSql()
