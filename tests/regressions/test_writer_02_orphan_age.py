"""Work that took longer than `orphan_age` was committed, though sweep had deleted its files; and a sweep of one table
deleted the files of another's first append."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from firn.database.writer_tables import WriterTables
from firn.errors import AppendExpiredError, ConflictError, TableNotFoundError
from firn.journal.model import Commit
from firn.lake.definition.definition import LakeDefinition
from firn.lake.table import LakeTable
from firn.lake.write.append import write
from firn.runner import InProcess, LocalRunner
from firn.testing import GatedBucket, SimStore

SHORT = {"orphan_age": "1s"}


@pytest.fixture(params=[True, False], ids=["claims", "listing"])
def bucket(request: pytest.FixtureRequest) -> GatedBucket:
    return SimStore(conditional_put=request.param).bucket()


def tables(bucket: GatedBucket, writer: str = "w") -> WriterTables:
    engines = InProcess(LocalRunner(threads=1))
    return WriterTables(bucket, "db", "sim://db", engines, writer=writer, strict=True, clock=bucket.clock)


def define(made: WriterTables, name: str, **properties: str) -> LakeTable:
    return made.define(LakeDefinition(name, journal="writer", properties=properties))


def sweep(table: LakeTable) -> set[str]:
    report = table.sweep()
    return {*report.data_files, *report.orphans}


def ids(table: LakeTable) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def test_a_transaction_that_is_too_slow_isnt_committed(bucket: GatedBucket) -> None:
    made = tables(bucket)
    table = define(made, "t", **SHORT)
    with (
        pytest.raises(AppendExpiredError, match="append to t began 2 s ago"),
        made.writer_transaction() as tx,
    ):
        tx.append("t", [{"id": 1}])
        bucket.clock.sleep(1.5)
        for number in (2, 3):
            table.append([{"id": number}])
        assert len(sweep(table)) == 1
    assert ids(table) == [2, 3]
    assert tx.version is None


def test_a_transaction_is_as_patient_as_each_table_of_it(bucket: GatedBucket) -> None:
    made = tables(bucket)
    patient, table = define(made, "patient"), define(made, "t", **SHORT)
    with made.writer_transaction() as tx:
        tx.append("patient", [{"id": 1}])
        bucket.clock.sleep(1.5)
        tx.append("t", [{"id": 2}])
    assert ids(patient) + ids(table) == [1, 2]


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.overwrite([{"id": 9}]),
        lambda t: t.merge(),
        lambda t: t.delete("id = 1", soft=False),
        lambda t: t.rewrite("SELECT id + 1 AS id FROM _rows"),
    ],
    ids=["overwrite", "merge", "delete", "rewrite"],
)
def test_a_change_that_is_too_slow_isnt_committed(
    bucket: GatedBucket, change: Callable[[LakeTable], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tables(bucket)
    table = define(made, "t", **SHORT)
    for number in (1, 2):
        table.append([{"id": number}, {"id": 10 * number}])
    commit = made.own.commit

    def slowly(proposal: object) -> object:
        monkeypatch.setattr(made.own, "commit", commit)
        bucket.clock.sleep(1.5)
        for number in (3, 4):
            table.append([{"id": number}])
        sweep(table)
        return commit(proposal)  # type: ignore[arg-type]

    monkeypatch.setattr(made.own, "commit", slowly)
    with pytest.raises(AppendExpiredError):
        change(table)
    assert ids(table) == [1, 2, 3, 4, 10, 20]


def test_an_update_that_is_too_slow_isnt_committed(
    bucket: GatedBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tables(bucket)
    from firn.lake.definition.keys import KeySpec

    table = made.define(LakeDefinition("t", journal="writer", properties=SHORT, keys=KeySpec(("id",))))
    table.append([{"id": 1, "n": 1}])
    session = table.journal.exclusive("update")
    with session as held:
        bucket.clock.sleep(1.5)
        with pytest.raises(AppendExpiredError, match="update of t"):
            held.check()
    table.update("id = 1", {"n": "2"})


def test_a_commit_without_an_answer_isnt_sent_again_once_its_files_may_be_swept(bucket: GatedBucket) -> None:
    """What was sent has landed by then, or never will."""
    made = tables(bucket)
    table = define(made, "t", **SHORT)
    table.append([{"id": 1}])
    handle = made.own._opened()
    ticket = table.journal.begin_append()
    written, _ = write(table.context, [{"id": 2}], ticket.namer)

    def unanswered(*args: object, **more: object) -> object:
        from firn.errors import OutcomeUnknownError

        raise OutcomeUnknownError("no answer")

    publish = handle._discipline.publish
    handle._discipline.publish = unanswered  # type: ignore[method-assign]
    with pytest.raises(Exception, match="no answer"):
        ticket.commit(Commit("append", written.files, columns=written.columns))
    handle._discipline.publish = publish  # type: ignore[method-assign]
    bucket.clock.sleep(1.5)
    table.append([{"id": 3}])
    table.append([{"id": 4}])
    sweep(table)
    assert ids(table) == [1, 3, 4]


def test_a_sweep_of_one_table_spares_anothers_first_append(bucket: GatedBucket) -> None:
    made, other = tables(bucket), tables(bucket, "other")
    define(other, "cpu")
    mem = define(made, "mem", **SHORT)
    cpu = made.find("cpu")
    assert cpu is not None
    ticket = cpu.journal.begin_append()
    written, _ = write(cpu.context, [{"id": 1}], ticket.namer)
    for number in (2, 3):
        mem.append([{"id": number}])
    bucket.clock.sleep(1.5)
    assert sweep(mem) == set()
    ticket.commit(Commit("append", written.files, columns=written.columns))
    assert ids(cpu) == [1]


def test_a_table_that_was_dropped_meanwhile_takes_no_files_from_before(bucket: GatedBucket) -> None:
    """A sweep of another table deletes them by that table's age."""
    made = tables(bucket)
    cpu, mem = define(made, "cpu"), define(made, "mem", **SHORT)
    cpu.append([{"id": 1}])
    ticket = cpu.journal.begin_append()
    written, _ = write(cpu.context, [{"id": 2}], ticket.namer)
    made.drop("cpu")
    mem.append([{"id": 3}])
    bucket.clock.sleep(1.5)
    assert sweep(mem) == {file.path for file in written.files}
    with pytest.raises(ConflictError, match="dropped the table meanwhile"):
        ticket.commit(Commit("append", written.files, columns=written.columns))
    assert made.find("cpu") is None
    with pytest.raises(TableNotFoundError, match="was dropped"):
        cpu.append([{"id": 4}])


def test_a_database_is_swept_by_the_age_of_each_table() -> None:
    import firn

    db = firn.connect("memory://ages/db", writer="w")
    short = db.create_table("short", journal="writer", properties=SHORT)
    long = db.create_table("long", journal="writer", properties={"orphan_age": "30d"})
    db.create_table("usual", journal="writer")
    from firn.database.upkeep import orphan_ages

    ages = orphan_ages(db._writer_tables)
    day = 86_400_000
    assert [ages(name) for name in ("short", "usual", "long", "gone")] == [
        7 * day,
        7 * day,
        30 * day,
        7 * day,
    ]
    assert short.name + long.name
