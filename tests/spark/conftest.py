"""One Spark session in each process for all tests of this room: starting one takes seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import firn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
CONF = str(HERE / "conf")
"""What Spark's JVM is told in all tests."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in Path(item.path).parents and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from firn.spark.session.session import active_or_start

    # Workers import the functions and classes that tests define.
    os.environ["SPARK_CONF_DIR"] = CONF
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    session = active_or_start(
        master="local[2,4]", config={"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2"}
    )
    yield session
    session.stop()


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[firn.Database]:
    """A new database in a directory; streams that a test leaves running end with it."""
    yield firn.connect(tmp_path / "db", spark=spark)
    for query in spark.streams.active:
        query.stop()


@pytest.fixture(autouse=True)
def settings(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test may set what it likes in the session that all share: the next one finds it as it was."""
    if "spark" not in request.fixturenames:
        yield
        return
    conf = request.getfixturevalue("spark").conf
    before = conf.getAll
    yield
    after = conf.getAll
    for name in after.keys() - before.keys():
        conf.unset(name)
    for name, value in before.items():
        if after.get(name) != value:
            conf.set(name, value)


@pytest.fixture(scope="session")
def child_environment() -> dict[str, str]:
    """For programs that tests start: the same Firn, the same Python in Spark's workers."""
    import sys

    from firn.spark.session.java import find_java

    source = str(HERE.parents[1] / "src")
    return {
        **os.environ,
        "JAVA_HOME": find_java(),
        "SPARK_CONF_DIR": CONF,
        "PYTHONPATH": os.pathsep.join([source, str(HERE), os.environ.get("PYTHONPATH", "")]),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
    }
