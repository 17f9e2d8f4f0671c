"""Real processes with an appender, killed by SIGKILL at any moment."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import firn
from simulation.test_kv_kill import killed_after, run

pytestmark = pytest.mark.long

FLUSHES = """
import sys
import firn

out = firn.connect(sys.argv[1]).table("t").appender(seconds=0.01, rows=50)
for n in range(int(sys.argv[2]), 1_000_000):
    if n % 3:
        out.add({"n": n})
        continue
    if n % 2:
        out.add({"n": n}, wait=True)
    else:
        out.add({"n": n})
        out.flush()
    print(n, flush=True)
"""

REPLAYS = """
import sys
import firn

def ends(position):
    return f"source/{position}" if position % 7 == 6 else None

with firn.connect(sys.argv[1]).table("t").appender(batch_ids=ends) as out:
    for n in range(int(sys.argv[2]), 1_000_000):
        out.add({"n": n}, position=n)
        if n % 21 == 20:
            out.flush()
            print(n, flush=True)
"""


def found(url: str) -> list[int]:
    rows = Counter(firn.connect(url).table("t").scan().to_arrow().column("n").to_pylist())
    assert not rows or max(rows.values()) == 1, "no row is there twice"
    return sorted(rows)


@pytest.mark.parametrize("properties", [{"inline": "64KB"}, {}], ids=["inlined", "files"])
def test_what_was_acknowledged_is_there_once(tmp_path: Path, properties: dict[str, str]) -> None:
    url = str(tmp_path)
    firn.connect(url).create_table("t", properties=properties)
    first, acknowledged = 0, list[int]()
    for lines in (1, 30, 7):
        said = list(map(int, killed_after(run(FLUSHES, url, str(first)), lines)))
        acknowledged += range(first, said[-1] + 1)
        rows = found(url)
        assert set(acknowledged) <= set(rows), "each acknowledged row is there"
        assert len(rows) <= len(acknowledged) + 3, "and at most those that were waiting"
        acknowledged, first = rows, rows[-1] + 1


def test_a_source_that_replays_doubles_none(tmp_path: Path) -> None:
    url = str(tmp_path)
    firn.connect(url).create_table("t", properties={"inline": "64KB"})
    first = 0
    for lines in (1, 3, 10, 2):
        said = killed_after(run(REPLAYS, url, str(first)), lines)
        first = int(said[-1]) + 1
        rows = found(url)
        assert rows == list(range(len(rows))) and len(rows) >= first and len(rows) % 7 == 0


FORGETS = """
import sys
import firn

out = firn.connect(sys.argv[1]).table("t").appender(seconds=3600)
for n in range(100):
    out.add({"n": n})
"""


@pytest.mark.parametrize("properties", [{"inline": "64KB"}, {}], ids=["inlined", "files"])
def test_a_process_that_forgets_to_close_appends_at_its_end(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    url = str(tmp_path)
    firn.connect(url).create_table("t", partition_by=["bucket(5, n)"], properties=properties)
    process = run(FORGETS, url)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert found(url) == list(range(100))
