"""Writing checkpoints: the whole state beside its transaction, to begin reading at (rule 18).

A checkpoint proves its transaction, so there is one only where nothing else can have been acknowledged.
"""

from __future__ import annotations

from firn.errors import ForkError
from firn.journal.writer.format.identity import prefix_of
from firn.journal.writer.format.layout import ObjectName
from firn.journal.writer.format.messages import encode_checkpoint
from firn.journal.writer.format.state import CatalogState
from firn.journal.writer.history.history import History
from firn.journal.writer.history.listing import alone
from firn.journal.writer.settings import EVERY


def add_checkpoint(history: History, revision: int | None = None) -> ObjectName | None:
    """Write the checkpoint of a revision, the newest unless given; at any time, by any process.

    None where there is nothing to write: at the empty start, and at a tip that isn't alone.

    Cost: that of reading the revision + 1 PUT; for the newest one 1 LIST and 1 PUT more.

    Raises:
        ForkError: two processes wrote under the writer's id, and nobody has decided which one counts.
    """
    newest = history.load()
    if newest.fork is not None:
        raise ForkError(
            f"{history.where} has {newest.fork}: a checkpoint would choose a side. Do so with "
            "`firn repair --keep UUID` first."
        )
    decided = revision is not None and revision < newest.head.revision
    state = newest.state if revision is None else history.at(revision).state
    if not write_checkpoint(history, state, decided=decided) or state.head.uuid is None:
        return None
    return ObjectName(state.head.revision, prefix_of(state.head.uuid), "checkpoint")


def catch_up(history: History) -> int:
    """Write the newest revision's checkpoint; how many transactions readers needn't replay any more by it.

    Cost and errors: see `add_checkpoint`.
    """
    history.load()
    before = history.newest_checkpoint
    name = add_checkpoint(history)
    return 0 if name is None else max(0, name.revision - before)


def write_checkpoint(history: History, state: CatalogState, *, decided: bool = False) -> bool:
    """PUT the checkpoint of a state that this process has replayed; False where it may not be written.

    `decided`: another transaction follows it in the history that was read.
    """
    head, layout = state.head, history.layout
    if head.uuid is None:
        return False
    prefix = prefix_of(head.uuid)
    if not decided and not alone(history.bucket, layout, head.revision, prefix):
        return False
    history.bucket.put(layout.checkpoint_key(head.revision, head.uuid), encode_checkpoint(state))
    history.note_checkpoint(ObjectName(head.revision, prefix, "checkpoint"))
    if not decided and not history.has_forks:
        # Where readers begin by it, they don't see what is below; so never above a fork.
        history.reader.write_hint(ObjectName(head.revision, prefix, "checkpoint"))
    return True


def is_due(history: History, head: int, *, every: int = EVERY) -> bool:
    """Whether so many transactions stand above the newest checkpoint that was listed. Free of requests."""
    return head - history.newest_checkpoint >= every
