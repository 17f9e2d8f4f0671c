"""Which files a keeper merges: how many stay, and how often a row is written."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import count
from math import ceil, log

import pytest

from firn.journal.leaderless.format.layout import TableLayout
from firn.journal.model import DataFile
from firn.lake.maintain.plan import MergeGroup, plan_keeping

LAYOUT = TableLayout("t", "t")
MB = 1 << 20
TARGET = 128 * MB
NUMBERS = count()


def file(size: int, directory: str = "p=a", **extra: object) -> DataFile:
    at = next(NUMBERS)
    return DataFile(f"t/_data/{directory}/part-a-{at}.parquet", size, at, extra)


def rows(size: int, directory: str = "p=a") -> DataFile:
    """Placed rows of logs."""
    made = file(size, directory)
    return made._replace(extra={"inlined": object(), "directory": directory})


def plan(files: Iterable[DataFile], **options: object) -> list[MergeGroup]:
    given = {"target_size": TARGET, "at_once": TARGET * 10, **options}
    return plan_keeping(files, places=LAYOUT, **given)  # type: ignore[arg-type]


def sizes(groups: Iterable[MergeGroup]) -> list[tuple[str | None, list[int]]]:
    return [(group.directory, [each.size for each in group.files]) for group in groups]


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize(
    ("fold", "times"),
    [
        (TARGET // 8**4, 1 + log(8**4, 8)),
        (40 << 10, 1 + log(TARGET / (40 << 10), 8)),
        (TARGET // 500, 1 + log(500, 8)),
        (MB, 1 + ceil(log(128, 8))),  # what has grown eightfold twice is half as large as the target
    ],
)
def test_a_row_is_written_a_few_times_and_few_files_stay(fold: int, times: float, spread: bool) -> None:
    rng = random.Random(1)
    live: list[DataFile] = []
    brought = written = most = 0
    while brought < 1.25 * TARGET:
        new = rows(rng.randint(fold // 2, fold * 3 // 2) if spread else fold)
        brought += new.size
        for group in plan([*live, new]):
            live = [each for each in live if each not in group.files]
            written += group.bytes
            whole, rest = divmod(group.bytes, TARGET)
            live += [file(size) for size in [TARGET] * whole + [rest] * (rest > 0)]
        most = max(most, sum(each.size < TARGET * 3 // 4 for each in live))
    assert sum(each.size for each in live) == brought
    assert written / brought <= times
    assert most <= 7 * (2 + log(TARGET / fold, 8))


def test_rows_are_written_whatever_else_is_there() -> None:
    assert sizes(plan([rows(5), file(5), file(TARGET)])) == [("p=a", [5])]


def test_seven_files_and_the_rows_are_eight() -> None:
    files = [file(1000) for _ in range(6)]
    assert len(plan([*files, rows(1000)])[0].files) == 1
    assert len(plan([*files, file(900), rows(1000)])[0].files) == 8
    # Eight files need no rows, and are one of the next class.
    assert len(plan([*files, file(900), file(1100)])[0].files) == 8
    larger = [file(8000) for _ in range(7)]
    assert len(plan([*files, *larger, file(900), rows(1000)])[0].files) == 15


def test_rows_dont_wait_for_a_large_merge() -> None:
    files = [file(8 * MB) for _ in range(8)]
    assert sizes(plan([*files, rows(1000)], at_once=32 * MB)) == [("p=a", [1000]), ("p=a", [8 * MB] * 8)]


def test_partitions_that_get_nothing_any_more_are_merged_to_the_end_and_first() -> None:
    files = [file(1000 * 3**n, directory) for directory in ("p=a", "p=b") for n in range(3)]
    found = plan([*files, rows(10, "p=a"), file(TARGET, "p=b")], idle=["p=b"])
    assert [(directory, len(members)) for directory, members in sizes(found)] == [("p=b", 3), ("p=a", 1)]
    assert plan([file(5, "p=b")], idle=["p=b"]) == []


def test_files_near_the_target_size_are_left_alone() -> None:
    assert plan([file(TARGET * 3 // 4) for _ in range(20)]) == []
    assert len(plan([file(TARGET // 2) for _ in range(2)])[0].files) == 2


def test_with_a_key_the_files_of_one_merge_go_together_however_large() -> None:
    merges = [[file(TARGET, fold=str(n)) for _ in range(2)] for n in range(8)]
    files = [each for merge in merges for each in merge]
    assert plan(files) == []
    assert len(plan(files, keyed=True)[0].files) == 16
    assert plan(files[:-2], keyed=True) == []
