"""The paper's worked example: [3.7, 3.6, 2.5, 2.4, 2.3, 1.2]."""

from __future__ import annotations

import pytest

from firn.errors import FencedError
from firn.journal.manifest import ManifestJournal, SSTInfo
from firn.journal.manifest.model import EpochInfo, L0File
from firn.journal.manifest.walk import walk
from firn.testing import SimStore

EXPECTED = [(3, 7), (3, 6), (2, 5), (2, 4), (2, 3), (1, 2)]
INFOS = [EpochInfo(1, 0, "a"), EpochInfo(2, 3, "b"), EpochInfo(3, 6, "c")]
FILES = [(1, 1), (1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (2, 5), (2, 6), (3, 6), (3, 7)]


def names(files):
    return [(file.epoch, file.number) for file in files]


def listed(pairs, fences=()):
    return [L0File(e, n, f"l0/{e}.{n}", 0 if (e, n) in fences else 10) for e, n in pairs]


def test_the_walk_gives_what_the_paper_says():
    assert names(walk(INFOS, 1, listed(FILES))) == EXPECTED


def test_fences_where_later_writers_opened_change_nothing():
    """Fences take the places of the zombies' files, or stand beyond all of them."""
    fenced = [f for f in FILES if f not in ((1, 3), (2, 6))]
    fences = {(1, 3), (2, 6), (3, 8)}
    assert names(walk(INFOS, 1, listed([*fenced, *fences], fences))) == EXPECTED


def test_the_order_of_the_list_does_not_matter():
    assert names(walk(INFOS, 1, listed(reversed(FILES)))) == EXPECTED


@pytest.fixture
def store():
    return SimStore(etags="counter")


def journal(store, who):
    bucket = store.bucket(who)
    return ManifestJournal(bucket, "t", clock=bucket.clock)


def test_played_by_three_writers(store):
    """The same life on real code: two writers are followed while they go on; a compactor takes 1.0 and 1.1."""
    journal(store, "creator").create({}, 1)
    first = journal(store, "first").open_writer()
    for n in (0, 1, 2):
        first.put_l0(n, b"1")
    second = journal(store, "second").open_writer()
    with pytest.raises(FencedError, match=r"000001\.000000000000000003.sst is a fence"):
        first.put_l0(3, b"zombie")
    for n in (3, 4, 5):
        second.put_l0(n, b"2")
    third = journal(store, "third").open_writer()
    with pytest.raises(FencedError):
        second.put_l0(6, b"zombie")
    third.put_l0(6, b"3")
    third.put_l0(7, b"3")
    # A zombie that hasn't seen the fence, as it was to come to 4 before 3.
    store.bucket("zombie").put_if_absent("t/l0/000000000000000001.000000000000000004.sst", b"zombie")

    compactor = journal(store, "compactor").open_compactor()
    number = compactor.next_sst_number()
    compactor.put_sst(number, b"sst")
    sst = SSTInfo(1, 0, number, compactor.sst_file(number), b"a", b"b", 2, 3, 2 << 32)
    assert names(compactor.commit(adds=[sst], deletes=[], last_compacted=1).l0) == EXPECTED
    assert names(journal(store, "reader").read().l0) == EXPECTED
    assert [i.writer_epoch for i in journal(store, "reader").pointer().infos] == [1, 2, 3]
