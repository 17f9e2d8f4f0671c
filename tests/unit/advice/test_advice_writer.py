"""The table of advice: writers' catalogs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import firn
from advice import Advice, advises
from firn.journal.inlined import InlinedRows
from firn.journal.writer.commit.commit import Handle
from firn.journal.writer.commit.local_writer import PendingCommit
from firn.journal.writer.format.actions import Add, Define, Remove
from firn.journal.writer.format.footers import read_pairs
from firn.journal.writer.format.marker import decode_marker
from firn.journal.writer.format.messages import encode_checkpoint, encode_transaction
from firn.journal.writer.format.metadata import read_metadata
from firn.journal.writer.history.checkpoint import add_checkpoint
from firn.journal.writer.history.history import History
from firn.journal.writer.unclaimed.repair import repair
from firn.testing import Rule, Script, SimStore, delayed
from simulation.writer_catalog import LAYOUT as LAYOUT_17
from simulation.writer_catalog import commit, handle_of, history_of, numbers
from unit.journal.writer.test_writer_catalog import LAYOUT, open_handle, put, store_of
from unit.journal.writer.test_writer_repair import grown, joined, repaired, uuid_of
from writer_databases import UNCLAIMED, database, fork, keys, layout, newest, two_writers

PUT_AND_LIST = ("--option", "conditional_put=disabled")


@pytest.fixture
def prod(tmp_path: Path) -> Path:
    two_writers(tmp_path)
    return tmp_path / "prod"


def decide(advice: Advice, prod: Path, uuid: str, index: int = 0) -> None:
    advice.follow(index, prod, "--yes", *PUT_AND_LIST, UUID=uuid)


# -- forks


def test_a_fork_is_decided(tmp_path: Path) -> None:
    prod = tmp_path / "prod"
    a = two_writers(tmp_path, options=UNCLAIMED)
    before = History(a.bucket, layout())
    before.load()
    kept, _ = fork(a.bucket)
    with advises(
        "a checkpoint would choose a side. Do so with `firn repair --keep UUID` first", names="a/prod"
    ):
        add_checkpoint(History(a.bucket, layout()))
    with advises(" can't be told. Choose a side with `firn repair --keep UUID`, and ", names="a/prod"):
        database(tmp_path, options=UNCLAIMED).prune("0s")
    with advises(" can't be told. Choose a side with `firn repair --keep UUID`, and ", names="which files"):
        database(tmp_path, options=UNCLAIMED).sweep("0s")
    with advises("Stop all but one of them and choose a side with", names=["a/prod", "'a'"]):
        database(tmp_path, options=UNCLAIMED).table("cpu").append([{"cores": 9}])
    with advises("Stop all but one of them; if the fork stays, choose a side with", names=["a/prod", "'a'"]):
        History(a.bucket, layout()).at(kept.revision)
    with advises("choose a side with `firn repair --keep UUID`", names="writer a"):
        firn.connect(prod, options=UNCLAIMED).table("cpu").scan().to_arrow()
    with advises(
        "and this connection is strict. Stop all but one of the processes", names="a/prod"
    ) as advice:
        firn.connect(prod, options=UNCLAIMED, strict=True).table("cpu").scan().count()
    decide(advice, prod, kept.uuid)
    assert firn.connect(prod, options=UNCLAIMED, strict=True).table("cpu").scan().count() == 2
    a = database(tmp_path, options=UNCLAIMED)
    a.table("cpu").append([{"cores": 9}])
    a.prune("0s")
    a.sweep("0s")
    assert add_checkpoint(History(a.bucket, layout())) is not None


def test_a_rival_at_the_same_time_is_decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a = two_writers(tmp_path, options=UNCLAIMED)
    plain = a.bucket.put

    def and_a_rival(key: str, data: bytes, **options: Any) -> str:
        etag = plain(key, data, **options)
        if key.endswith(".transaction"):
            monkeypatch.undo()
            fork(a.bucket)
        return etag

    monkeypatch.setattr(a.bucket, "put", and_a_rival)
    with advises("if the fork stays, choose a side with `firn repair --keep UUID`", names="a/prod") as advice:
        a.table("cpu").append([{"cores": 9}])
    assert "This commit isn't acknowledged: stop one of the processes" in advice.text
    decide(advice, tmp_path / "prod", newest(a.bucket)[1].uuid)
    database(tmp_path, options=UNCLAIMED).table("cpu").append([{"cores": 9}])


def test_a_checkpoint_of_another_side_decides(tmp_path: Path) -> None:
    a = two_writers(tmp_path, options=UNCLAIMED)
    handle = Handle(History(a.bucket, layout()))
    kept, rival = fork(a.bucket)
    state = replace(handle.state, head=handle.head._replace(uuid=rival.uuid))
    a.bucket.put(layout().checkpoint_key(rival.revision, rival.uuid), encode_checkpoint(state))
    with advises(
        "is a checkpoint of another transaction than this handle's head", names=".checkpoint"
    ) as advice:
        handle.commit([], op="append")
    told = advice.follow(0, tmp_path / "prod", "--json").json["transactions"]
    assert {t["uuid"] for t in told if t["status"] == "counts"} & {kept.uuid, rival.uuid} == {rival.uuid}
    database(tmp_path, options=UNCLAIMED).table("cpu").append([{"cores": 9}])


def test_a_uuid_to_keep_stands_in_the_log(tmp_path: Path) -> None:
    a = two_writers(tmp_path, options=UNCLAIMED)
    kept, _ = fork(a.bucket)
    with advises("isn't a transaction's uuid: it has up to 32 hexadecimal digits", names="'mine'") as advice:
        a.repair("mine")
    assert kept.uuid in advice.follow(0, tmp_path / "prod", "--json").out
    assert a.repair(kept.uuid).kept == kept.uuid


def test_what_is_missing_is_rebuilt_not_repaired(prod: Path) -> None:
    a = database(prod.parent)
    key, transaction = newest(a.bucket)
    table = a.table("cpu")
    table.append([{"cores": 9}])
    a.bucket.delete(key)
    with advises("Copy the missing object back, or rebuild the catalog", names="a/prod") as advice:
        History(a.bucket, layout()).load()
    a.bucket.delete(newest(a.bucket)[0])
    with advises("Repair decides forks only; `firn rebuild", names="a/prod") as other:
        a.repair(transaction.uuid)
    assert advice.commands == other.commands
    other.follow(0, prod)
    assert firn.connect(prod).table("cpu").scan().count() == 3


def test_a_branch_without_its_data_gets_it_back_or_another_is_kept() -> None:
    shared = grown(SimStore(conditional_put=False), 1, 2, 3)
    sides = grown(shared, 4), grown(shared, 5)
    for follow in ("copy", "keep"):
        store = joined(*sides)
        (path,) = (k for k in store.keys("") if k.endswith(f"{4:024}.parquet"))
        body = store.contents()[path]
        store.remove(path)
        with advises("Copy them back, or keep another branch", names=[path, uuid_of(sides[0], 4)]):
            repaired(store, uuid_of(sides[0], 4))
        if follow == "copy":
            store.write(path, body)
        assert repaired(store, uuid_of(sides[follow == "keep"], 4)).revisions == (4,)


def test_an_object_that_hides_its_side_is_copied_back_or_deleted() -> None:
    shared = grown(SimStore(conditional_put=False), 1)
    one, other = grown(shared, 2), grown(shared, 3, 4)
    for follow in ("copy", "delete"):
        store = joined(one, other)
        key = next(k for k in store.keys("") if uuid_of(other, 3)[:8] in k and k.endswith(".transaction"))
        body = store.contents()[key]
        store.write(key, b"rot")
        with advises("copy it back, or delete it while every process is stopped", names=key):
            repaired(store, uuid_of(one, 2))
        if follow == "copy":
            store.write(key, body)
            assert history_of(store.bucket()).load().fork is None  # what stands on it decides
        else:
            store.remove(key)
            assert repaired(store, uuid_of(one, 2)).kept == uuid_of(one, 2)
        assert commit(handle_of(store.bucket(), store.bucket().clock), 9)


def test_a_side_that_is_in_part_missing_is_copied_back_or_deleted() -> None:
    shared = grown(SimStore(conditional_put=False), 1)
    one, other = grown(shared, 2, 3, 4), grown(shared, 12, 13, 14)
    for follow in ("copy", "delete"):
        store = joined(one, other)
        lost, *left = (LAYOUT_17.transaction_key(n, uuid_of(other, n)) for n in (2, 3, 4))
        body = store.contents()[lost]
        store.remove(lost)
        with advises(
            "copy them back and repair again, or delete those of it that are left", names="host-17/db"
        ):
            repaired(store, uuid_of(one, 4))
        if follow == "copy":
            store.write(lost, body)
            repaired(store, uuid_of(one, 4))
        else:
            for key in reversed(left):
                store.remove(key)
        commit(handle_of(store.bucket(), store.bucket().clock), 9)
        assert {1, 2, 3, 4, 9} == set(numbers(history_of(store.bucket()).load().state).values())


def test_a_wrong_repair_is_taken_back() -> None:
    shared = grown(SimStore(conditional_put=False), 1, 2, 3)
    sides = grown(shared, 4), grown(shared, 5)
    one, other = joined(*sides), joined(*sides)
    repaired(one, uuid_of(sides[0], 4))
    wrong = repaired(other, uuid_of(sides[1], 4))
    store = joined(one, other)
    with advises("if that was wrong, delete it while every process is stopped", names=wrong.written[0]):
        repaired(store, uuid_of(sides[0], 4))
    store.remove(wrong.written[0])
    assert repaired(store, uuid_of(sides[0], 4)).kept == uuid_of(sides[0], 4)


def test_a_process_that_still_writes_is_stopped(tmp_path: Path) -> None:
    a = two_writers(tmp_path, options=UNCLAIMED)
    kept, _ = fork(a.bucket)
    bucket = firn.connect(tmp_path / "prod", options=UNCLAIMED).bucket
    plain = bucket.put

    def and_a_rival(key: str, data: bytes, **options: Any) -> str:
        etag = plain(key, data, **options)
        if key.endswith(".transaction"):
            plain(layout().transaction_key(kept.revision + 1, "0" * 32), b"a rival")
        return etag

    bucket.put = and_a_rival  # type: ignore[method-assign]
    with advises("Stop it, and repair again if the fork stays", names=".transaction"):
        repair(bucket, layout(), kept.uuid)
    a.bucket.delete(layout().transaction_key(kept.revision + 1, "0" * 32))
    assert a.repair(kept.uuid).kept == kept.uuid
    database(tmp_path, options=UNCLAIMED).table("cpu").append([{"cores": 9}])


# -- commits


def unanswered(bucket: Any, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """Transactions, or claims, are sent and don't arrive yet."""
    plain = getattr(bucket, verb)

    def sent(key: str, data: bytes, **options: Any) -> str:
        if key.endswith(".transaction") or "/claims/" in key:
            raise firn.OutcomeUnknownError("no answer")
        return str(plain(key, data, **options))

    monkeypatch.setattr(bucket, verb, sent)


@pytest.mark.parametrize("claims", [False, True])
def test_a_commit_in_doubt_is_sent_again_first(
    claims: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    db = database(tmp_path, options={} if claims else UNCLAIMED)
    table = db.create_table("cpu", journal="writer")
    table.append([{"n": 1}])
    for batch_id in ("two", None):
        unanswered(db.bucket, monkeypatch, "put_if_absent" if claims else "put")
        if claims:
            with advises(
                "or its claim was sent and no answer came", names=["a/prod", ".transaction"]
            ) as advice:
                table.append([{"n": 2}], batch_id=batch_id)
        else:
            with advises(" was sent and no answer came: this commit may be", names=["a/prod"]) as advice:
                table.append([{"n": 2}], batch_id=batch_id)
        monkeypatch.undo()
        table.append([{"n": 2}] if batch_id else [{"n": 3}], batch_id=batch_id)
    assert table.scan().count() == 4
    assert len(advice.follow(0, tmp_path / "prod", "--json").json["transactions"]) == 5


def test_a_handle_with_a_commit_in_doubt_settles_it() -> None:
    store = store_of(2)
    script = Script(Rule(delayed(3600), verb="put", every=True))
    handle = open_handle(store.bucket(plan=script))
    with pytest.raises(firn.OutcomeUnknownError):
        put(handle, 3)
    with advises("nothing can be committed after it with this handle. Call settle()", names=".transaction"):
        put(handle, 4)
    script.rules = ()
    handle.settle()
    assert put(handle, 4).revision == 4


def test_a_number_that_was_pruned_meanwhile_is_looked_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    db = database(tmp_path)
    table = db.create_table("cpu", journal="writer")
    for n in range(3):
        table.append([{"n": n}])
    plain = db.bucket.put_if_absent

    def late(key: str, data: bytes, **options: Any) -> str:
        monkeypatch.undo()
        other = database(tmp_path)
        for n in range(3):
            other.table("cpu").append([{"n": 10 + n}])
        other.table("cpu").checkpoint()
        other.table("cpu").append([{"n": 20}])
        other.prune("0s")
        return str(plain(key, data, **options))

    monkeypatch.setattr(db.bucket, "put_if_absent", late)
    with advises(
        "so it may be visible or not. Look with `firn log`, and open the catalog", names="a/prod"
    ) as advice:
        table.append([{"n": 3}])
    advice.follow(0, tmp_path / "prod")
    table = database(tmp_path).table("cpu")
    assert table.scan(where="n = 3").count() == 0
    table.append([{"n": 3}])
    assert table.scan().count() == 8


def test_a_commit_that_is_too_old_to_send_again_is_looked_up(prod: Path) -> None:
    a = database(prod.parent)
    handle = Handle(History(a.bucket, layout()))
    with pytest.MonkeyPatch.context() as patch:
        unanswered(a.bucket, patch, "put_if_absent")
        with pytest.raises(firn.OutcomeUnknownError):
            handle.commit([], op="append", ages=[Over()])
    with advises(
        "Look with `firn log` whether it landed, and open the catalog again", names=".transaction"
    ) as advice:
        handle.settle()
    assert len(advice.follow(0, prod, "--json", "--writer", "a").json["transactions"]) == handle.head.revision
    assert Handle(History(a.bucket, layout())).commit([], op="append").revision == handle.head.revision + 1


class Over:
    """The age of a file that was young when it was sent."""

    is_over = True

    def check(self) -> None:
        pass


def test_a_lost_head_is_rebuilt(prod: Path) -> None:
    a = two_writers(prod.parent / "plain", options=UNCLAIMED)
    handle = Handle(History(a.bucket, layout()))
    a.bucket.delete(newest(a.bucket)[0])
    with advises("which this handle had committed or read. Open the catalog again", names="a/prod") as advice:
        handle.commit([], op="append")
    advice.follow(0, prod.parent / "plain" / "prod", *PUT_AND_LIST)
    assert Handle(History(a.bucket, layout())).head.revision > handle.head.revision
    assert a.table("cpu").scan().count() == 2


# -- damage


def test_the_name_of_the_database_is_written_or_deleted(tmp_path: Path) -> None:
    db = firn.connect(tmp_path, writer="a")
    key = "_firn/database.json"
    db.bucket.put(key, b"rot")
    with advises("Delete the object: nothing was committed yet", names="database.json"):
        firn.connect(tmp_path, writer="a").create_table("cpu", journal="writer")
    db.bucket.delete(key)
    firn.connect(tmp_path, writer="a").create_table("cpu", journal="writer").append([{"n": 1}])
    name = layout_name(tmp_path)
    for info in db.bucket.list(f"a/{name}/").objects:
        db.bucket.put(info.key.replace(f"a/{name}/", "b/other/"), db.bucket.get(info.key).data)
    db.bucket.put(key, b"rot")
    with advises("Write the right one to ", names=["database.json", "other", name]) as advice:
        firn.connect(tmp_path, writer="a").table("cpu").scan().count()
    example = advice.text.rpartition("like ")[2].rstrip(".")
    db.bucket.put(key, example.replace('"other"', f'"{name}"').encode())
    assert firn.connect(tmp_path, writer="a").table("cpu").scan().count() == 1


def layout_name(path: Path) -> str:
    (name,) = {k.split("/")[1] for k in keys(firn.connect(path).bucket, "a/")}
    return name


def test_a_definition_is_looked_at_and_made_anew(prod: Path) -> None:
    a = database(prod.parent)
    a.table("cpu").journal.own.commit(PendingCommit("create", lambda state, clock: (Define("cpu", b"{}"),)))
    with advises("revision's transaction, marker and claim, and run", names=["cpu", "writer a"]) as advice:
        firn.connect(prod).table("cpu")
    last = advice.follow(0, prod, "--json").json["transactions"][-1]
    key = layout().transaction_key(last["revision"], last["uuid"])
    assert "define cpu  {}" in advice.follow(1, OBJECT=prod / key).out
    for place in (layout().transactions_prefix, layout().markers_prefix, layout().claims_prefix):
        a.bucket.delete_many([k for k in keys(a.bucket, place) if f"{last['revision']:020}" in k])
    advice.follow(2, prod, ID="a")
    database(prod.parent).table("cpu").append([{"cores": 4}])
    assert firn.connect(prod).table("cpu").scan().count() == 3


def test_a_revision_or_a_time_is_passed(prod: Path) -> None:
    federation = database(prod.parent).table("cpu").journal.federation
    with advises("pass a time, a version as history() shows it, or a revision", names="at=1.5"):
        federation.at(1.5)
    assert (
        federation.at("a=2").versions["a"].head.revision
        == federation.at(2, own="a").versions["a"].head.revision
    )
    assert federation.at("9999-01-01").versions["a"].head.revision == 3


def test_a_transaction_that_has_ended_is_begun_again(prod: Path) -> None:
    a = database(prod.parent)
    with a.writer_transaction() as tx:
        tx.append("cpu", [{"cores": 4}])
    with advises(
        "nothing can be added to it. Begin another one with db.writer_transaction()", names="transaction"
    ):
        tx.append("cpu", [{"cores": 5}])
    with a.writer_transaction() as tx:
        tx.append("cpu", [{"cores": 5}])
    assert a.table("cpu").scan().count() == 4


def test_transactions_that_were_deleted_are_copied_back_or_rebuilt(tmp_path: Path) -> None:
    for follow, options in (("copy", {}), ("rebuild", {}), ("rebuild", UNCLAIMED)):
        prod = tmp_path / f"{follow}{len(options)}" / "prod"
        a = two_writers(prod.parent, options=options)
        a.table("cpu").append([{"cores": 4}])
        history = History(a.bucket, layout())
        history.load()
        key, _ = newest(a.bucket)
        body = a.bucket.get(key).data
        a.bucket.delete(key)
        with advises("transactions were deleted. Copy them back, or rebuild", names="a/prod") as advice:
            history.load()
        if follow == "copy":
            a.bucket.put(key, body)
        else:
            advice.follow(0, prod, *(PUT_AND_LIST if options else ()))
        assert database(prod.parent, options=options).table("cpu").scan().count() == 3


def test_a_lost_beginning_is_read_later_or_rebuilt(prod: Path) -> None:
    a = database(prod.parent)
    first = keys(a.bucket, layout().transactions_prefix)[0]
    a.table("cpu").checkpoint()
    a.bucket.delete(first)
    with advises("beginning was pruned. Read a later revision, or rebuild", names="a/prod") as advice:
        History(a.bucket, layout()).at(2)
    assert History(a.bucket, layout()).at(3).head.revision == 3
    with advises("what was before it was pruned. Read as of a later time", names="a/prod"):
        History(a.bucket, layout()).at_time(0)
    assert History(a.bucket, layout()).at_time(2**50).head.revision == 3
    advice.follow(0, prod)
    assert History(a.bucket, layout()).at(3).state.tables.keys() == {"cpu"}


def test_a_number_that_was_written_again_is_read_later() -> None:
    store, stranger = store_of(6), SimStore()
    add_checkpoint(History(store.bucket(), LAYOUT), 2)
    add_checkpoint(History(store.bucket(), LAYOUT), 4)
    for key in store.keys(LAYOUT.transactions_prefix):
        if key < LAYOUT.before(2):
            store.remove(key)
    put(open_handle(stranger.bucket()), 100)
    (stray,) = stranger.keys(LAYOUT.transactions_prefix)
    store.write(stray, stranger.contents()[stray])
    with advises("which doesn't count. Read a later revision", names=["revision 1", "w/db"]):
        History(store.bucket(), LAYOUT).at(1)
    assert History(store.bucket(), LAYOUT).at(2).head.revision == 2


def test_a_rebuild_is_told_which_side_counts(tmp_path: Path) -> None:
    for follow in ("repair", "keep"):
        a = two_writers(tmp_path / follow, options=UNCLAIMED)
        kept, _ = fork(a.bucket)
        with advises("Decide it with `firn repair --keep UUID` where both", names="a/prod") as advice:
            a.rebuild()
        if follow == "repair":
            decide(advice, tmp_path / follow / "prod", kept.uuid)
            assert a.rebuild().healthy
        else:
            key = layout().transaction_key(2, kept.commit.previous or "")
            a.bucket.delete(key)
            with advises("or rebuild with keep=[UUID]", names="a/prod"):
                a.rebuild()
            a.rebuild(keep=[kept.uuid])
        assert database(tmp_path / follow, options=UNCLAIMED).table("cpu").scan().count() == 2


def test_a_deleted_catalog_is_rebuilt(prod: Path) -> None:
    a = database(prod.parent)
    a.bucket.delete_many(keys(a.bucket, layout().transactions_prefix))
    with advises("catalog was deleted. Bring it back with `firn rebuild --writer", names="a/prod") as advice:
        database(prod.parent).table("cpu").append([{"cores": 9}])
    advice.follow(0, prod)
    database(prod.parent).table("cpu").append([{"cores": 9}])
    assert firn.connect(prod).table("cpu").scan().count() == 3


def test_objects_that_say_what_they_are_are_copied_back(prod: Path) -> None:
    """Until then nothing but rebuilds and collections lack them."""
    a = database(prod.parent)
    a.table("cpu").append([{"cores": 4}])
    files = [k for k in keys(a.bucket, layout().data_prefix) if k.endswith(".parquet")]
    marker = keys(a.bucket, layout().markers_prefix)[0]
    for key, cut in ((files[-1], 4), (marker, 4)):
        body = a.bucket.get(key).data
        a.bucket.put(key, body[:-cut] + b"rot!")
        with advises("can't be decoded as Parquet: ", names=key):
            read_pairs(a.bucket, key, len(body))
        a.bucket.put(key, body)
        assert read_pairs(a.bucket, key, len(body))
    pairs = read_pairs(a.bucket, files[-1], a.bucket.head(files[-1]).size)
    with advises("a catalog that still names it reads it as before", names="x.parquet"):
        read_metadata({**pairs, b"firn": pairs[b"firn"][:-2] + b"}}"}, where="x.parquet")
    assert read_metadata(pairs, where="x.parquet") is not None
    told = read_pairs(a.bucket, marker, a.bucket.head(marker).size)
    with advises("Copy it back from a backup, or leave it: only a rebuild", names="x.parquet"):
        decode_marker(layout(), marker, {}, where="x.parquet")
    assert decode_marker(layout(), marker, told, where="x.parquet").transaction.revision == 1
    a.bucket.put(marker, b"rot")
    a.table("cpu").append([{"cores": 5}])
    assert a.table("cpu").scan().count() == 4


def test_a_checkpoint_that_says_something_else_is_deleted(prod: Path) -> None:
    a = database(prod.parent)
    for n in range(3):
        a.table("cpu").append([{"cores": 4 + n}])
    for revision in (3, 5):
        name = add_checkpoint(History(a.bucket, layout()), revision)
        assert name is not None
    key = layout().object_key(name)
    state = History(a.bucket, layout()).at(5).state
    table = state.tables["cpu"]
    less = replace(state, tables={"cpu": replace(table, files=dict(list(table.files.items())[1:]))})
    a.bucket.put(key, encode_checkpoint(less))
    a.bucket.delete(layout().hint_key)
    with advises("nothing was pruned. Look at it with `firn dump", names=key) as advice:
        database(prod.parent).prune("0s")
    assert "checkpoint" in advice.follow(0, OBJECT=prod / key).out
    a.bucket.delete(key)
    assert database(prod.parent).prune("0s").floor
    assert database(prod.parent).table("cpu").scan().count() == 5


@pytest.mark.parametrize("lost", [None, 5])
def test_a_history_that_contradicts_itself_is_rebuilt(prod: Path, lost: int | None) -> None:
    """Sound objects, that no Firn writes: what is removed was never there."""
    a = database(prod.parent)
    a.table("cpu").append([{"cores": 4}])
    key, last = newest(a.bucket)
    a.table("cpu").append([{"cores": 5}])
    a.bucket.put(key, encode_transaction(replace(last, actions=(*last.actions, Remove("cpu/none.parquet")))))
    if lost:
        a.bucket.delete(newest(a.bucket)[0])
        with advises(" to have it rebuilt from its data files", names=["revision 4", "writer 'a'"]) as advice:
            a.rebuild()
    else:
        with advises(" to have it rebuilt from its data files", names=key) as advice:
            History(a.bucket, layout()).load()
    assert "none.parquet" in advice.follow(0, OBJECT=prod / key).out
    a.bucket.delete(key)
    if lost:
        a.rebuild()
    else:
        advice.follow(1, prod)
    assert database(prod.parent).table("cpu").scan().count() == 4


def test_an_object_of_the_last_revision_there_can_be_is_deleted(prod: Path) -> None:
    a = database(prod.parent)
    key = layout().transaction_key(2**63 - 1, "0badcafe" * 4)
    a.bucket.put(key, b"rot")
    with advises("wrote that object, delete it and rebuild again", names=["a/prod", str(2**63 - 1)]):
        a.rebuild()
    a.bucket.delete(key)
    a.rebuild()
    database(prod.parent).table("cpu").append([{"cores": 5}])


def test_a_dropped_table_is_opened_again_or_created(prod: Path) -> None:
    a, b = database(prod.parent), database(prod.parent, "b")
    for follow in ("open", "create"):
        stale = a.table("cpu")
        stale.append([{"cores": 4}])
        for db in (database(prod.parent), b):
            db.drop_table("cpu")
        if follow == "open":
            database(prod.parent).create_table("cpu", journal="writer")
        with advises("If there is a new table of that name, open it with db.table()", names="cpu"):
            stale.merge()
            stale.append([{"cores": 5}])
        table = a.table("cpu") if follow == "open" else a.create_table("cpu", journal="writer")
        table.append([{"cores": 6}])
        b.table("cpu").append([{"cores": 7}])
        assert table.scan().count() == 2


# -- rows that stand in the catalog


def test_rows_that_cant_be_decoded_are_copied_back(tmp_path: Path) -> None:
    db = database(tmp_path)
    db.create_table("cpu", journal="writer", properties={"inline": "64KB"}).append([{"cores": 1}])
    key, transaction = newest(db.bucket)
    sound = db.bucket.get(key).data
    bad = []
    for action in transaction.actions:
        if isinstance(action, Add):
            rows = InlinedRows.of_body(dict(action.columns), b'{"n":2}', 1, "")
            file = action.file._replace(size=7, extra={"rows": 1, "inlined": rows})
            action = replace(action, file=file)
        bad.append(action)
    db.bucket.put(key, encode_transaction(replace(transaction, actions=bad)))
    with advises("Copy it back from a backup or an older object version", names=key):
        database(tmp_path, "b").table("cpu").scan().to_arrow()
    db.bucket.put(key, sound)
    assert database(tmp_path, "b").table("cpu").scan().count() == 1


def test_each_writer_writes_its_rows_into_files(tmp_path: Path) -> None:
    a, b = database(tmp_path, "a"), database(tmp_path, "b")
    table = a.create_table("cpu", journal="writer", properties={"inline": "64KB"})
    theirs = b.table("cpu")
    table.append([{"cores": 1}])
    theirs.append([{"cores": 2}])
    with advises(
        "Call merge(only='inlined') first, which writes them into files", names="each writer its own"
    ):
        table.scan().uris()
    table.merge(only="inlined")
    theirs.merge(only="inlined")
    assert len(table.scan().uris()) == 2
