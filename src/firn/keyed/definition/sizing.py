"""The weight and cost of a keyed table's metadata: the paper's table of sizes, with its arithmetic mended.

The paper (SlateDB manifest, "Size calculations for manifest file") prints two rows wrong: Q divides by the writes a
second where the compaction's period belongs, S divides by 1,000 where the price is for 10,000. It also leaves out the
largest cost, the PUTs of level 0: rows T to V.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from firn.errors import InvalidInputError

MONTH_S = 30 * 24 * 3600
"""A month of the table: 30 days."""

_KB, _MB = 2**10, 2**20


@dataclass(frozen=True)
class Workload:
    """The figures that a table of sizes is computed from; the defaults are the paper's.

    Args:
        block_mb: size of an SST, in MB (the paper's "block", which a manifest describes).
        db_gb: live data, in GB.
        key_kb: mean size of a key, in KB.
        flush_ms: the longest time between two flushes, in milliseconds.
        compaction_s: seconds from one compaction to the next.
        writes_per_second: puts a second.
        value_kb: mean size of a value, in KB.
        updates_percent: puts of keys that are there already, in percent.
        dollars_per_10k_writes: price of 10,000 PUTs, in dollars.
    """

    block_mb: float = 32
    db_gb: float = 50
    key_kb: float = 10
    flush_ms: float = 10
    compaction_s: float = 60
    writes_per_second: float = 1000
    value_kb: float = 100
    updates_percent: float = 60
    dollars_per_10k_writes: float = 0.065

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 1e18:
                raise InvalidInputError(f"{field.name}={value!r} isn't a number from 0 on.")
        for name in ("block_mb", "flush_ms", "compaction_s"):
            if getattr(self, name) == 0:
                raise InvalidInputError(f"{name}=0: it must be above 0.")
        if self.updates_percent > 100:
            raise InvalidInputError(
                f"updates_percent={self.updates_percent:g}: there are no more than 100 percent."
            )


@dataclass(frozen=True)
class SizeRow:
    """One row of the table. `id` is the paper's; rows from T on are Firn's. `given` rows are what was asked."""

    id: str
    what: str
    expression: str
    value: float
    given: bool = False


def sizing(workload: Workload | None = None) -> tuple[SizeRow, ...]:
    """The table of sizes and costs. Pure; no requests.

    Args:
        workload: what to compute it for; the paper's example by default.

    Example:
        >>> rows = {row.id: row.value for row in sizing()}
        >>> rows["Q"], round(rows["S"], 2), rows["T"], round(rows["U"], 2)
        (86400.0, 0.56, 259200000.0, 1684.8)
    """
    w = workload or Workload()
    blocks = w.db_gb * _KB / w.block_mb
    block_meta = 8 + w.key_kb * _KB
    # No more PUTs than puts: a flush with nothing to write is left out.
    flushes = min(1000 / w.flush_ms, w.writes_per_second)
    written_gb = (w.key_kb + w.value_kb) * w.writes_per_second * 60 / _MB
    compacted_gb = (100 - w.updates_percent) * written_gb / 100
    new_blocks = compacted_gb * _KB / w.block_mb
    compactor_puts = MONTH_S * 2 / w.compaction_s
    compactor_dollars = compactor_puts * w.dollars_per_10k_writes / 10_000
    l0_puts = MONTH_S * flushes
    l0_dollars = l0_puts * w.dollars_per_10k_writes / 10_000
    return (
        SizeRow("A", "block (SST) size in MB", "A", w.block_mb, True),
        SizeRow("B", "database size in GB", "B", w.db_gb, True),
        SizeRow("C", "number of blocks", "B * 1024 / A", blocks),
        SizeRow("D", "key size in KB", "D", w.key_kb, True),
        SizeRow("E", "metadata of one block in bytes", "8 + D * 1024", block_meta),
        SizeRow("H", "metadata of all blocks in MB", "E * C / 1024²", block_meta * blocks / _MB),
        SizeRow("F", "flush interval in ms", "F", w.flush_ms, True),
        SizeRow("G", "L0 SSTs in a minute", "60 * min(1000 / F, J)", 60 * flushes),
        SizeRow("I", "compaction period in seconds", "I", w.compaction_s, True),
        SizeRow("J", "writes a second", "J", w.writes_per_second, True),
        SizeRow("K", "value size in KB", "K", w.value_kb, True),
        SizeRow("L", "written in a minute in GB", "(D + K) * J * 60 / 1024²", written_gb),
        SizeRow("M", "updates of keys that are there in %", "M", w.updates_percent, True),
        SizeRow("N", "compacted from L0 in a minute in GB", "(100 - M) * L / 100", compacted_gb),
        SizeRow("O", "new blocks in a minute", "N * 1024 / A", new_blocks),
        SizeRow(
            "P", "metadata of new blocks in a minute in KB", "O * E / 1024", new_blocks * block_meta / _KB
        ),
        SizeRow("Q", "compactor's metadata PUTs a month", "30 * 24 * 3600 * 2 / I", compactor_puts),
        SizeRow("R", "price of 10,000 PUTs in $", "R", w.dollars_per_10k_writes, True),
        SizeRow("S", "compactor's metadata PUTs in $ a month", "Q * R / 10,000", compactor_dollars),
        SizeRow("T", "L0 PUTs a month", "30 * 24 * 3600 * min(1000 / F, J)", l0_puts),
        SizeRow("U", "L0 PUTs in $ a month", "T * R / 10,000", l0_dollars),
        SizeRow("V", "both in $ a month", "S + U", compactor_dollars + l0_dollars),
    )
