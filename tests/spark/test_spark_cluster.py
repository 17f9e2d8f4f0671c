"""A standalone cluster of two workers over a real S3 server: executors are killed in the middle of each job."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stores.servers import versitygw

HERE = Path(__file__).parent
ROWS = 20_000


@contextlib.contextmanager
def daemon(environment: dict[str, str], log: Path, *arguments: str) -> Iterator[None]:
    """One process of the cluster; it ends with the block."""
    import pyspark

    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), *arguments]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=60)


def line_of(log: Path, pattern: str) -> str:
    """The first match in a log, once it is there; a minute at most."""
    import time

    until = time.monotonic() + 60
    while time.monotonic() < until:
        if found := re.search(pattern, log.read_text() if log.exists() else ""):
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"no {pattern} in {log.read_text()}")


@pytest.mark.stores
def test_killed_executors_lose_and_double_nothing(child_environment: dict[str, str], tmp_path: Path) -> None:
    environment = {
        **child_environment,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "SPARK_NO_DAEMONIZE": "1",
    }
    (tmp_path / "marks").mkdir()
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(versitygw())
        log = tmp_path / "master.log"
        master = (
            "org.apache.spark.deploy.master.Master",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--webui-port",
            "0",
        )
        stack.enter_context(daemon(environment, log, *master))
        url = line_of(log, r"spark://127\.0\.0\.1:\d+")
        for number in range(2):
            log = tmp_path / f"worker{number}.log"
            worker = ("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g")
            stack.enter_context(
                daemon(environment, log, "org.apache.spark.deploy.worker.Worker", *worker, url)
            )
            line_of(log, "Successfully registered with master")
        arguments = [url, f"{store.new_bucket()}/db", json.dumps(store.options), str(tmp_path / "marks")]
        done = subprocess.run(
            [sys.executable, str(HERE / "cluster_program.py"), *arguments],
            env={**environment, "PYTHONPATH": os.pathsep.join([str(HERE), environment["PYTHONPATH"]])},
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.strip().splitlines()[-1]) == {
        "rows": 2 * ROWS,
        "distinct": 2 * ROWS,
        "merged": True,
        "keys": ROWS,
        "distinct_keys": ROWS,
        "killed": ["append", "compact", "load", "merge", "write"],
    }
