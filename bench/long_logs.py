"""Tables with a long history and no data: only their logs are real. For opening, not for reading."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from firn.journal.leaderless.append import append_log
from firn.journal.leaderless.format.codec import encode
from firn.journal.leaderless.format.layout import TableLayout
from firn.journal.model import Commit, DataFile
from firn.lake.table import LakeTable

COLUMNS = {"id": "BIGINT", "name": "VARCHAR", "value": "DOUBLE", "at": "TIMESTAMP"}


def firn_log(table: LakeTable, commits: int, *, files: int = 1) -> None:
    """Append logs as Firn writes them, of `files` markers each with rows and statistics, into a new table."""
    layout = TableLayout(table.prefix, table.prefix)
    namer = layout.namer(maintenance=False)
    start = int(time.time() * 1000) - commits
    items = []
    for number in range(commits):
        markers = [marker(namer(""), start + number, number * files + n) for n in range(files)]
        log = append_log(Commit("append", markers, columns=COLUMNS), start + number)
        items.append((layout.log_key(log.name), encode(log)))
    table.bucket.put_many(items)


def marker(path: str, ms: int, number: int) -> DataFile:
    """A data file of ten rows, and what an append knows of it."""
    first = number * 10
    stats = {
        "id": [first, first + 9, 0],
        "name": [f"device-{first % 97}", f"device-{first % 97 + 1}", 0],
        "value": [first * 0.25, first * 0.25 + 2.25, 0],
        "at": [1_700_000_000_000_000 + first, 1_700_000_000_000_009 + first, 0],
    }
    return DataFile(path, 2_817, ms, {"rows": 10, "stats": stats})


def delta_log(place: Path, commits: int) -> None:
    """Commits as delta-rs writes them, one add each, no checkpoint."""
    log = place / "_delta_log"
    log.mkdir(parents=True)
    types = {"id": "long", "name": "string", "value": "double", "at": "timestamp"}
    fields = [{"name": c, "type": t, "nullable": True, "metadata": {}} for c, t in types.items()]
    schema = json.dumps({"type": "struct", "fields": fields})
    for number in range(commits):
        ms = 1_700_000_000_000 + number
        actions: list[dict[str, Any]] = []
        if number == 0:
            actions += [
                {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
                {
                    "metaData": {
                        "id": "6f1f0a5e-0000-4000-8000-000000000000",
                        "format": {"provider": "parquet", "options": {}},
                        "schemaString": schema,
                        "partitionColumns": [],
                        "configuration": {},
                        "createdTime": ms,
                    }
                },
            ]
        first = number * 10
        stats = {
            "numRecords": 10,
            "minValues": {"id": first, "name": f"device-{first % 97}", "value": first * 0.25},
            "maxValues": {"id": first + 9, "name": f"device-{first % 97 + 1}", "value": first * 0.25 + 2.25},
            "nullCount": {"id": 0, "name": 0, "value": 0, "at": 0},
        }
        actions += [
            {
                "add": {
                    "path": f"part-00000-{number:08x}-0000-4000-8000-000000000000-c000.snappy.parquet",
                    "partitionValues": {},
                    "size": 2_817,
                    "modificationTime": ms,
                    "dataChange": True,
                    "stats": json.dumps(stats),
                }
            },
            {
                "commitInfo": {
                    "timestamp": ms,
                    "operation": "WRITE",
                    "operationParameters": {"mode": "Append"},
                }
            },
        ]
        (log / f"{number:020}.json").write_text("\n".join(json.dumps(action) for action in actions))
