"""SparkRunner: order, packing, errors, retries, counters, progress, Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from fake_bucket import FakeBucket

from firn.errors import CorruptObjectError, InvalidInputError, SchemaConflictError, UnsupportedError
from firn.spark.session.runner import BROADCAST_BYTES, SparkRunner, _payloads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long


def partition_of(bucket: FakeBucket, context: Any, task: Any) -> int:
    from pyspark import TaskContext

    return TaskContext.get().partitionId()


def count_requests(bucket: FakeBucket, context: None, task: int) -> int:
    bucket.counters.add(get=1, bytes_in=task)
    return task


def fail_on_negative(bucket: FakeBucket, context: None, task: int) -> int:
    bucket.counters.add(get=1)
    if task == -1:
        raise SchemaConflictError("column 'a' is BIGINT in the table and VARCHAR in the file")
    if task == -2:
        raise CorruptObjectError("the second failure")
    if task == -3:
        raise RuntimeError("not one of ours")
    return task


def fail_first_attempt(bucket: FakeBucket, marker: str, task: int) -> int:
    from pyspark import TaskContext

    if TaskContext.get().attemptNumber() == 0:
        Path(marker).touch()
        raise OSError("the first attempt is unlucky")
    return task * 2


def length(bucket: FakeBucket, context: None, task: bytes) -> int:
    return len(task)


def test_results_come_in_the_order_of_the_tasks(spark: SparkSession) -> None:
    tasks = list(range(100))
    answer = SparkRunner(spark).map(
        lambda bucket, factor, task: (task * factor, bucket.url),
        tasks,
        bucket=FakeBucket(),
        context=3,
        weights=[(7 * t) % 11 << 20 for t in tasks],
    )
    assert answer == [(3 * t, "fake://") for t in tasks]


def test_no_tasks_start_no_job(spark: SparkSession) -> None:
    assert SparkRunner(spark).map(partition_of, [], bucket=FakeBucket(), context=None, weights=[]) == []


def test_tasks_are_packed_into_at_most_four_bins_a_slot(spark: SparkSession) -> None:
    runner = SparkRunner(spark)
    heavy = runner.map(partition_of, range(500), bucket=FakeBucket(), context=None, weights=[1 << 30] * 500)
    light = runner.map(partition_of, range(500), bucket=FakeBucket(), context=None, weights=[10] * 500)
    assert runner.slots == 2
    assert len(set(heavy)) == 8
    assert len(set(light)) == 2


def test_the_first_firn_error_arrives_with_its_own_type(spark: SparkSession) -> None:
    bucket = FakeBucket()
    tasks = [1, 2, -1, 3, -2, 4]
    with pytest.raises(SchemaConflictError, match="column 'a' is BIGINT"):
        SparkRunner(spark).map(fail_on_negative, tasks, bucket=bucket, context=None, weights=[0] * 6)
    assert bucket.counters.get >= 2


def test_any_other_error_is_raised_as_sparks(spark: SparkSession) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match="not one of ours"):
        SparkRunner(spark).map(fail_on_negative, [1, -3], bucket=FakeBucket(), context=None, weights=[0, 0])


def test_a_failing_attempt_is_tried_again_and_only_the_successful_one_counts(
    spark: SparkSession, tmp_path: Path
) -> None:
    marker = tmp_path / "failed"
    answer = SparkRunner(spark).map(
        fail_first_attempt, [1, 2, 3], bucket=FakeBucket(), context=str(marker), weights=[0] * 3
    )
    assert answer == [2, 4, 6]
    assert marker.exists()


def test_requests_of_tasks_are_added_to_the_callers_counters(spark: SparkSession) -> None:
    bucket = FakeBucket()
    bucket.counters.add(get=1000, put=5)
    SparkRunner(spark).map(count_requests, range(50), bucket=bucket, context=None, weights=[0] * 50)
    assert bucket.counters.get == 1050
    assert bucket.counters.put == 5
    assert bucket.counters.bytes_in == sum(range(50))


def test_big_plans_go_by_broadcast(spark: SparkSession) -> None:
    sizes = [3 << 20, 1, 4 << 20, 2 << 20, 5]
    assert sum(sizes) > BROADCAST_BYTES
    tasks = [os.urandom(size) for size in sizes]
    assert SparkRunner(spark).map(length, tasks, bucket=FakeBucket(), context=None, weights=sizes) == sizes


def test_a_payload_above_the_message_limit_is_halved() -> None:
    import pickle

    tasks = [b"x" * 1000] * 10
    payloads = _payloads(tasks, [list(range(9, -1, -1))], 3500)
    assert all(len(payload) <= 3500 for payload in payloads)
    assert [i for payload in payloads for i, _ in pickle.loads(payload)] == list(range(9, -1, -1))
    alone = _payloads(tasks, [[0, 1]], 500)
    assert len(alone) == 2


def test_progress_only_grows_and_ends_at_the_total(spark: SparkSession) -> None:
    ticks: list[tuple[int, int]] = []

    def slow(bucket: FakeBucket, context: None, task: int) -> int:
        time.sleep(0.05)
        return task

    SparkRunner(spark).map(
        slow,
        range(16),
        bucket=FakeBucket(),
        context=None,
        weights=[1 << 26] * 16,
        progress=lambda done, total: ticks.append((done, total)),
    )
    assert ticks[-1] == (16, 16)
    assert ticks == sorted(ticks)
    assert {total for _, total in ticks} == {16}


def test_weights_must_match_the_tasks(spark: SparkSession) -> None:
    with pytest.raises(InvalidInputError, match="2 tasks came with 1 weights"):
        SparkRunner(spark).map(count_requests, [1, 2], bucket=FakeBucket(), context=None, weights=[1])


def test_a_bucket_that_cannot_leave_the_process_is_refused(spark: SparkSession) -> None:
    bucket = FakeBucket(shareable=False, url="memory://")
    with pytest.raises(UnsupportedError, match="memory:// lives in this process"):
        SparkRunner(spark).map(count_requests, [1], bucket=bucket, context=None, weights=[1])


INTERRUPTED = """
import sys, time
from pathlib import Path
from fake_bucket import FakeBucket
from firn.spark.session.runner import SparkRunner
from firn.spark.session.session import active_or_start

def hang(bucket, marks, task):
    import os
    Path(marks, str(os.getpid())).touch()
    time.sleep(600)

def quick(bucket, context, task):
    return task + 1

if sys.argv[2] == "connect":
    from pyspark.sql import SparkSession
    loopback = ("spark.connect.grpc.binding.address", "127.0.0.1")
    spark = SparkSession.builder.config(*loopback).remote("local[2]").getOrCreate()
else:
    spark = active_or_start(master="local[2,4]")
runner = SparkRunner(spark)
runner.slots
try:
    runner.map(hang, range(8), bucket=FakeBucket(), context=sys.argv[1], weights=[1 << 30] * 8)
except KeyboardInterrupt:
    print("interrupted", flush=True)
# Both slots must be free: with the hanging tasks in them this would wait ten minutes.
print(runner.map(quick, range(4), bucket=FakeBucket(), context=None, weights=[1 << 30] * 4), flush=True)
"""


@pytest.mark.parametrize("mode", ["classic", "connect"])
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_ctrl_c_frees_the_slots(tmp_path: Path, child_environment: dict[str, str], mode: str) -> None:
    program = tmp_path / "long_plan.py"
    program.write_text(INTERRUPTED)
    marks = tmp_path / "marks"
    marks.mkdir()
    with subprocess.Popen(
        [sys.executable, str(program), str(marks), mode],
        env={**child_environment, **({"SPARK_TESTING": "1"} if mode == "connect" else {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A group of its own, as a terminal would signal it.
        start_new_session=True,
    ) as child:
        try:
            deadline = time.monotonic() + 150
            while len(list(marks.iterdir())) < 2 and time.monotonic() < deadline and child.poll() is None:
                time.sleep(0.1)
            workers = [int(mark.name) for mark in marks.iterdir()]
            assert len(workers) == 2, child.communicate(timeout=5)[1]
            os.killpg(child.pid, signal.SIGINT)
            out, err = child.communicate(timeout=120)
        finally:
            child.kill()
    assert out.split("\n")[:2] == ["interrupted", "[1, 2, 3, 4]"], err
    assert not [pid for pid in workers if psutil.pid_exists(pid)]
