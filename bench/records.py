"""Record tables: requests of every operation, clients at once, readers beside writers, a long log, a large index.

Parts: `costs` counts the requests of each operation beside what the design says, for 1, 10 and 100 rows and 0 to 5
indices. `clients` are 1 to 16 threads that each read a row, change it and commit, as often as they can: with one
`Database` for all, whose commits go in groups, and with one each, as processes have; where a share of the changes is
to one row, these meet. `readers` read single rows, alone and while others write. `growth` begins and reads behind a
log of up to 100,000 commits, `find` finds ten rows among a million index entries. `load` loads 100,000 rows, in
process and on Spark, beside plain puts of the same objects. `unique` inserts from 32 threads into a table with a
plain index and with a unique one, in pairs. `spark` reads all rows of a table, in one process and on
Spark, beside plain GETs of the same objects.

Beside it SQLite in the directory, WAL and `synchronous=FULL`, does the same changes, reads and finds: what a program
on one machine would take. It is for orientation: a file of one machine beside a bucket of any number of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench import record_clients, record_costs, record_growth, record_load, record_unique, records_spark
from bench.figures import Figures, arguments, finish
from bench.record_places import DIRECTORY, MEMORY, S3, places

PARTS = ("costs", "clients", "readers", "growth", "find", "load", "unique", "spark")
ON_STORES = frozenset(("clients", "readers", "spark"))


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[1, 10, 100], help="of an operation that is counted"
    )
    parser.add_argument("--indices", type=int, nargs="+", default=list(range(6)), help="of its table")
    parser.add_argument(
        "--stores", nargs="*", default=[MEMORY, DIRECTORY, S3], choices=[MEMORY, DIRECTORY, S3],
        help="where clients and readers work",
    )  # fmt: skip
    parser.add_argument(
        "--latencies", type=float, nargs="+", default=[0, 20, 70], help="of S3, in ms; 0 is without a proxy"
    )
    parser.add_argument("--url", help="a bucket, and prefix, where clients and readers work as well")
    parser.add_argument(
        "--option", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"), help="of --url"
    )
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument(
        "--conflicts", type=float, nargs="+", default=[0, 1, 10], help="of 100 changes, those to one row"
    )
    parser.add_argument("--readers", type=int, default=4, help="and as many writers")
    parser.add_argument("--seconds", type=float, default=2, help="of each set of clients and readers")
    parser.add_argument("--commits", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--threads", type=int, default=32, help="that insert in the part unique")
    parser.add_argument("--load-rows", type=int, default=100_000)
    parser.add_argument("--load-indices", type=int, nargs="+", default=[0, 2])
    parser.add_argument("--no-spark", action="store_true", help="load and read in process only")
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument(
        "--samples", type=int, default=record_growth.SAMPLES, help="of a time in growth, find"
    )
    parser.add_argument("--scanned", type=int, default=100_000, help="rows that are read in the part spark")
    parser.add_argument("--rounds", type=int, default=3, help="of that part")
    options = parser.parse_args(argv)
    hidden = ("out", "option")  # which may hold credentials
    figures = Figures("records", {k: v for k, v in vars(options).items() if k not in hidden})
    peers = not options.no_peers
    if "costs" in options.parts:
        record_costs.costs(figures, rows=options.rows, indices=options.indices)
    if ON_STORES & set(options.parts):
        _on_stores(figures, options, peers)
    if "load" in options.parts:
        for place in places([DIRECTORY], [], None, {}, figures.notes):
            record_load.load(
                figures,
                place,
                rows=options.load_rows,
                indices=options.load_indices,
                spark=not options.no_spark,
                peers=peers,
            )
    if "growth" in options.parts:
        record_growth.growth(figures, sizes=sorted(options.commits), samples=options.samples)
    if "find" in options.parts:
        record_growth.find(figures, entries=options.entries, peers=peers, samples=options.samples)
    if "unique" in options.parts:
        record_unique.unique(figures, threads=options.threads, latency_ms=20, seconds=options.seconds)
    figures.notes += [
        "Seconds of clients and readers are the median of one transaction; its requests are those of appliers too.",
        "All clients are threads of one Python, the proxy of a slow store as well: on few cores they share them.",
        "SQLite syncs its log at each commit, Firn each object and its directory; memory and S3 here sync nothing.",
        "SQLite's writers wait for one another by looking again and again: some wait long, and most don't.",
    ]
    finish(figures, options.out)
    return figures


def _on_stores(figures: Figures, options: Any, peers: bool) -> None:
    given = dict(options.option)
    for place in places(options.stores, options.latencies, options.url, given, figures.notes):
        if "clients" in options.parts:
            record_clients.clients(
                figures,
                place,
                numbers=options.clients,
                conflicts=[share / 100 for share in options.conflicts],
                seconds=options.seconds,
                peers=peers,
            )
        if "readers" in options.parts:
            record_clients.readers(
                figures, place, number=options.readers, seconds=options.seconds, peers=peers
            )
        if "spark" in options.parts:
            records_spark.scans(
                figures, place, rows=options.scanned, rounds=options.rounds, spark=not options.no_spark
            )


if __name__ == "__main__":
    main()
