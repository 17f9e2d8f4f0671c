"""Processes that share record tables, killed by SIGKILL at any moment: what they saw is one order of transactions."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import firn
from firn.records.table import RecordTable
from firn.testing import History
from stores.places import Place
from stores.servers import Server

LISTS = [f"list{n}" for n in range(5)]

CLIENT = """
import json, random, sys, time
import firn

url, options, me, lists = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
db, chance = firn.connect(url, options=options), random.Random(me)

def say(*line):
    print(json.dumps(line), flush=True)

for n in range(100_000):
    name, start, operations = f"{me}-{n}", time.monotonic_ns(), []
    try:
        tx = db.begin(serializable=True)
        found = {}
        for key in chance.sample(lists, 3):
            rows = tx.find("lists", name=key) if chance.random() < 0.5 else tx.scan("lists", name=key)
            found[key] = rows[0]["values"] if rows else []
            operations.append(["r", key, found[key]])
        for key in chance.sample(sorted(found), chance.randint(0, 2)):
            operations.append(["a", key, f"{name}/{key}"])
            tx.upsert("lists", key, {"name": key, "values": [*found[key], f"{name}/{key}"]})
        say(name, "unknown", start, None, operations)      # what a process that dies in the commit leaves
        tx.commit()
        outcome = "committed"
    except firn.OutcomeUnknownError:
        continue
    except firn.FirnError:
        outcome = "aborted"
    say(name, outcome, start, time.monotonic_ns(), operations)
"""


@pytest.fixture(params=["directory", pytest.param("s3-versitygw", marks=pytest.mark.stores)])
def shared(request: pytest.FixtureRequest, tmp_path: Path, servers: Callable[[str], Server]) -> Place:
    """A store that several processes can share."""
    if request.param == "directory":
        return Place("directory", str(tmp_path / "bucket"), {})
    server = servers(request.param)
    return Place(request.param, server.new_bucket(), server.options, server.seen)


class Client:
    """A process, and what it has said."""

    def __init__(self, place: Place, name: str) -> None:
        code = [CLIENT, f"{place.url}/db", json.dumps(place.options), name, json.dumps(LISTS)]
        paths = os.pathsep.join(path for path in sys.path if path)
        self.process = subprocess.Popen(
            [sys.executable, "-c", *code],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        self.said: list[str] = []

    def hear(self, lines: int) -> None:
        assert self.process.stdout is not None
        self.said += [self.process.stdout.readline() for _ in range(lines)]

    def kill(self) -> list[str]:
        """All whole lines that it ever said."""
        assert self.process.stdout is not None
        self.process.kill()
        self.said += self.process.stdout.readlines()
        self.process.wait()
        self.process.stdout.close()
        return [line for line in self.said if line.endswith("\n")]


def test_what_processes_saw_that_were_killed(shared: Place, tmp_path: Path) -> None:
    db = firn.connect(f"{shared.url}/db", options=shared.options)
    table = db.create_table("lists", kind="records", indices=["name"])
    assert isinstance(table, RecordTable)
    chance = random.Random(1)
    said: list[str] = []
    clients = [Client(shared, f"p{n}") for n in range(3)]
    try:
        for n in range(3, 6):
            for client in clients:
                client.hear(12)
            said += clients.pop(chance.randrange(3)).kill()
            clients.append(Client(shared, f"p{n}"))
        for client in clients:
            client.hear(12)
    finally:
        said += [line for client in clients for line in client.kill()]

    last = {json.loads(line)[0]: line for line in said}
    (tmp_path / "history").write_text("".join(last.values()))
    history = History(clock=time.monotonic_ns)
    history.load(tmp_path / "history")
    with (
        history.begin("last") as seen,
        firn.connect(f"{shared.url}/db", options=shared.options).begin() as tx,
    ):
        found = {row.id: row.document for row in tx.scan("lists")}
        for key in LISTS:
            assert [row.document for row in tx.find("lists", name=key)] == (
                [found[key]] if key in found else []
            )
            seen.read(key, found[key]["values"] if key in found else [])
    verdict = history.check("serializable")
    assert verdict, str(verdict)
    outcomes = [transaction.status for transaction in history.transactions]
    assert outcomes.count("committed") >= 20
