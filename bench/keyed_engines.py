"""The engines that `bench.keyed` compares, each driven as its users drive it: Firn by calls, SlateDB from asyncio.

Every verb answers the seconds that it took, in a list of one per operation where operations are timed one by one.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

Pairs = Sequence[tuple[bytes, bytes]]

SCAN_ROWS = 1_000
"""Rows that one step of a scan brings."""

NEVER_MS = 3_600_000
"""A flush interval above any run: a memtable is flushed when it is said, as SlateDB's are."""


class Engine(Protocol):
    """One database of one engine, in one process."""

    def open(self, *, flush: bool = True) -> None:
        """Become the writer. Unless it should `flush`, what is put stays in memory until it is told."""

    def close(self) -> None: ...

    def put_each(self, pairs: Pairs) -> list[float]:
        """Non-durable puts, one by one."""

    def put_batches(self, pairs: Pairs, size: int) -> float:
        """Non-durable write batches."""

    def put_durable(self, pairs: Pairs) -> list[float]:
        """Puts that return when no crash can undo them."""

    def get_each(self, keys: Sequence[bytes], *, there: bool) -> list[float]:
        """Gets one by one; it is an error if a key is not there, or is, against what was said."""

    def scan(self) -> tuple[float, int]:
        """All rows, in steps of `SCAN_ROWS` or what the engine makes of it: seconds and rows."""

    def flush(self) -> float: ...

    def compact(self) -> tuple[float, dict[str, Any]]:
        """Everything into one sorted run: seconds, and what is known of it."""

    def forget(self) -> None:
        """Start over with nothing cached but the indices."""

    def requests(self) -> dict[str, int]:
        """By verb, since the process began; empty where nobody counts."""


class FirnEngine:
    """Firn's keyed tables."""

    def __init__(self, url: str, **properties: Any) -> None:
        import firn

        self.db = firn.connect(url)
        self.properties = properties
        self.table: Any = None
        self.kv: Any = None

    def open(self, *, flush: bool = True) -> None:
        if self.table is None:
            mine: dict[str, Any] = {"flush_ms": NEVER_MS}
            if not flush:
                mine |= {"memtable_size": "2GB", "max_unflushed": "4GB"}
            self.table = self.db.create_table("t", kind="keyed", properties={**mine, **self.properties})
        self.kv = self.table.open(compaction=False)

    def close(self) -> None:
        self.kv.close()

    def put_each(self, pairs: Pairs) -> list[float]:
        put, clock, took = self.kv.put, time.perf_counter, []
        for key, value in pairs:
            began = clock()
            put(key, value, durable=False)
            took.append(clock() - began)
        return took

    def put_batches(self, pairs: Pairs, size: int) -> float:
        from firn.keyed.write.batch import WriteBatch

        began = time.perf_counter()
        for start in range(0, len(pairs), size):
            batch = WriteBatch()
            for key, value in pairs[start : start + size]:
                batch.put(key, value)
            self.kv.write(batch, durable=False)
        return time.perf_counter() - began

    def put_durable(self, pairs: Pairs) -> list[float]:
        took = []
        for key, value in pairs:
            began = time.perf_counter()
            self.kv.put(key, value)
            took.append(time.perf_counter() - began)
        return took

    def get_each(self, keys: Sequence[bytes], *, there: bool) -> list[float]:
        get, clock, took = self.kv.get, time.perf_counter, []
        for key in keys:
            began = clock()
            found = get(key)
            took.append(clock() - began)
            assert (found is not None) == there, key
        return took

    def scan(self) -> tuple[float, int]:
        began = time.perf_counter()
        rows = sum(batch.num_rows for batch in self.kv.scan().to_batches())
        return time.perf_counter() - began, rows

    def flush(self) -> float:
        began = time.perf_counter()
        self.kv.flush()
        return time.perf_counter() - began

    def compact(self) -> tuple[float, dict[str, Any]]:
        before = self.db.bucket.counters.as_dict()
        began = time.perf_counter()
        report = self.kv.compact(full=True)  # of the open writer, so that it reads what was compacted
        seconds = time.perf_counter() - began
        spent = self.db.bucket.counters.since(before)
        return seconds, {
            "files_in": report.l0_files + report.ssts_in,
            "files_out": report.ssts_out,
            "written_bytes": spent["bytes_out"],
            "read_bytes": spent["bytes_in"],
            "amplification": round(report.write_amplification, 2),
        }

    def forget(self) -> None:
        self.close()
        self.kv = self.table = None
        gc.collect()  # the cache of blocks goes with the last handle on the table
        self.table = self.db.table("t", kind="keyed")
        self.open()
        for sst in self.table.view().manifest.ssts:
            self.kv.get(sst.min_key)  # so that the indices are there, and one block of each

    def requests(self) -> dict[str, int]:
        return dict(self.db.bucket.counters.as_dict())


class SlateEngine:
    """SlateDB through its own Python package."""

    def __init__(self, url: str, **_: Any) -> None:
        from slatedb import uniffi as slate

        self.slate = slate
        in_memory = url.startswith("memory")
        self.store = slate.ObjectStore.resolve("memory:///" if in_memory else "file:///")
        self.path = "t" if in_memory else str(Path(url).resolve() / "t")
        self.loop = asyncio.new_event_loop()
        self.db: Any = None

    def _run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        async def go() -> Any:
            return await work()

        return self.loop.run_until_complete(go())

    def open(self, *, flush: bool = True, compactor: bool = False) -> None:
        async def build() -> Any:
            settings = self.slate.Settings.default()
            if not compactor:
                settings.set("compactor_options", "null")
                settings.set("l0_max_ssts", "4096")
            else:
                # Its own polls, of 5 s each, would be all that is measured.
                for poll in (
                    "poll_interval",
                    "commit_compacted_interval",
                    "worker.compactions_poll_interval",
                ):
                    settings.set(f"compactor_options.{poll}", '"10ms"')
                settings.set("manifest_poll_interval", '"10ms"')
            if not flush:
                settings.set("l0_sst_size_bytes", str(2 << 30))
                settings.set("max_unflushed_bytes", str(4 << 30))
            builder = self.slate.DbBuilder(self.path, self.store)
            builder.with_settings(settings)
            return await builder.build()

        self.db = self._run(build)

    def close(self) -> None:
        self._run(lambda: self.db.shutdown())

    def put_each(self, pairs: Pairs) -> list[float]:
        async def work() -> list[float]:
            put, clock, took = self.db.put, time.perf_counter, []
            for key, value in pairs:
                began = clock()
                await put(key, value)
                took.append(clock() - began)
            return took

        return list(self._run(work))

    def put_batches(self, pairs: Pairs, size: int) -> float:
        async def work() -> float:
            began = time.perf_counter()
            for start in range(0, len(pairs), size):
                batch = self.slate.WriteBatch()
                for key, value in pairs[start : start + size]:
                    batch.put(key, value)
                await self.db.write(batch)
            return time.perf_counter() - began

        return float(self._run(work))

    def put_durable(self, pairs: Pairs) -> list[float]:
        async def work() -> list[float]:
            took = []
            for key, value in pairs:
                began = time.perf_counter()
                await (await self.db.put(key, value)).await_durable()
                took.append(time.perf_counter() - began)
            return took

        return list(self._run(work))

    def get_each(self, keys: Sequence[bytes], *, there: bool) -> list[float]:
        async def work() -> list[float]:
            get, clock, took = self.db.get, time.perf_counter, []
            for key in keys:
                began = clock()
                found = await get(key)
                took.append(clock() - began)
                assert (found is not None) == there, key
            return took

        return list(self._run(work))

    def scan(self) -> tuple[float, int]:
        async def work() -> tuple[float, int]:
            everything = self.slate.KeyRange(start=None, start_inclusive=True, end=None, end_inclusive=True)
            began, rows = time.perf_counter(), 0
            found = await self.db.scan(everything)
            while batch := await found.next_batch(SCAN_ROWS):
                rows += len(batch)
            return time.perf_counter() - began, rows

        seconds, rows = self._run(work)
        return seconds, rows

    def flush(self) -> float:
        async def work() -> None:
            kind = self.slate.FlushType.MEM_TABLE
            await self.db.flush_with_options(self.slate.FlushOptions(flush_type=kind))

        began = time.perf_counter()
        self._run(work)
        return time.perf_counter() - began

    def compact(self) -> tuple[float, dict[str, Any]]:
        """Opened with its compactor, until level 0 is empty; its polls, of 10 ms, are in it."""
        admin = self.slate.AdminBuilder(self.path, self.store).build()

        async def manifest() -> Any:
            return await admin.read_manifest(None)

        async def work() -> None:
            while (await manifest()).l0:
                await asyncio.sleep(0.005)

        self.close()
        before = self._run(manifest).l0
        began = time.perf_counter()
        self.open(compactor=True)
        self._run(work)
        seconds = time.perf_counter() - began
        after = [view for run in self._run(manifest).compacted for view in run.sst_views]
        return seconds, {
            "files_in": len(before),
            "files_out": len(after),
            "written_bytes": sum(view.estimated_size_bytes for view in after),
            "read_bytes": sum(view.estimated_size_bytes for view in before),
        }

    def forget(self) -> None:
        self.close()
        self.open()
        self.get_each([b"\0"], there=False)

    def requests(self) -> dict[str, int]:
        return {}


ENGINES: dict[str, type[Any]] = {"firn": FirnEngine, "slatedb": SlateEngine}
