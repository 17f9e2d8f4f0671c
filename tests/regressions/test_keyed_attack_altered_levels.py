"""A long full compaction of a table that was leveled before put its run under the number of an L0 step's beside it:
two runs of one level and number were read as one, and keys came back with older values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firn.keyed.maintain import compaction, l0_steps
from kv_compactors import Beside, Slow
from kv_tables import live, new_table


def test_a_step_of_l0_has_a_run_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(properties={"compaction": "leveled"})
    with table.open(compaction=False) as kv:
        kv.write({b"%03d" % n: b"old" for n in range(100)})
        kv.delete(b"050")
        table.compact()
        session = table.journal.open_compactor()
        moved = session.view.manifest.ssts  # as one that has become too large for level 1 goes down
        session.commit(
            adds=[replace(sst, level=2, run=0, tombstones=1) for sst in moved],
            deletes=moved,
            last_compacted=session.view.manifest.last_compacted,
        )
        kv.poll()
        table.alter(set_properties={"compaction": "tiered"})

        def meanwhile() -> None:
            for n in range(9):
                kv.put(b"%03d" % n, b"new")
            Beside.steps[-1]()
            assert not table.view().l0

        monkeypatch.setattr(l0_steps, "LONG_BYTES", 0)
        monkeypatch.setattr(compaction, "beside", Beside)
        table.compact(full=True, runner=Slow(meanwhile))
        expected = {b"%03d" % n: b"new" if n < 9 else b"old" for n in range(100) if n != 50}
        runs = {(sst.level, sst.run) for sst in table.view().manifest.ssts}
        assert len(runs) == 2
        assert live(table) == expected
        kv.poll()
        assert dict(kv.scan()) == expected and kv.get(b"001") == b"new"
