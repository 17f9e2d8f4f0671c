"""A lake table's appends, as a stream of Spark's follows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from firn.errors import ConflictError, InvalidInputError, SchemaConflictError, UnsupportedError
from firn.journal.columns import converts, evolve
from firn.journal.entries import TYPE
from firn.journal.model import ColumnTypes
from firn.journal.position import BEGINNING, Offset, StreamPosition
from firn.lake.plan.read import LakeRead
from firn.lake.table import LakeTable
from firn.names import fold
from firn.units import parse_time

if TYPE_CHECKING:
    from firn.spark.session.options import SourceOptions


class LakeFollower:
    """A lake table's appends, by a `StreamPosition` of its journal."""

    def __init__(self, table: LakeTable, plan: LakeRead, *, narrowed: bool = False) -> None:
        """`narrowed`: the user has named the columns, and others may come."""
        if table.keys is not None:
            raise UnsupportedError(
                f"{table.name} has a key, and a stream of what is appended would miss updates and deletes: read it "
                "in batches. To follow what comes, append it to a table without a key as well, and stream that."
            )
        self.table = table
        self.plan = plan
        self.narrowed = narrowed
        # Columns are called as they were when the query was planned, until it is started again.
        self.position: StreamPosition[Any] = StreamPosition(table.journal.stream(plan.spec.naming))

    def beginning(self, options: SourceOptions) -> dict[str, Any]:
        if options.since is not None:
            raise InvalidInputError(
                f"since is for keyed and record tables; of {self.table.name} give startingTime."
            )
        if options.starting_time is None:
            return dict(BEGINNING)
        return Offset(self.position.stream.since(parse_time(options.starting_time))).to_json()

    def target(self) -> Any:
        return self.position.stream.target()

    def advance(self, start: dict[str, Any], most: int | None, target: Any) -> dict[str, Any]:
        begun = self.position.parse(start)
        if begun is None:
            return self.position.begin(most).to_json()
        after = self.position.advance(begun, most, among=target)
        return start if after is None else after.to_json()

    def between(self, start: dict[str, Any], end: dict[str, Any]) -> LakeRead | None:
        after = self.position.parse(end)
        if after is None:
            return None
        files, schemas = self.position.delivered(self.position.parse(start), after)
        self._check_schemas(schemas)
        spec = self.plan.spec
        if any(file.deletes for file in files):
            # The plan may be older than a column by which rows were deleted.
            now = self.table.snapshot()
            spec = replace(spec, table_columns={**now.columns, **spec.table_columns})
        return replace(self.plan, files=files, spec=spec)

    def _check_schemas(self, schemas: Iterable[ColumnTypes]) -> None:
        """Stop before a batch whose files hold more than the stream's columns tell: values that it left out would be
        lost to everything downstream, as its offset has passed. Columns that the user has left out may come and
        change."""
        known = self.plan.known
        whole = not self.narrowed and self.plan.columns.keys() == known.keys()
        asked = None if whole else {fold(name) for name in self.plan.columns}
        naming = self.plan.spec.naming
        for columns in schemas:
            for physical, kind in columns.items():
                name = naming.shown(physical)
                if physical in naming.hidden or (asked is not None and fold(name) not in asked):
                    continue
                try:
                    now = evolve(known, {name: kind}, allow_widening=True)
                except SchemaConflictError:
                    # It is read aside, under a name of its own; but for a type that was set since.
                    explicit = self.table.journal.definition.present(TYPE).get(physical)
                    if explicit is None or explicit == known.get(name) or not converts(kind, explicit):
                        continue
                    now = {**known, name: explicit}
                if now != dict(known):
                    was = next((k for n, k in known.items() if fold(n) == fold(name)), None)
                    what = f"came as {kind}" if was is None else f"was {was} and is {kind} now"
                    raise ConflictError(
                        f"the schema of {self.table.name} has changed since this stream began: the column {name!r} "
                        f"{what}. Nothing of this batch was delivered. Start the query again, from a new readStream, "
                        "with the same checkpoint: it goes on here, with the new schema."
                    )
