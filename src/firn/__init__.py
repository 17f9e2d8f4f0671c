"""Firn: a database that is nothing but objects in a bucket.

    db = firn.connect("./prod")                 # or s3://bucket/prefix, gs://…, az://…, memory://
    flights = db.create_table("flights", partition_by=["month(date)"])
    flights.append(rows)
    flights.scan(where="delay > 60").to_arrow()

Rooms, from the top: `cli`, `inspect`, `database`, `spark`, `lake`, `journal`, `bucket`; imports point
downward only. Start reading at `database`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firn.alter import AlterResult
    from firn.database.database import Database, connect
    from firn.errors import (
        AccessDeniedError,
        AlreadyExistsError,
        AppenderError,
        AppendExpiredError,
        BackPressureError,
        CardinalityError,
        CheckFailedError,
        ConflictError,
        CorruptObjectError,
        DatabaseClosedError,
        DegradedReadWarning,
        DuplicateKeyError,
        FencedError,
        FirnError,
        ForkError,
        HandleClosedError,
        InvalidInputError,
        LockHeldError,
        LockLostError,
        NoSuchKeyError,
        NoSuchVerbError,
        NotFoundError,
        ObjectChangedError,
        ObjectExistsError,
        ObjectLockedError,
        ObjectNotFoundError,
        OutcomeUnknownError,
        QueryTooLargeError,
        SchemaConflictError,
        SnapshotTooOldError,
        StaleObjectError,
        StoreError,
        StoreUnavailableError,
        TableExistsError,
        TableNotFoundError,
        TransactionClosedError,
        TransactionTimedOutError,
        UnsupportedError,
    )
    from firn.journal.lock import ExclusiveLock, FileLock
    from firn.journal.manifest.model import CollectReport
    from firn.journal.model import CommitInfo, DataFile, Snapshot, SweepReport
    from firn.journal.writer.federation.federation import WriterInfo
    from firn.journal.writer.maintain.prune import PruneReport
    from firn.journal.writer.rebuild.rebuild import RebuildReport
    from firn.journal.writer.unclaimed.repair import RepairReport
    from firn.keeping import KeepReport
    from firn.keyed.maintain.checkpoints import Checkpoint
    from firn.keyed.maintain.compaction import CompactionReport
    from firn.keyed.read.changes import Changes
    from firn.keyed.read.reader import KeyedReader
    from firn.keyed.read.reads import KeyedScan
    from firn.keyed.results import LoadReport
    from firn.keyed.table import KeyedTable
    from firn.keyed.write.batch import WriteBatch
    from firn.keyed.write.writer import KeyedWriter
    from firn.lake.appender.appender import Appender
    from firn.lake.maintain.matching.clauses import MergeClause
    from firn.lake.read.scan import Scan
    from firn.lake.results import (
        AppenderStats,
        AppendResult,
        ChangeResult,
        DropReport,
        ForgetResult,
        LostFile,
        MendReport,
        Partition,
    )
    from firn.lake.table import LakeTable
    from firn.records.definition.definition import Index
    from firn.records.documents.documents import Record
    from firn.records.documents.predicates import Contains, Prefix, Range
    from firn.records.load.load import RecordLoadReport
    from firn.records.maintain.collection import RecordSweepReport
    from firn.records.maintain.indexes import IndexInfo
    from firn.records.maintain.repair import RowRepairReport
    from firn.records.read.rows import Rows
    from firn.records.row_tables import RowTable
    from firn.records.table import RecordTable
    from firn.records.write.transaction import Transaction
    from firn.runner import LocalRunner, Runner
    from firn.sql.result import Result

__version__ = "0.1.0"

__all__ = [
    "AccessDeniedError",
    "AlreadyExistsError",
    "AlterResult",
    "AppendExpiredError",
    "AppendResult",
    "Appender",
    "AppenderError",
    "AppenderStats",
    "BackPressureError",
    "CardinalityError",
    "ChangeResult",
    "Changes",
    "CheckFailedError",
    "Checkpoint",
    "CollectReport",
    "CommitInfo",
    "CompactionReport",
    "ConflictError",
    "Contains",
    "CorruptObjectError",
    "DataFile",
    "Database",
    "DatabaseClosedError",
    "DegradedReadWarning",
    "DropReport",
    "DuplicateKeyError",
    "ExclusiveLock",
    "FencedError",
    "FileLock",
    "FirnError",
    "ForgetResult",
    "ForkError",
    "HandleClosedError",
    "Index",
    "IndexInfo",
    "InvalidInputError",
    "KeepReport",
    "KeyedReader",
    "KeyedScan",
    "KeyedTable",
    "KeyedWriter",
    "LakeTable",
    "LoadReport",
    "LocalRunner",
    "LockHeldError",
    "LockLostError",
    "LostFile",
    "MendReport",
    "MergeClause",
    "NoSuchKeyError",
    "NoSuchVerbError",
    "NotFoundError",
    "ObjectChangedError",
    "ObjectExistsError",
    "ObjectLockedError",
    "ObjectNotFoundError",
    "OutcomeUnknownError",
    "Partition",
    "Prefix",
    "PruneReport",
    "QueryTooLargeError",
    "Range",
    "RebuildReport",
    "Record",
    "RecordLoadReport",
    "RecordSweepReport",
    "RecordTable",
    "RepairReport",
    "Result",
    "RowRepairReport",
    "RowTable",
    "Rows",
    "Runner",
    "Scan",
    "SchemaConflictError",
    "Snapshot",
    "SnapshotTooOldError",
    "StaleObjectError",
    "StoreError",
    "StoreUnavailableError",
    "SweepReport",
    "TableExistsError",
    "TableNotFoundError",
    "Transaction",
    "TransactionClosedError",
    "TransactionTimedOutError",
    "UnsupportedError",
    "WriteBatch",
    "WriterInfo",
    "__version__",
    "connect",
]

_MODULES = (
    "firn.errors",
    "firn.alter",
    "firn.database.database",
    "firn.journal.lock",
    "firn.journal.model",
    "firn.journal.manifest.model",
    "firn.journal.writer.federation.federation",
    "firn.journal.writer.maintain.prune",
    "firn.journal.writer.rebuild.rebuild",
    "firn.journal.writer.unclaimed.repair",
    "firn.keeping",
    "firn.keyed.write.batch",
    "firn.keyed.load.bulk_load",
    "firn.keyed.read.changes",
    "firn.keyed.maintain.checkpoints",
    "firn.keyed.maintain.compaction",
    "firn.keyed.read.reader",
    "firn.keyed.read.reads",
    "firn.keyed.table",
    "firn.keyed.write.writer",
    "firn.lake.appender.appender",
    "firn.lake.maintain.matching.clauses",
    "firn.lake.results",
    "firn.lake.read.scan",
    "firn.lake.table",
    "firn.records.maintain.collection",
    "firn.records.definition.definition",
    "firn.records.documents.documents",
    "firn.records.load.load",
    "firn.records.documents.predicates",
    "firn.records.row_tables",
    "firn.records.read.rows",
    "firn.records.table",
    "firn.records.write.transaction",
    "firn.runner",
    "firn.sql.result",
)


def __getattr__(name: str) -> object:
    """Public names are found when they are first used: `firn --help` needs neither Arrow nor SQL."""
    if name in __all__:
        for module in _MODULES:
            if (found := getattr(import_module(module), name, None)) is not None:
                globals()[name] = found
                return found
    raise AttributeError(f"module 'firn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
