"""`firn keyed size`: what the metadata of a table would weigh and cost, before there is one."""

from __future__ import annotations

from typing import Annotated

from firn.cli.keyed.group import keyed
from firn.cli.options import option
from firn.cli.target import Json
from firn.cli.terminal import output
from firn.keyed.definition.sizing import SizeRow, Workload, sizing

PAPER = Workload()


@keyed.command()
def size(
    block_mb: Annotated[float, option("MB", "Size of an SST.")] = PAPER.block_mb,
    db_gb: Annotated[float, option("GB", "Live data.")] = PAPER.db_gb,
    key_kb: Annotated[float, option("KB", "Mean size of a key.")] = PAPER.key_kb,
    value_kb: Annotated[float, option("KB", "Mean size of a value.")] = PAPER.value_kb,
    flush_ms: Annotated[float, option("MS", "The longest time between two flushes.")] = PAPER.flush_ms,
    compaction_s: Annotated[float, option("S", "Seconds between two compactions.")] = PAPER.compaction_s,
    writes: Annotated[float, option("N", "Puts a second.")] = PAPER.writes_per_second,
    updates: Annotated[
        float, option("PERCENT", "Puts of keys that are there already.")
    ] = PAPER.updates_percent,
    price: Annotated[float, option("$", "Of 10,000 PUTs, in dollars.")] = PAPER.dollars_per_10k_writes,
    json: Json = False,
) -> None:
    """Print what a keyed table's metadata weighs and its PUTs cost. Asks no store.

    The defaults are the example of the paper on SlateDB's manifest.

    firn keyed size --db-gb 500 --flush-ms 100 --key-kb 0.02 --value-kb 0.1
    """
    workload = Workload(
        block_mb=block_mb,
        db_gb=db_gb,
        key_kb=key_kb,
        flush_ms=flush_ms,
        compaction_s=compaction_s,
        writes_per_second=writes,
        value_kb=value_kb,
        updates_percent=updates,
        dollars_per_10k_writes=price,
    )
    rows = sizing(workload)
    if json:
        output.document({"rows": [output.plain(row) for row in rows]})
        return
    output.table(
        ["row", "", "expression", "value"],
        [[row.id, row.what, "" if row.given else row.expression, _number(row)] for row in rows],
        right=[3],
    )


def _number(row: SizeRow) -> str:
    """As many digits as say something."""
    if row.value == int(row.value) and abs(row.value) < 1e15:
        return f"{int(row.value):,}"
    return f"{row.value:,.2f}" if row.value >= 0.1 else f"{row.value:.3g}"
