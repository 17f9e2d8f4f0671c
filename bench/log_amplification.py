"""300 appends to four partitions, then one merge of everything: how many requests, and how long a log is left.

IceDB's reference implementation needs 58,029 requests and leaves 21 MB of logs for the same: it merges one
partition a call and fetches every source log again each time (counted over a store that counts; see the format
page).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from bench.figures import FIRN, Figures, arguments, counted, finish

REFERENCE_REQUESTS = 58_029
REFERENCE_LOG_MB = 21


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--appends", type=int, default=300)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=4)
    options = parser.parse_args(argv)
    settings = {k: v for k, v in vars(options).items() if k != "out"}
    figures = Figures("log_amplification", settings)
    with tempfile.TemporaryDirectory() as root:
        run(figures, root, options.appends, options.rows, options.partitions)
    finish(figures, options.out)
    return figures


def rows(number: int, count: int, partitions: int) -> pa.Table:
    ids = range(number * count, (number + 1) * count)
    return pa.table(
        {
            "site": pa.array([f"site-{i % partitions}" for i in ids]),
            "id": pa.array(ids, pa.int64()),
            "value": pa.array([i * 0.5 for i in ids]),
        }
    )


def run(figures: Figures, root: str, appends: int, count: int, partitions: int) -> None:
    import firn

    db = firn.connect(root)
    table = db.create_table("t", partition_by=["site"])

    def step(name: str, work: Any) -> dict[str, Any]:
        facts: dict[str, Any] = {}

        def counting() -> dict[str, Any]:
            with counted(db.bucket, facts):
                work()
            return facts

        figures.timed(name, FIRN, counting)
        figures.record(name, FIRN, **state(db.bucket, table))
        return facts

    before = step(
        f"{appends} appends of {count} rows to {partitions} partitions",
        lambda: [table.append(rows(n, count, partitions)) for n in range(appends)],
    )
    merged = step("one merge of all of it", table.merge)
    swept = step("sweep of what it replaced", lambda: table.sweep(older_than="0s", orphans="0s"))
    step("open the table anew and count", lambda: firn.connect(root).table("t").scan().count())
    assert table.scan().count() == appends * count
    live = table.snapshot().files
    figures.record(
        "one merge of all of it", "reference", requests=REFERENCE_REQUESTS, log_mb=REFERENCE_LOG_MB
    )
    total = merged["requests"]
    figures.target("requests of the merge", total, at_most=3000)
    figures.target("requests of appends and merge", before["requests"] + total, at_most=REFERENCE_REQUESTS)
    figures.target("live files after it, over partitions", len(live) / partitions, at_most=1)
    figures.target(
        "log KB a live file after the sweep", state(db.bucket, table)["log_kb_a_live_file"], at_most=32
    )
    figures.record("sweep of what it replaced", FIRN, deleted=swept["delete"])


def state(bucket: Any, table: Any) -> dict[str, Any]:
    """Log objects and bytes, by a listing of their own."""
    logs = bucket.list(f"{table.prefix}/_log/").objects
    size = sum(info.size for info in logs)
    live = max(1, len(table.snapshot().files))
    return {
        "logs": len(logs),
        "log_mb": round(size / 2**20, 3),
        "live_files": live,
        "log_kb_a_live_file": round(size / 1024 / live, 2),
    }


if __name__ == "__main__":
    main()
