"""What each of `firn records` costs in requests: that of opening the database, once, and the verb's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import firn
from cli_runs import run
from firn.records.apply.apply import settle

OPENING = {"get": 1 + 5}
"""The definition; the horizon twice, the two numbers behind what is applied, and what it tells of the beginning."""

LINES = (
    b'{"op": "get", "table": "t", "id": "r0"}\n{"op": "upsert", "table": "t", "id": "r1", "document": {}}\n'
)
COMMANDS: dict[str, tuple[list[Any], bytes | None, dict[str, int]]] = {
    "get": (["get", "t", "r0"], None, {"get": 1}),
    "find": (["find", "t", "n=0"], None, {"get": 2, "list": 1}),
    "scan": (["scan", "t"], None, {"get": 3, "list": 1}),
    "put": (["put", "t", "r0", "{}"], None, {"put": 1}),
    "put --insert": (["put", "t", "new", "{}", "--insert"], None, {"get": 1, "put": 1}),
    "put --etag": (["put", "t", "r0", "{}", "--etag", "ETAG"], None, {"get": 1, "put": 1}),
    "delete": (["delete", "t", "r0"], None, {"get": 1, "put": 1}),
    "tx": (["tx", ""], LINES, {"get": 1, "put": 1}),
    "load": (["load", "t", "ROWS"], None, {"get": 1 + 2, "put": 1 + 2 * 2}),
    "index": (["index", "t"], None, {}),
    "index FIELD": (["index", "t", "m"], None, {"list": 1, "get": 3 + 3, "put": 4 + 2}),
    "index --drop": (["index", "t", "n", "--drop"], None, {"put": 1}),
    "sweep --dry-run": (["sweep", "t", "--dry-run"], None, {"get": 4 + 5, "list": 4}),
}


class Idle:
    """Applies nothing in the background."""

    def __init__(self, store: object) -> None:
        pass

    def poke(self) -> None:
        pass

    def finish(self, seconds: float) -> None:
        pass


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    args, stdin, own = COMMANDS[command]
    monkeypatch.setattr("firn.records.session.Applier", Idle)
    db = firn.connect(tmp_path)
    table = db.create_table("t", kind="records", indices=["n"])
    for n in range(3):
        table.insert(f"r{n}", {"n": n % 2})
    settle(table.session.store)
    table.upsert("r2", {"n": 0})
    settle(table.session.store)
    rows = tmp_path / "rows.json"
    rows.write_text('[{"_id": "x", "n": 1}, {"_id": "y", "n": 2}]')
    words = {"t": tmp_path / "t", "": tmp_path, "ROWS": rows, "ETAG": table.get("r0").etag}

    buckets, real = [], firn.database.database.open_bucket
    monkeypatch.setattr(
        "firn.database.database.open_bucket", lambda *a, **o: buckets.append(real(*a, **o)) or buckets[-1]
    )
    answer = run("records", args[0], *(words.get(arg, arg) for arg in args[1:]), stdin=stdin)
    assert answer.code == 0, answer
    (bucket,) = buckets
    spent = {verb: n for verb, n in bucket.counters.as_dict().items() if n and not verb.startswith("bytes")}
    expected = {verb: OPENING.get(verb, 0) + own.get(verb, 0) for verb in {*OPENING, *own}}
    assert spent == expected
