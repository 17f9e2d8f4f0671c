"""Many small files were each decoded by a pool of threads, and their footers parsed twice."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

import firn

FILES = 70
"""More than are read together."""


@pytest.mark.parametrize("place", ["memory", "directory"])
def test_small_files_are_decoded_once_and_by_one_thread(place, tmp_path, monkeypatch):
    table = firn.connect("memory://" if place == "memory" else tmp_path).create_table("t")
    for n in range(FILES):
        table.append([{"n": n, "s": str(n)}])
    scan = table.scan()
    assert len(scan.snapshot.files) == FILES
    threads, decode = [], pq.ParquetFile.iter_batches

    def noted(self, *args, use_threads=True, **options):
        threads.append(use_threads)
        return decode(self, *args, use_threads=use_threads, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", noted)
    monkeypatch.setattr(pq, "read_metadata", lambda *_: pytest.fail("a footer is parsed apart from its file"))
    before = table.bucket.counters.get
    assert sorted(scan.to_arrow()["n"].to_pylist()) == list(range(FILES))
    assert table.bucket.counters.get - before == FILES
    assert threads == [False] * FILES
