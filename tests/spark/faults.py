"""What goes wrong inside the tasks of a job, at rows that a test has drawn. The tasks do it; files tell it.

`died`      an attempt has failed on purpose
`holding`   a task stands still in the middle of its rows, until the test has made the file `go`
`twice`     an attempt has met another attempt of its task that began while it was still running
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Faults", "through"]

_SECONDS = 240.0


@dataclass(frozen=True)
class Faults:
    """Each fault happens once, in the first attempt of a task, after so many of its rows; a part of -1 is no task.

    `generation` is the micro-batch that is hurt, 0 in a batch job. Without rows the fault comes before the first row.
    """

    directory: str
    generation: int = 0
    hold_part: int = -1
    hold_rows: int = 0
    fail_part: int = -1
    fail_rows: int = 0
    slow_part: int = -1
    slow_rows: int = 0

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
            yield each
        task.suffer(seen, 1 << 60)

    return passing


class _Task:
    def __init__(self, faults: Faults, part: int, attempt: int) -> None:
        self._faults = faults
        self._directory = Path(faults.directory)
        self._part = part
        self._attempt = attempt
        if part == faults.slow_part and attempt > 0:
            (self._directory / "another").touch()

    def suffer(self, first: int, last: int) -> None:
        """What happens before rows [first, last)."""
        faults = self._faults
        if self._part == faults.hold_part and first <= faults.hold_rows < last and self._is_first("holding"):
            self._wait_for("go")
        if self._attempt:
            return
        if self._part == faults.fail_part and first <= faults.fail_rows < last and self._is_first("died"):
            raise RuntimeError("this attempt was told to die")
        if self._part == faults.slow_part and first <= faults.slow_rows < last and self._is_first("slow"):
            self._wait_for("another")
            self._is_first("twice")

    def _is_first(self, name: str) -> bool:
        try:
            (self._directory / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _wait_for(self, name: str) -> None:
        deadline = time.monotonic() + _SECONDS
        while not (self._directory / name).exists():
            if time.monotonic() > deadline:
                raise RuntimeError(f"there is no {name} after {_SECONDS:.0f} s")
            time.sleep(0.02)
