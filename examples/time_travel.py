"""Read a table as it was, and bring an old version back.

python examples/time_travel.py [DATABASE]
"""

from __future__ import annotations

import sys
import tempfile

import firn


def main(url: str) -> None:
    stock = firn.connect(url).create_table("stock")
    first = stock.append([{"item": "bolt", "count": 10}, {"item": "nut", "count": 20}]).version
    stock.append([{"item": "cog", "count": 5}])
    stock.delete("count >= 10")  # a mistake

    for commit in stock.history():
        print(f"{commit.version}  {commit.op:7} +{commit.files_added} -{commit.files_removed} files")
    assert stock.scan().to_arrow().to_pylist() == [{"item": "cog", "count": 5}]

    # By version, or by time: what was committed at that time is included.
    then = stock.snapshot(at=first)
    assert stock.scan(at=first).count() == 2
    assert then.time is not None
    assert stock.scan(at=then.time).count() == 2

    # Restoring is a commit like any other: it can be read back, and undone, too.
    restored = stock.restore(stock.history()[-2].version)
    print(f"restore brought back {restored.files_added} files and removed {restored.files_removed}")
    assert sorted(stock.scan().to_arrow().column("count").to_pylist()) == [5, 10, 20]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(sys.argv[1] if len(sys.argv) > 1 else directory)
