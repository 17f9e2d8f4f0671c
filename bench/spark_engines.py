"""Firn and its peers on one Spark session: plain Parquet by Spark, Delta Lake, and Apache Iceberg.

All of them in one JVM on one version of Spark, with the defaults of each; what they read is the same DataFrame.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from bench.figures import FIRN, RESULTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPARK = "4.1.4"
"""The one version that Delta and Iceberg both have a release for."""

PACKAGES = (
    "io.delta:delta-spark_4.1_2.13:4.3.1",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
)
PARQUET, DELTA, ICEBERG = "parquet", "delta", "iceberg"
PARTITION = "l_shipmode"


def session(*, peers: bool, warehouse: Path, cores: int = 2) -> SparkSession:
    """A local session with Firn's settings, and the extensions of the peers."""
    import pyspark

    from firn.spark.session.session import active_or_start

    config = {"spark.sql.shuffle.partitions": str(2 * cores)}
    if peers:
        if pyspark.__version__ != SPARK:
            raise SystemExit(
                f"the peers need Spark {SPARK}, this is {pyspark.__version__}; `python -m bench` makes an "
                "environment with it, --no-peers runs Firn alone"
            )
        config |= {
            "spark.jars": ",".join(str(jar) for jar in jars()),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": str(warehouse),
        }
    spark = active_or_start(master=f"local[{cores}]", app_name="firn-bench", config=config)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def jars() -> list[Path]:
    """The peers' jars, fetched from Maven Central on first use.

    Not by `spark.jars.packages` in the session that is measured: Spark puts the jars of packages on the path of
    its Python workers too, and these read the table of contents of every one of them again at each task.
    """
    cache = RESULTS / "ivy"
    if not (cache / "done").exists():
        settings = {"spark.jars.packages": ",".join(PACKAGES), "spark.jars.ivy": str(cache)}
        program = (
            "from firn.spark.session.session import active_or_start\n"
            f"active_or_start(master='local[1]', config={settings!r}).stop()"
        )
        subprocess.run([sys.executable, "-c", program], check=True, stderr=subprocess.DEVNULL)
        (cache / "done").touch()
    return sorted((cache / "jars").glob("*.jar"))


class Engine(Protocol):
    """One table of lineitem by one engine."""

    name: str

    def append(self, frame: DataFrame) -> None: ...

    def query(self, sql: str) -> list[Any]:
        """The rows of a query over `lineitem`, from the table's name to the answer."""
        ...

    def facts(self) -> dict[str, Any]:
        """What lies on disk: objects and bytes."""
        ...

    def drop(self) -> None: ...


class MaintainedEngine(Engine, Protocol):
    """One that can rewrite what it has written."""

    def compact(self) -> None: ...

    def delete(self, where: str) -> None: ...


class _OnDisk:
    def __init__(self, spark: SparkSession, place: Path) -> None:
        self.spark, self.place = spark, place

    def facts(self) -> dict[str, Any]:
        files = [Path(d, f) for d, _, names in os.walk(self.place) for f in names if not f.endswith(".crc")]
        data = [f for f in files if f.suffix == ".parquet" and "_delta_log" not in f.parts]
        size = sum(f.stat().st_size for f in files)
        return {"objects": len(files), "data_files": len(data), "mb_left": round(size / 2**20, 1)}

    def drop(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)


class FirnEngine(_OnDisk):
    name = FIRN

    def __init__(self, spark: SparkSession, place: Path) -> None:
        import firn

        super().__init__(spark, place)
        self.db = firn.connect(place, spark=spark)
        self.table = self.db.create_table("lineitem", partition_by=[PARTITION])

    def append(self, frame: DataFrame) -> None:
        self.table.append(frame)

    def compact(self) -> None:
        self.table.merge()

    def delete(self, where: str) -> None:
        self.table.delete(where)

    def query(self, sql: str) -> list[Any]:
        return list(self.db.sql(sql).to_spark().collect())


class ParquetEngine(_OnDisk):
    """No transactions, no statistics, no compaction, no deletes: the floor that Spark itself sets."""

    name = PARQUET

    def append(self, frame: DataFrame) -> None:
        frame.write.mode("append").partitionBy(PARTITION).parquet(str(self.place))

    def query(self, sql: str) -> list[Any]:
        self.spark.read.parquet(str(self.place)).createOrReplaceTempView("lineitem")
        return list(self.spark.sql(sql).collect())


class DeltaEngine(_OnDisk):
    name = DELTA

    @property
    def _table(self) -> str:
        return f"delta.`{self.place}`"

    def append(self, frame: DataFrame) -> None:
        frame.write.format("delta").mode("append").partitionBy(PARTITION).save(str(self.place))

    def compact(self) -> None:
        self.spark.sql(f"OPTIMIZE {self._table}").collect()

    def delete(self, where: str) -> None:
        self.spark.sql(f"DELETE FROM {self._table} WHERE {where}").collect()

    def query(self, sql: str) -> list[Any]:
        return list(self.spark.sql(sql.replace("lineitem", self._table)).collect())


class IcebergEngine(_OnDisk):
    name = ICEBERG

    def __init__(self, spark: SparkSession, place: Path) -> None:
        super().__init__(spark, place)
        self._short = f"bench.{place.name.replace('-', '_')}"
        self._table = f"ice.{self._short}"
        self._made = False
        warehouse = Path(spark.conf.get("spark.sql.catalog.ice.warehouse"))
        self.place = warehouse / "bench" / place.name.replace("-", "_")

    def append(self, frame: DataFrame) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        if not self._made:
            self._made = True
            empty = frame.limit(0).writeTo(self._table).using("iceberg")
            empty.partitionedBy(F.col(PARTITION)).create()
        frame.writeTo(self._table).append()

    def compact(self) -> None:
        self.spark.sql(f"CALL ice.system.rewrite_data_files(table => '{self._short}')").collect()

    def delete(self, where: str) -> None:
        self.spark.sql(f"DELETE FROM {self._table} WHERE {where}").collect()

    def query(self, sql: str) -> list[Any]:
        return list(self.spark.sql(sql.replace("lineitem", self._table)).collect())

    def drop(self) -> None:
        self.spark.sql(f"DROP TABLE IF EXISTS {self._table} PURGE")
        super().drop()


MAINTAINED: dict[str, Callable[[SparkSession, Path], MaintainedEngine]] = {
    FIRN: FirnEngine,
    DELTA: DeltaEngine,
    ICEBERG: IcebergEngine,
}
ENGINES: dict[str, Callable[[SparkSession, Path], Engine]] = {PARQUET: ParquetEngine, **MAINTAINED}
