"""Queries in process over more rows than memory holds: a grouping and an ordering that spill, and their peak memory.

Each query runs in a process of its own, which reads a table of random keys and says how much memory it had at most.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.figures import FIRN, Figures, arguments, finish

BATCH = 8_000_000
QUERIES = {
    "group by a key of each row": "SELECT count(*) AS n FROM (SELECT k, count(*) AS c FROM t GROUP BY k)",
    "order all rows": "SELECT count(*) AS n FROM (SELECT row_number() OVER (ORDER BY k) AS r FROM t) WHERE r % 2 = 0",
}
_RUN = """
import json, resource, sys, time
import firn
root, text, spill = sys.argv[1:]
began = time.perf_counter()
with firn.connect(root, spill=spill) as db:
    rows = db.sql(text).to_arrow().to_pylist()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
print(json.dumps({"rows": rows[0]["n"], "seconds": time.perf_counter() - began, "peak_mb": peak}))
"""


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--gb", type=float, default=20, help="of rows, at 16 bytes each")
    parser.add_argument(
        "--directory", help="where table and spilled rows go; a temporary directory by default"
    )
    options = parser.parse_args(argv)
    figures = Figures("sql_spill", {"gb": options.gb})
    with tempfile.TemporaryDirectory(dir=options.directory) as root:
        rows = _load(Path(root) / "db", int(options.gb * 2**30) // 16)
        figures.settings["rows"] = rows
        for name, text in QUERIES.items():
            command = [sys.executable, "-c", _RUN, f"{root}/db", text, f"{root}/spill"]
            said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            figures.record(name, FIRN, said["seconds"], peak_mb=said["peak_mb"], answer=said["rows"])
            memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
            figures.target(f"{name}: peak MB, of the machine's", said["peak_mb"], at_most=memory_mb)
    finish(figures, options.out)
    return figures


def _load(root: Path, rows: int) -> int:
    import firn

    table, rng = firn.connect(root).create_table("t"), np.random.default_rng(1)
    began, left = time.perf_counter(), rows
    while left:
        count = min(left, BATCH)
        values = pa.array(rng.integers(0, 1 << 62, count)), pa.array(rng.random(count))
        table.append(pa.table(values, names=["k", "x"]))
        left -= count
    sys.stderr.write(f"loaded {rows:,} rows in {time.perf_counter() - began:.0f} s\n")
    return rows


if __name__ == "__main__":
    main()
