"""Open a table with a long log and list its live files: requests and time, with and without a checkpoint.

On a directory, in memory, and on an S3 server whose every answer is held back. The peer is delta-rs with a log
of as many commits, with and without its own checkpoint.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.figures import FIRN, Figures, arguments, counted, finish
from bench.long_logs import delta_log, firn_log
from bench.slow_store import server_program, slow_store

DELTA = "delta-rs"


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--logs", type=int, default=10_000, help="on a directory and in memory")
    parser.add_argument("--slow-logs", type=int, default=2_000, help="on the slow store; 0 leaves it out")
    parser.add_argument("--latency", type=float, default=0.02, help="seconds of each of its answers")
    parser.add_argument("--newer", type=int, default=10, help="logs that came after the checkpoint")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    settings = {k: v for k, v in vars(options).items() if k != "out"}
    figures = Figures("open_table", settings)
    program = _Program(figures, options.newer, options.rounds, not options.no_peers)
    with tempfile.TemporaryDirectory() as root:
        program.directory(Path(root), options.logs)
    program.memory(options.logs)
    if options.slow_logs and server_program() is None:
        figures.notes.append("The slow store was left out: versitygw is missing (tests/stores/install.py).")
    elif options.slow_logs:
        with slow_store(options.latency) as store:
            program.slow(store, options.slow_logs)
    finish(figures, options.out)
    return figures


class _Program:
    def __init__(self, figures: Figures, newer: int, rounds: int, peers: bool) -> None:
        self.figures, self.newer, self.rounds, self.peers = figures, newer, rounds, peers

    def directory(self, root: Path, logs: int) -> None:
        import firn

        where = f"directory, {logs:,} logs"
        ours, theirs = root / "firn", root / "delta"

        def connect() -> Any:
            return firn.connect(ours)

        firn_log(connect().create_table("t"), logs)
        work = {FIRN: lambda: opened(connect, logs)}
        if self.peers:
            delta_log(theirs, logs)
            work[DELTA] = lambda: delta_opened(str(theirs), logs)
        self._pairs(where, work)
        connect().table("t").checkpoint()
        firn_log(connect().table("t"), self.newer)
        work = {FIRN: lambda: opened(connect, logs + self.newer)}
        if self.peers:
            delta_checkpoint(theirs)
            delta_more(theirs, logs, self.newer)
            work[DELTA] = lambda: delta_opened(str(theirs), logs + self.newer)
        self._pairs(f"{where}, checkpoint + {self.newer} logs", work, checkpoint=True)

    def memory(self, logs: int) -> None:
        import firn

        name = f"bench-{time.monotonic_ns()}"

        def connect() -> Any:
            return firn.connect(f"memory://{name}")

        firn_log(connect().create_table("t"), logs)
        where = f"memory, {logs:,} logs"
        self._pairs(where, {FIRN: lambda: opened(connect, logs)})
        connect().table("t").checkpoint()
        firn_log(connect().table("t"), self.newer)
        self._pairs(
            f"{where}, checkpoint + {self.newer} logs",
            {FIRN: lambda: opened(connect, logs + self.newer)},
            checkpoint=True,
        )

    def slow(self, store: Any, logs: int) -> None:
        import firn

        where = f"S3, {self.figures.settings['latency'] * 1000:g} ms an answer, {logs:,} logs"
        options = store.firn_options
        theirs = store.place / "delta"
        url = f"{store.url}/delta"

        def connect() -> Any:
            return firn.connect(f"{store.url}/firn", options=options)

        def seen(work: Callable[[], Any]) -> Callable[[], dict[str, Any]]:
            def run() -> dict[str, Any]:
                facts: dict[str, Any] = {}
                with store.counted(facts):
                    work()
                return facts

            return run

        firn_log(connect().create_table("t"), logs)
        work = {FIRN: seen(lambda: opened(connect, logs))}
        if self.peers:
            delta_log(theirs, logs)
            work[DELTA] = seen(lambda: delta_opened(url, logs, store.delta_options))
        self._pairs(where, work)
        connect().table("t").checkpoint()
        firn_log(connect().table("t"), self.newer)
        work = {FIRN: seen(lambda: opened(connect, logs + self.newer))}
        if self.peers:
            delta_checkpoint(theirs)
            delta_more(theirs, logs, self.newer)
            work[DELTA] = seen(lambda: delta_opened(url, logs + self.newer, store.delta_options))
        self._pairs(f"{where}, checkpoint + {self.newer} logs", work, checkpoint=True)

    def _pairs(self, name: str, work: Any, *, checkpoint: bool = False) -> None:
        for run in work.values():
            run()  # once untimed: page cache, connections, imports
        self.figures.pairs(name, work, rounds=self.rounds)
        detail = self.figures.measure(name, FIRN).detail
        if checkpoint:
            # the definition, the checkpoint and what came later: each one GET
            self.figures.target(f"{name}: GETs", detail.get("get"), at_most=2 + self.newer)
        if DELTA in work:
            self.figures.target(
                f"{name}: delta-rs's time over Firn's", self.figures.ratio(name, DELTA), at_least=5
            )


def opened(connect: Callable[[], Any], files: int) -> dict[str, Any]:
    """Open with nothing cached; what it asked of the bucket."""
    db = connect()
    facts: dict[str, Any] = {}
    with counted(db.bucket, facts):
        found = len(db.table("t").snapshot().files)
    assert found == files, f"{found} files, not {files}"
    return facts


def delta_opened(url: str, files: int, options: dict[str, str] | None = None) -> dict[str, Any]:
    from deltalake import DeltaTable

    found = len(DeltaTable(url, storage_options=options).file_uris())
    assert found == files, f"{found} files, not {files}"
    return {}


def delta_checkpoint(place: Path) -> None:
    from deltalake import DeltaTable

    DeltaTable(str(place)).create_checkpoint()


def delta_more(place: Path, commits: int, newer: int) -> None:
    """Commits after the checkpoint: copies of the first ones' kind under later numbers."""
    log = place / "_delta_log"
    template = (log / f"{1:020}.json").read_text()
    for number in range(commits, commits + newer):
        (log / f"{number:020}.json").write_text(
            template.replace("part-00000-00000001", f"part-00000-{number:08x}")
        )


if __name__ == "__main__":
    main()
