"""Bring a writer's catalog back from its data files: Spark's tasks read footers, and nothing but footers."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.figures import FIRN, Figures, arguments, counted, finish
from firn.journal.writer.format.layout import WriterLayout


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--rows", type=int, default=50, help="of each file")
    parser.add_argument(
        "--large", type=int, default=50, help="files of 60,000 rows, whose rows nobody may read"
    )
    parser.add_argument("--no-spark", action="store_true", help="in this process")
    options = parser.parse_args(argv)
    figures = Figures("rebuild", {k: v for k, v in vars(options).items() if k != "out"})
    with tempfile.TemporaryDirectory() as root:
        _measure(figures, Path(root, "many"), options.files, options.commits, options.rows, options)
        _measure(figures, Path(root, "large"), options.large, 5, 60_000, options)
    finish(figures, options.out)
    return figures


def _measure(figures: Figures, root: Path, files: int, commits: int, rows: int, options: Any) -> None:
    import firn
    from firn.runner import LocalRunner

    each = files // commits
    table = firn.connect(root, writer="w").create_table("t", journal="writer", partition_by=["part"])
    for number in range(commits):
        table.append(_rows(number, each, rows))
    truth = table.snapshot()
    stored = sum(file.size for file in truth.files)
    db = firn.connect(root, writer="w", runner=LocalRunner() if options.no_spark else _spark_runner())
    layout = WriterLayout(db.prefix, "w", root.name)
    for prefix in (layout.transactions_prefix, layout.claims_prefix):
        db.bucket.delete_many([info.key for info in db.bucket.list(prefix).objects])
    db.bucket.delete(layout.hint_key)
    name = f"rebuild {len(truth.files):,} files of {rows:,} rows, {commits} commits"

    def run() -> dict[str, Any]:
        facts: dict[str, Any] = {}
        with counted(db.bucket, facts):
            report = db.rebuild()
        assert len(report.rebuilt) >= commits, report.damage
        read = report.bytes_read
        return {
            **facts,
            "footers": report.footers_read,
            "footer_bytes_a_file": round(read / report.footers_read),
            "share_of_stored_bytes": round(read / stored, 3),
        }

    figures.timed(name, FIRN, run)
    found = firn.connect(root).table("t").snapshot()
    assert {f.path for f in found.files} == {f.path for f in truth.files}, "a file is missing"
    detail = figures.measure(name, FIRN).detail
    figures.target(f"{name}: ranged GETs a file", round(detail["get"] / len(truth.files), 3), at_most=2.2)
    figures.target(f"{name}: bytes read a file", detail["footer_bytes_a_file"], at_most=2**17 + 2**10)


def _rows(number: int, parts: int, rows: int) -> pa.Table:
    count = parts * rows
    return pa.table(
        {
            "part": pa.array([f"p{i // rows:04}" for i in range(count)]),
            "id": pa.array(range(number * count, (number + 1) * count)),
            "text": pa.array([f"{(i * 2_654_435_761) % 2**64:016x}" * 4 for i in range(count)]),
        }
    )


def _spark_runner() -> Any:
    from firn.spark.session.runner import SparkRunner
    from firn.spark.session.session import active_or_start

    return SparkRunner(active_or_start())


if __name__ == "__main__":
    main()
