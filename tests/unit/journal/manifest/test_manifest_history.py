"""The manifests that are in the bucket, as commits."""

from __future__ import annotations

from firn.errors import FencedError
from manifest_tables import Table, merge, put


def told(table):
    return [
        (c.state, c.full, c.flushes, len(c.adds), len(c.deletes), c.ssts) for c in table.journal().history()
    ]


def test_a_table_that_was_never_compacted_has_none():
    assert Table().journal().history() == []


def test_steps_of_a_chain_the_newest_first():
    table = Table()
    table.write(0, 1, 2, 3)
    session = table.journal("compactor").open_compactor()
    first = [put(session, run=0) for _ in range(3)]
    session.commit(adds=first, deletes=[], last_compacted=1)
    session.commit(adds=[put(session, run=1)], deletes=[], last_compacted=2)
    session.commit(adds=[], deletes=first[:1], last_compacted=2)
    assert told(table) == [
        ("current", False, 0, 0, 1, 3),
        ("chain", False, 1, 1, 0, 4),
        ("chain", True, 2, 3, 0, 3),
    ]
    newest = table.journal().history(1)
    assert [c.manifest for c in newest] == [table.read().manifest.name]
    assert newest[0].version == table.read().version.replace("@3", "@2")


def test_what_was_replaced_kept_and_never_committed():
    table = Table()
    table.write(0, 1)
    table.compact(0)
    table.journal().snapshot()
    table.compact()
    late = table.journal("late").open_compactor()
    table.write(2)
    table.compact()
    try:
        merge(late, late.view, late.view.last_l0)
        raise AssertionError
    except FencedError:
        pass
    table.journal("under way").open_compactor()
    ahead = table.journal("ahead").open_compactor()
    ahead._put_manifest(ahead._manifest(ahead.view, [put(ahead)], [], ahead.view.manifest.last_compacted, 1))
    assert [state for state, *_ in told(table)] == ["open", "current", "replaced", "replaced", "kept"]


def test_what_it_costs():
    table = Table()
    table.write(0)
    table.compact()
    journal = table.journal()
    before = journal.bucket.counters.as_dict()
    journal.history()
    spent = journal.bucket.counters.since(before)
    assert (spent["get"], spent["list"], spent["put"]) == (1 + 1, 2, 0)
