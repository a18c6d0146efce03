"""What goes wrong inside the tasks of a job, at rows that a test has drawn. The tasks do it; files tell it.

`died`      an attempt has failed on purpose
`holding`   a task stands still in the middle of its rows, all attempts of it, until the test has made the file `go`
`twice`     an attempt has met another attempt of its task that began while it was still running
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logherd_spark.cluster import Cluster
from logherd_spark.patience import Patience
from spark.rows import by_value, stored

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Faults", "through"]

_SECONDS = 240.0
_ON_THE_WAY = 2
"""So many batches Spark keeps until it has seen the next one."""
_PATIENCE = Patience(request_seconds=10, total_seconds=120)


@dataclass(frozen=True)
class Faults:
    """Each fault happens once, in the first attempt of a task, after so many of its rows; a part of -1 is no task.

    `generation` is the micro-batch that is hurt, 0 in a batch job. With `topic` of the name server `names`, into which
    the job writes, the fault waits until rows that this task let go before it are stored: so they will be repeated.
    """

    directory: str
    generation: int = 0
    hold_part: int = -1
    hold_rows: int = 0
    fail_part: int = -1
    fail_rows: int = 0
    slow_part: int = -1
    slow_rows: int = 0
    names: str = ""
    topic: str = ""

    def told(self) -> dict[str, Any]:
        return asdict(self)


def through(faults: Faults) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    """Passes batches on, for `DataFrame.mapInArrow`."""

    def passing(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        generation = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        if generation != faults.generation:
            yield from batches
            return
        task = _Task(faults, context.partitionId(), context.attemptNumber())
        seen = 0
        for each in batches:
            task.suffer(seen, seen + each.num_rows)
            seen += each.num_rows
            task.let_go(each)
            yield each
        task.suffer(seen, 1 << 60)

    return passing


class _Task:
    def __init__(self, faults: Faults, part: int, attempt: int) -> None:
        self._faults = faults
        self._directory = Path(faults.directory)
        self._part = part
        self._attempt = attempt
        self._let_go: list[str] = []
        if part == faults.slow_part and attempt > 0:
            (self._directory / "another").touch()

    def let_go(self, batch: "pa.RecordBatch") -> None:
        """The job gets these rows next."""
        if batch.num_rows:
            value = batch.column("value")[0].as_py()
            self._let_go.append(value.decode() if isinstance(value, bytes) else value)

    def suffer(self, first: int, last: int) -> None:
        """What happens before rows [first, last)."""
        faults = self._faults
        if self._part == faults.hold_part and first <= faults.hold_rows < last:
            self._wait_until_stored()
            (self._directory / "holding").touch()
            self._wait_for("go")
        is_slow = self._part == faults.slow_part and first <= faults.slow_rows < last
        fails = self._part == faults.fail_part and first <= faults.fail_rows < last
        if self._attempt:
            # If this attempt came to its end now, Spark would end the first before that has suffered.
            for suffers, name in ((is_slow, "twice"), (fails, "died")):
                if suffers:
                    self._wait_for(name)
            return
        if fails:
            self._wait_until_stored()
            (self._directory / "died").touch()
            raise RuntimeError("this attempt was told to die")
        if is_slow:
            self._wait_until_stored()
            self._wait_for("another")
            (self._directory / "twice").touch()

    def _wait_until_stored(self) -> None:
        faults, sure = self._faults, self._let_go[:-_ON_THE_WAY]
        if sure and faults.topic:
            _wait(
                lambda: sure[-1] in by_value(stored(Cluster((faults.names,), _PATIENCE), faults.topic)),
                f"{sure[-1]} of part {self._part} is not stored",
            )

    def _wait_for(self, name: str) -> None:
        _wait((self._directory / name).exists, f"there is no {name}")


def _wait(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} after {_SECONDS:.0f} s")
        time.sleep(0.02)
