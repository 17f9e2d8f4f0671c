"""A writer's catalog on every kind of store, by claims and by PUT and LIST, with two real threads on one id."""

from __future__ import annotations

import threading

import pytest

from firn.errors import ConflictError, ForkError
from firn.journal.model import DataFile
from firn.journal.writer.commit.commit import Handle
from firn.journal.writer.format.actions import Add, Define
from firn.journal.writer.format.layout import WriterLayout
from firn.journal.writer.history.checkpoint import add_checkpoint
from firn.journal.writer.history.history import History
from stores.places import Place

LAYOUT = WriterLayout("some/where", "host-17", "db")
COMMITS = 8


@pytest.mark.parametrize("claims", [True, False])
def test_two_threads_of_one_writer(place: Place, claims: bool) -> None:
    bucket = place.open() if claims else place.open(conditional_put="disabled")
    Handle(History(bucket, LAYOUT)).commit([Define("t", b"spec")], op="create")
    acknowledged: list[tuple[int, str]] = []
    failures: list[BaseException] = []
    given_up: list[str] = []

    def work(name: str) -> None:
        done = 0
        try:
            while done < COMMITS:
                try:
                    handle = Handle(History(bucket, LAYOUT))
                    path = f"{name}-{done}"
                    head = handle.commit([Add("t", DataFile(path, 1, 0))], op="append")
                    acknowledged.append((head.revision, path))
                    done += 1
                except ForkError:
                    if History(bucket, LAYOUT).load().fork is not None:
                        given_up.append(name)
                        return  # open: a person has to decide, unless the other one's next commit does
                except ConflictError:
                    continue
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len({revision for revision, _ in acknowledged}) == len(acknowledged)
    version = History(bucket, LAYOUT).load()
    assert not (claims and version.fork)
    shown = {(f.revision, path) for path, f in version.state.tables["t"].files.items()}
    decided = {(r, p) for r, p in acknowledged if version.fork is None or r < version.fork.revision}
    assert decided <= shown
    assert not (claims and given_up)
    if version.fork is None:
        assert given_up or len(acknowledged) == 2 * COMMITS
        name = add_checkpoint(History(bucket, LAYOUT))
        assert name is not None and name.revision == version.head.revision
        assert History(bucket, LAYOUT).load().state == version.state
        assert History(bucket, LAYOUT).at(2).head.revision == 2
