"""Scans went through tasks without a word, whatever the reason; `nativeScan=always` failed with Java's text."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import firn
from firn.errors import UnsupportedError
from firn.spark.native import parquet
from firn.spark.native.parquet import NATIVE_CONF, hadoop_obstacle, native_paths, parquet_frame
from firn.spark.session.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Remote:
    """As much of a bucket as planning asks for."""

    url = "s3://no-such-bucket"

    def uri(self, key: str) -> str:
        return f"{self.url}/{key}"

    def local_path(self, key: str) -> str | None:
        return None


def test_the_log_says_once_why_tasks_read(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_said", set())
    bucket: Any = Remote()
    with caplog.at_level(logging.INFO, "firn"):
        for _ in range(2):
            assert native_paths(bucket, ["a.parquet"], spark) is None
    assert len(caplog.records) == 1
    assert "s3://no-such-bucket through Python tasks" in caplog.text
    assert "S3AFileSystem" in caplog.text


def test_always_without_a_jar_names_the_jar(spark: SparkSession) -> None:
    spark.conf.set(NATIVE_CONF, "always")
    bucket: Any = Remote()
    paths = native_paths(bucket, ["a.parquet"], spark)
    assert paths == ["s3a://no-such-bucket/a.parquet"]
    with pytest.raises(UnsupportedError, match=r"no file system for s3a.*hadoop-aws.*nativeScan to auto"):
        parquet_frame(spark, spark_schema({"a": "BIGINT"}), paths)


def test_errors_of_python_are_not_taken_for_obstacles(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(spark), "_jsc", property(lambda _: 1 / 0), raising=False)
    with pytest.raises(ZeroDivisionError):
        hadoop_obstacle(spark, "s3://another", "s3a://another/a")


def test_a_predicate_that_only_duckdb_understands_is_told(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    db = firn.connect(tmp_path / "db", spark=spark)
    db.create_table("t").append([{"a": 1}])
    with caplog.at_level(logging.INFO, "firn"):
        assert db.table("t").scan(where="a // 2 = 0").to_spark().count() == 1
    assert "Spark reads t through Python tasks: only DuckDB knows" in caplog.text
