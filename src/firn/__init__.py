"""Firn: a database that is nothing but objects in a bucket.

    db = firn.connect("./prod")                 # or s3://bucket/prefix, gs://…, az://…, memory://
    flights = db.create_table("flights", partition_by=["month(date)"])
    flights.append(rows)
    flights.scan(where="delay > 60").to_arrow()

Rooms, from the top: `cli`, `inspect`, `database`, `spark`, `lake`, `journal`, `bucket`; imports point
downward only. Start reading at `database`.
"""

from firn.database import Database, connect
from firn.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    AppendExpiredError,
    ConflictError,
    CorruptObjectError,
    FirnError,
    InvalidInputError,
    LockHeldError,
    LockLostError,
    NotFoundError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    SchemaConflictError,
    SnapshotTooOldError,
    StoreError,
    StoreUnavailableError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
)
from firn.journal.lock import ExclusiveLock, FileLock
from firn.journal.model import CommitInfo, DataFile, Snapshot, SweepReport
from firn.lake.results import AppendResult, ChangeResult, Partition
from firn.lake.scan import Scan
from firn.lake.table import LakeTable
from firn.runner import LocalRunner, Runner

__version__ = "0.1.0"

__all__ = [
    "AccessDeniedError",
    "AlreadyExistsError",
    "AppendExpiredError",
    "AppendResult",
    "ChangeResult",
    "CommitInfo",
    "ConflictError",
    "CorruptObjectError",
    "DataFile",
    "Database",
    "ExclusiveLock",
    "FileLock",
    "FirnError",
    "InvalidInputError",
    "LakeTable",
    "LocalRunner",
    "LockHeldError",
    "LockLostError",
    "NotFoundError",
    "ObjectChangedError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "OutcomeUnknownError",
    "Partition",
    "Runner",
    "Scan",
    "SchemaConflictError",
    "Snapshot",
    "SnapshotTooOldError",
    "StoreError",
    "StoreUnavailableError",
    "SweepReport",
    "TableExistsError",
    "TableNotFoundError",
    "UnsupportedError",
    "__version__",
    "connect",
]
