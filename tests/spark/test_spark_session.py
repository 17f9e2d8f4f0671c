"""Finding Java, and the session."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from firn.errors import UnsupportedError
from firn.spark.session import java
from firn.spark.session.java import find_java
from firn.spark.session.session import active, active_or_start, conf, local_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fake_java(home: Path, version: str, *, vector: bool = True) -> Path:
    """A `java` that tells a version and has, or lacks, the vector module."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        "if '--add-modules=jdk.incubator.vector' in sys.argv:\n"
        f"    sys.exit({0 if vector else 1})\n"
        f"print('    java.specification.version = {version}', file=sys.stderr)\n"
    )
    program.chmod(0o755)
    return home


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(java, "_PLACES", (str(tmp_path / "jvm" / "*"),))
    return tmp_path


def test_no_java_says_what_to_install(nowhere: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        find_java()
    assert "Java 17 or later" in str(caught.value)
    assert "openjdk-17-jre-headless" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_java_home_comes_first(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(nowhere / "jvm" / "a", "21")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(nowhere / "mine", "17")))
    assert find_java() == str(nowhere / "mine")


def test_a_java_that_is_too_old_is_passed_over(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(nowhere / "old", "1.8")))
    fake_java(nowhere / "jvm" / "b", "25")
    assert find_java() == str(nowhere / "jvm" / "b")


def test_the_error_tells_why_each_java_was_rejected(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(nowhere / "old", "11")))
    fake_java(nowhere / "jvm" / "stripped", "21", vector=False)
    with pytest.raises(UnsupportedError, match=r"old is Java 11; .*stripped lacks the module jdk\.incubator"):
        find_java()


def test_java_on_the_path_is_found_through_its_link(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(nowhere / "real", "17")
    (nowhere / "bin").mkdir()
    (nowhere / "bin" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(nowhere / "bin"))
    assert find_java() == str(home)


def test_the_active_session_is_used(spark: SparkSession) -> None:
    assert active() is spark
    assert active_or_start(master="local[7]") is spark


def test_another_thread_gets_the_same_session(spark: SparkSession) -> None:
    import threading

    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(active_or_start()))
    thread.start()
    thread.join()
    assert found == [spark]


def test_a_session_that_firn_starts_is_quiet_local_and_in_utc(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == "131072"
    assert spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.threshold") == "100000"
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    assert local_settings("local[2]", "x")["spark.master"] == "local[2]"


def test_conf_is_put_back_even_after_an_error(spark: SparkSession) -> None:
    spark.conf.unset("spark.sql.files.maxPartitionBytes")
    before = spark.conf.get("spark.sql.shuffle.partitions")

    def change() -> None:
        with conf(spark, {"spark.sql.shuffle.partitions": "77", "spark.firn.test": "x"}):
            assert spark.conf.get("spark.sql.shuffle.partitions") == "77"
            raise ValueError

    with pytest.raises(ValueError):
        change()
    assert spark.conf.get("spark.sql.shuffle.partitions") == before
    assert spark.conf.get("spark.firn.test", "gone") == "gone"


def test_overlapping_blocks_put_back_what_was_there_first(spark: SparkSession) -> None:
    name = "spark.firn.overlap"
    first, second = conf(spark, {name: "x"}), conf(spark, {name: "x"})
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert spark.conf.get(name) == "x"
    second.__exit__(None, None, None)
    assert spark.conf.get(name, "gone") == "gone"
