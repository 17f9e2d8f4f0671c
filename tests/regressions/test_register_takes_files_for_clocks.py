"""Registering a file that was written long ago was refused as if this machine's clock were ahead; and an append
that took longer than its clock was off wasn't refused."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.errors import InvalidInputError
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.model import Commit
from firn.lake.definition.definition import LakeDefinition
from firn.lake.table import LakeTable
from firn.runner import InProcess, LocalRunner
from firn.testing import Rule, Script, SimStore, stalled
from regressions.journals import journal_on, pass_time
from simulation.leaderless_table import put_rows


def test_old_files_can_be_registered() -> None:
    bucket = SimStore().bucket()
    body = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2]}), body)
    bucket.put("elsewhere/old.parquet", body.getvalue())
    bucket.clock.sleep(86_400)
    journal = LeaderlessJournal(bucket, "db/t", clock=bucket.clock, renew_in_background=False)
    table = LakeTable(bucket, "db/t", LakeDefinition("t"), journal, InProcess(LocalRunner(threads=1)))
    assert table.register("elsewhere/old.parquet").rows == 2


@pytest.mark.parametrize("off_ms", [-3_600_000, 3_600_000])
def test_a_slow_append_by_a_wrong_clock_is_refused(off_ms: int) -> None:
    journal = journal_on(SimStore(), skew_ms=off_ms)
    ticket = journal.begin_append()
    if off_ms > 0:
        pass_time(journal, 4000)
    file = put_rows(journal, "p=a", [1], maintenance=False)
    if off_ms < 0:
        pass_time(journal, 4000)
    with pytest.raises(InvalidInputError, match="clock"):
        ticket.commit(Commit("append", [file]))


def test_a_slow_answer_hides_no_wrong_clock() -> None:
    plan = Script(Rule(stalled(4000), verb="head"))
    journal = journal_on(SimStore(), plan=plan, skew_ms=-3_600_000)
    ticket = journal.begin_append()
    file = put_rows(journal, "p=a", [1], maintenance=False)
    with pytest.raises(InvalidInputError, match="clock"):
        ticket.commit(Commit("append", [file]))
