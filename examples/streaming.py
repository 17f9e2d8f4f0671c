"""A Spark stream from one table into another, stopped and started again: each row arrives once.

    python examples/streaming.py [DATABASE]

Needs Spark (`firn[spark]`) and a Java.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import firn
from firn.spark import active_or_start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def copy_new_rows(spark: SparkSession, source: str, target: str, checkpoint: str) -> None:
    """One run: what came since the last one. A scheduler would start it every few minutes."""
    stream = (
        spark.readStream.format("firn")
        .load(source)
        .where("amount > 0")
        .writeStream.format("firn")
        .option("path", target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    stream.awaitTermination()


def main(url: str) -> None:
    spark = active_or_start(app_name="streaming")
    db = firn.connect(url)
    orders = db.create_table("orders")
    checkpoint = str(Path(url) / "checkpoint")
    run = (spark, f"{url}/orders", f"{url}/paid", checkpoint)

    orders.append([{"order": 1, "amount": 20}, {"order": 2, "amount": 0}])
    copy_new_rows(*run)
    paid = db.table("paid")
    print(f"the first run copied {paid.scan().count()} order")

    # Meanwhile orders arrive, and maintenance rearranges what was delivered.
    orders.append([{"order": 3, "amount": 5}])
    orders.append([{"order": 4, "amount": 7}])
    orders.merge()
    copy_new_rows(*run)
    copied = sorted(paid.scan(columns=["order"]).to_arrow().column("order").to_pylist())
    print(f"after the second run there are the orders {copied}")
    assert copied == [1, 3, 4]
    spark.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(sys.argv[1] if len(sys.argv) > 1 else directory)
