"""A Spark driver that writes and reads rows and says how long it took: `python -m bench.spark_driver [JARS]`.

Orders come and answers go as JSON lines. It runs under the Spark of its own interpreter.
"""

import json
import os
import sys
import time
from typing import Any

from pyspark import __version__
from pyspark.sql import DataFrame, SparkSession, functions

CORES = 2
KEYS = 1000


def session(jars: str) -> SparkSession:
    builder = SparkSession.builder.master(f"local[{CORES}]")
    settings = {
        "spark.driver.memory": "1g", "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1", "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraClassPath": jars,
    }  # fmt: skip
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def rows(spark: SparkSession, count: int, size: int) -> DataFrame:
    """Keyed rows whose values have so many bytes."""
    number = functions.col("id")
    return spark.range(0, count, 1, CORES).select(
        (number % KEYS).cast("string").alias("key"),
        functions.rpad(number.cast("string"), size, "x").cast("binary").alias("value"),
    )


def write(spark: SparkSession, source: str, count: int, size: int, options: dict[str, str]) -> dict[str, Any]:
    frame = rows(spark, count, size)
    begun = time.monotonic()
    frame.write.format(source).options(**options).mode("append").save()
    return {"seconds": time.monotonic() - begun}


def read(spark: SparkSession, source: str, options: dict[str, str]) -> dict[str, Any]:
    """Every row's value goes to Spark, which adds the lengths."""
    begun = time.monotonic()
    found = (
        spark.read.format(source).options(**options).load()
        .agg(functions.count("*").alias("rows"), functions.sum(functions.length("value")).alias("bytes")).collect()[0]
    )  # fmt: skip
    return {"seconds": time.monotonic() - begun, "rows": found["rows"], "bytes": found["bytes"]}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever Spark prints is for the log
    spark = session(sys.argv[1] if len(sys.argv) > 1 else "")
    print(json.dumps({"spark": __version__}), file=answers, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        do = {"write": write, "read": read}[order.pop("do")]
        print(json.dumps(do(spark, **order)), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
