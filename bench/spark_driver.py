"""A Spark driver that writes and reads rows and says how long it took: `python -m bench.spark_driver [JARS]`.

Orders come and answers go as JSON lines. It runs under the Spark of its own interpreter.
"""

import json
import os
import sys
import time
from typing import Any

from py4j.protocol import Py4JJavaError
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


def kafka_topic(spark: SparkSession, bootstrap: str, name: str, partitions: int) -> dict[str, Any]:
    """A topic whose partitions all have leaders, as many replicas as the brokers' settings say."""
    jvm: Any = spark._jvm  # noqa: SLF001 - Kafka's own client is there
    kafka, java = jvm.org.apache.kafka.clients.admin, jvm.java.util
    settings = java.Properties()
    settings.put("bootstrap.servers", bootstrap)
    admin = kafka.Admin.create(settings)
    try:
        topic = kafka.NewTopic(name, java.Optional.of(partitions), java.Optional.empty())
        admin.createTopics(java.Collections.singletonList(topic)).all().get()
        deadline = time.monotonic() + 60
        while not _has_leaders(admin, java.Collections.singletonList(name), name):
            if time.monotonic() > deadline:
                raise RuntimeError(f"topic {name} has no leaders")
            time.sleep(0.05)
    finally:
        admin.close()
    return {}


def _has_leaders(admin: Any, names: Any, name: str) -> bool:
    try:
        found = admin.describeTopics(names).allTopicNames().get().get(name).partitions()
    except Py4JJavaError:  # not every broker has heard of it
        return False
    return all(found.get(at).leader() is not None for at in range(found.size()))


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
        do = {"write": write, "read": read, "kafka_topic": kafka_topic}[order.pop("do")]
        print(json.dumps(do(spark, **order)), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
