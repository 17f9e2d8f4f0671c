"""What a process that was killed had claimed made the next one's first overwrite fail; and a first transaction that
was lost below a checkpoint wasn't missed, though its claim held it."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import pytest

import firn
from firn.journal.writer.commit.claims import Claims
from firn.lake.table import LakeTable

CHANGES: dict[str, Callable[[LakeTable], object]] = {
    "overwrite": lambda t: t.overwrite([{"id": 9}]),
    "merge": lambda t: t.merge(),
    "delete": lambda t: t.delete("id = 1"),
    "rewrite": lambda t: t.rewrite("id <> 1"),
    "remove": lambda t: t.remove_partitions("true"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("dying", ["overwrite", "merge"])
def test_a_claim_of_a_dead_process_is_finished_before_anything_is_planned(
    change: str, dying: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"memory://{secrets.token_hex(8)}/db"
    table = firn.connect(url, writer="a").create_table("t", journal="writer")
    for number in (1, 2):
        table.append([{"id": number}])

    class Killed(BaseException):
        pass

    def killed(*args: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Claims, "_write", killed)
        with pytest.raises(Killed):
            CHANGES[dying](table)
    after = firn.connect(url, writer="a").table("t")
    CHANGES[change](after)
    left = [9] if dying == "overwrite" else [1, 2]
    wanted = {
        "overwrite": [9],
        "merge": left,
        "delete": [n for n in left if n != 1],
        "rewrite": [n for n in left if n != 1],
        "remove": [],
    }
    assert sorted(row["id"] for row in after.scan(columns=["id"]).to_arrow().to_pylist()) == wanted[change]


def test_a_first_transaction_that_only_a_claim_holds_is_missed() -> None:
    db = firn.connect(f"memory://{secrets.token_hex(8)}/db", writer="a")
    table = db.create_table("t", journal="writer")
    for number in range(3):
        table.append([{"id": number}])
    db.checkpoint()
    first = db.bucket.list("db/a/db/transactions/").objects[0].key
    db.bucket.delete(first)
    report = firn.connect(db.url, writer="a").rebuild()
    assert report.rebuilt == (1, report.revision)
    assert firn.connect(db.url, writer="a").rebuild().healthy
    assert [line.version for line in firn.connect(db.url).table("t").history()][:2] == ["a=1", "a=2"]


def test_claims_that_a_pruning_left_over_are_no_loss() -> None:
    """It dies between the transactions and their claims, and a sweep follows."""
    db = firn.connect(f"memory://{secrets.token_hex(8)}/db", writer="a")
    table = db.create_table("t", journal="writer")
    for number in range(3):
        table.append([{"id": number}])
    table.overwrite([{"id": 9}])
    table.append([{"id": 10}])
    claims = {info.key: db.bucket.get(info.key).data for info in db.bucket.list("db/a/db/claims/").objects}
    db.prune("0s")
    db.sweep("0s")
    db.bucket.put_many(list(claims.items()))
    assert firn.connect(db.url, writer="a").rebuild().healthy
