"""Children of multiprocessing end without `atexit`.

Rows that an appender held were lost without a word, and a keeper's fold was cut off with the table's lock held.
"""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import firn


def add_rows(url: str) -> None:
    table = firn.connect(url).table("t")
    assert isinstance(table, firn.LakeTable)
    out = table.appender(seconds=3600)
    for n in range(3):
        out.add({"n": n})


def test_a_child_that_ends_gives_its_appenders_time(tmp_path: Path) -> None:
    url = str(tmp_path)
    table = firn.connect(url).create_table("t")
    child = multiprocessing.get_context("fork").Process(target=add_rows, args=(url,))
    child.start()
    child.join()
    assert (child.exitcode, table.scan().count()) == (0, 3)
