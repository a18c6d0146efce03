"""A driver of its own: `python -m spark.driver DIRECTORY HOSTS`. Orders come and answers go as JSON lines.

With hosts it has Spark's cluster scheduler and an executor of one core on each of these addresses: only there, and only
on another host, does Spark run a slow task a second time. Without, it is `local[2,4]`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark.faults import Faults, through

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTINGS = {
    "spark.driver.memory": "600m", "spark.executor.memory": "512m", "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2", "spark.sql.execution.arrow.maxRecordsPerBatch": "10",
    # What a task lets go is on its way at once, and does not wait for more.
    "spark.buffer.size": "256", "spark.sql.execution.pandas.udf.buffer.size": "256",
    "spark.sql.session.timeZone": "UTC", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1",
    "spark.task.maxFailures": "4", "spark.speculation": "true", "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.1", "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
}  # fmt: skip


def session_in(directory: Path, *, master: str) -> "SparkSession":
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    local, warehouse = str(directory / "local"), str(directory / "warehouse")
    session = builder.config("spark.local.dir", local).config("spark.sql.warehouse.dir", warehouse).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def start_executors(session: "SparkSession", directory: Path, hosts: list[str]) -> list[subprocess.Popen[bytes]]:
    """Executors as a cluster manager would start them; returns when the scheduler has them all."""
    context = session.sparkContext
    jars = Path(os.environ["SPARK_HOME"]) / "jars"
    modules = context._jvm.org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptions()
    port = context.getConf().get("spark.driver.port")
    started = []
    for number, host in enumerate(hosts):
        command = [
            "java", "-Xmx512m", *modules.split(), "-cp", f"{jars}/*",
            "org.apache.spark.executor.CoarseGrainedExecutorBackend", "--driver-url",
            f"spark://CoarseGrainedScheduler@127.0.0.1:{port}", "--executor-id", str(number), "--hostname", host,
            "--cores", "1", "--app-id", context.applicationId, "--resourceProfileId", "0",
        ]  # fmt: skip
        with (directory / f"executor-{number}.log").open("wb") as log:
            started.append(subprocess.Popen(command, cwd=directory, stdout=log, stderr=log, start_new_session=True))
    deadline = time.monotonic() + 600
    while context._jsc.sc().getExecutorMemoryStatus().size() < 1 + len(hosts):
        if time.monotonic() > deadline:
            logs = "\n".join(path.read_text()[-2000:] for path in directory.glob("executor-*.log"))
            raise RuntimeError(f"executors are missing: {logs}")
        time.sleep(0.05)
    return started


class Driver:
    """Carries orders out, one after another."""

    def __init__(self, session: "SparkSession") -> None:
        self._session = session

    def write(self, rows: int, parts: int, options: dict[str, str], faults: dict[str, Any]) -> dict[str, Any]:
        """A batch job of numbered rows."""
        frame = self._faulty(events(self._session, rows, parts=parts), faults)
        frame.write.format("logherd").options(**options).mode("append").save()
        return {}

    def read(self, options: dict[str, str], faults: dict[str, Any]) -> dict[str, Any]:
        """A batch job that reads; the rows."""
        frame = self._faulty(self._session.read.format("logherd").options(**options).load(), faults)
        rows = frame.collect()
        return {
            "rows": [[row.key, row.value.decode(), row.tags, row.queue, row.offset, row.properties] for row in rows]
        }

    def copy(self, source: dict[str, str], sink: dict[str, str], faults: dict[str, Any], stop: bool) -> dict[str, Any]:
        """A stream from topic to topic, until all is copied, or, with `stop`, until a task is held."""
        frame = self._session.readStream.format("logherd").options(**source).load()
        columns = self._faulty(frame.select("key", "value", "tags", "properties"), faults)
        query = columns.writeStream.format("logherd").options(**sink).trigger(availableNow=True).start()
        holding = Path(faults["directory"], "holding")
        while stop and query.isActive and not holding.exists():
            time.sleep(0.02)
        if stop and query.isActive:
            query.stop()
        query.awaitTermination()
        return {
            "id": str(query.id), "run": str(query.runId),
            "batches": [[each["batchId"], each["numInputRows"]] for each in query.recentProgress],
        }  # fmt: skip

    def speculated(self) -> dict[str, Any]:
        """How many attempts the scheduler has started because another attempt was slow."""
        store = self._session.sparkContext._jsc.sc().statusStore()
        defaults = [getattr(store, f"stageList$default${number}")() for number in (2, 3, 4, 5)]
        stages = store.stageList(None, *defaults)
        found = 0
        for at in range(stages.size()):
            stage = stages.apply(at)
            tasks = store.taskList(stage.stageId(), stage.attemptId(), 1000)
            found += sum(1 for number in range(tasks.size()) if tasks.apply(number).speculative())
        return {"attempts": found}

    def _faulty(self, frame: "DataFrame", faults: dict[str, Any]) -> "DataFrame":
        return frame.mapInArrow(through(Faults(**faults)), frame.schema)


def events(spark: "SparkSession", count: int, *, parts: int) -> "DataFrame":
    from pyspark.sql import functions

    number = functions.col("id").cast("string")
    return spark.range(0, count, 1, parts).select(
        functions.concat(functions.lit("key-"), (functions.col("id") % 17).cast("string")).alias("key"),
        functions.concat(functions.lit("value-"), number).alias("value"),
        functions.concat(functions.lit("tag-"), (functions.col("id") % 2).cast("string")).alias("tags"),
        functions.create_map(functions.lit("number"), number).alias("properties"),
    )


def main() -> None:
    directory, hosts = Path(sys.argv[1]), [each for each in sys.argv[2].split(",") if each]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever Spark prints is for the log
    session = session_in(directory, master="local-cluster[0,1,600]" if hosts else "local[2,4]")
    executors = start_executors(session, directory, hosts)
    driver = Driver(session)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = getattr(driver, order.pop("do"))(**order)
        except Exception as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), file=answers, flush=True)
    session.stop()
    for each in executors:
        each.send_signal(signal.SIGTERM)
        each.wait(60)


if __name__ == "__main__":
    main()
