"""The group `firn records`, into which the modules beside this one hang their commands."""

from __future__ import annotations

from firn.cli.app import RECORDS, group

records = group(
    "records",
    RECORDS,
    "Record tables: read and write documents, alone or in transactions, and look after indices.",
)
