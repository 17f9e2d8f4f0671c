"""Entries of Spark's catalog that nothing can read: they are refused where a source can tell, and say what to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import firn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long


def test_the_catalog_takes_no_tables_of_firn(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    db = firn.connect(tmp_path / "db", spark=spark)
    db.create_table("t").append([{"a": 1}])
    path = f"{db.url}/t"
    for how in ("OPTIONS (path", "LOCATION "):
        end = ")" if how.startswith("O") else ""
        with pytest.raises(PySparkException, match=r"can't be USING firn.*CREATE TEMP VIEW"):
            spark.sql(f"CREATE TABLE entry USING firn {how} '{path}'{end}")
    assert not spark.catalog.tableExists("entry")
    # The advice works.
    spark.sql(f"CREATE OR REPLACE TEMP VIEW view_of_t USING firn OPTIONS (path '{path}')")
    spark.sql("INSERT INTO view_of_t VALUES (2)")
    assert db.table("t").scan().count() == 2


def test_an_entry_that_lost_its_path_says_so(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    path = f"{tmp_path}/db/saved"
    spark.range(3).write.format("firn").option("path", path).saveAsTable("saved")
    try:
        with pytest.raises(PySparkException, match="Spark keeps neither path nor options"):
            spark.table("saved").collect()
    finally:
        spark.sql("DROP TABLE saved")
    assert spark.read.format("firn").load(path).count() == 3
