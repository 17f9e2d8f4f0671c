"""A forked child hung for ever: on a store on the network, and in DuckDB, whose threads a fork doesn't copy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_PARENT = """
import os, sys
import firn

def child(work):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        work()
        sys.stdout.flush()
        sys.exit(0)  # the whole way out: the parent's connections are let go of there
    assert os.waitpid(pid, 0)[1] == 0
"""


def run(program: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _PARENT + program, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_a_child_uses_all_kinds_of_tables_that_its_parent_has_opened_in_a_directory(tmp_path: Path) -> None:
    program = """
db = firn.connect(sys.argv[1], writer="host")
lake, mine = db.create_table("lake"), db.create_table("mine", journal="writer")
keyed, rows = db.create_table("keyed", kind="keyed"), db.create_table("rows", kind="records")
writer = keyed.open()
reader = keyed.reader(follow=0)

def work(n=1):
    for table in (lake, mine):
        table.append([{"n": n}])
        table.merge(query="SELECT * FROM source_files WHERE n < 100")
        print(table.scan(where="n > 0").to_arrow().num_rows, flush=True)
    with db.begin() as tx:
        tx.insert("rows", str(n), {"n": n})
    print(len(rows.scan()), reader.get(b"k"), flush=True)
    if n == 1:
        writer.put(b"k", b"v")
        return
    try:
        writer.put(b"k", b"w")
    except firn.InvalidInputError as error:
        assert "forked" in str(error), error
    with keyed.open() as own:
        own.put(b"k", b"x")
    print(reader.get(b"k"))

work()
child(lambda: work(2))
child(lambda: child(lambda: work(3)))
print(len(rows.scan()), lake.scan(where="n > 0").count())
"""
    assert run(program, str(tmp_path)) == [
        *("1", "1", "1 None"),
        *("2", "2", "2 b'v'", "b'x'"),
        *("3", "3", "3 b'x'", "b'x'"),
        "3 3",
    ]


def test_a_child_is_refused_a_store_that_its_parent_has_used_at_once() -> None:
    program = """
import multiprocessing
options = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region": "r", "max_retries": 0,
           "endpoint": "http://127.0.0.1:1", "allow_http": True}

def tables(_=None):
    try:
        firn.connect("s3://bucket/prod", options=options).tables()
    except firn.FirnError as error:
        return type(error).__name__ + (" spawn" if "get_context('spawn')" in str(error) else "")

db = firn.connect("s3://bucket/prod", options=options)
child(lambda: print(tables()))
print(tables())
child(lambda: print(tables()))
child(lambda: print(firn.connect("memory://").tables()))
with multiprocessing.get_context("fork").Pool(1) as pool:
    print(pool.map(tables, [1])[0])
"""
    assert run(program) == [
        "StoreUnavailableError",
        "StoreUnavailableError",
        "UnsupportedError spawn",
        "[]",
        "UnsupportedError spawn",
    ]


def test_a_child_appends_though_a_thread_of_its_parent_was_at_the_table(tmp_path: Path) -> None:
    """Such as its keeper, which shares what is known of the log."""
    program = """
import signal
table = firn.connect(sys.argv[1]).create_table("t", properties={"maintain": "none"})
table.append([{"n": 1}])
log = table.journal
with log.loader._mutex, log._stamping, log.known_columns._mutex:
    if (pid := os.fork()) == 0:
        signal.alarm(60)  # it would wait for ever
        table.append([{"n": 2, "m": 1}])
        os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print(table.scan().count())
"""
    assert run(program, str(tmp_path)) == ["2"]
