"""The commit log of record tables, after the paper on abstraDB: a commit is one object, at the next number.

`layout` names objects, `model`, `catalog` and `codec` hold them, `store` reads them. `log` is what a process knows
of the log's end, `overlay` what it knows of rows that lag behind; `proposal` and `group` add records, `history`
reads them, `truncation` packs old ones. Each module says which numbered rules of docs/format/record-log.md it keeps.
Start reading at `log`.
"""

from firn.journal.sequence.group import GroupCommit
from firn.journal.sequence.layout import SequenceLayout
from firn.journal.sequence.log import FRESHNESS_S, SequenceLog
from firn.journal.sequence.model import (
    Catalog,
    Ddl,
    DocumentRules,
    Head,
    Horizon,
    IndexState,
    LogRecord,
    LogTransaction,
    Pack,
    RowWrite,
    TableState,
)
from firn.journal.sequence.proposal import Moment, Outcome, Proposal, commit
from firn.journal.sequence.truncation import Truncated, truncate

__all__ = [
    "FRESHNESS_S",
    "Catalog",
    "Ddl",
    "DocumentRules",
    "GroupCommit",
    "Head",
    "Horizon",
    "IndexState",
    "LogRecord",
    "LogTransaction",
    "Moment",
    "Outcome",
    "Pack",
    "Proposal",
    "RowWrite",
    "SequenceLayout",
    "SequenceLog",
    "TableState",
    "Truncated",
    "commit",
    "truncate",
]
