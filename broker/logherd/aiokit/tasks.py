"""Named tasks with an owner: an eternal task that ends is reported, and a stop names whatever does not end.

The only place of the product that creates bare tasks.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from logherd.kit.errors import LogHerdError
from logherd.telemetry.log import Log

__all__ = ["TaskEnded", "TaskGuard", "TasksStuck", "cancel_and_wait"]

_log = Log("logherd.aiokit")


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """An eternal task is over: it returned (`error` is None) or raised."""

    name: str
    error: BaseException | None


class TasksStuck(LogHerdError):
    """Tasks that did not end within the deadline after they were cancelled; `names` says which."""

    def __init__(self, names: tuple[str, ...], seconds: float) -> None:
        super().__init__(f"tasks still run {seconds} s after they were cancelled: {', '.join(names)}")
        self.names = names


class TaskGuard:
    """Owns the tasks of one component.

    Invariants: 1. every task has a name; 2. no task outlives a `stop` that returned; 3. an eternal task that ends while
    the guard is open is reported exactly once, to the log and to `on_end`.
    """

    def __init__(self, on_end: Callable[[TaskEnded], None] | None = None) -> None:
        self._on_end = on_end
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, name: str, work: Coroutine[object, object, None], *, eternal: bool = True) -> asyncio.Task[None]:
        """Run `work` as a task called `name`.

        An eternal task must not end before `stop`. A mortal one may return; only its errors are reported.
        Raises: RuntimeError after `stop` (the coroutine is closed, so that nothing runs unowned).
        """
        if self._stopping:
            work.close()
            raise RuntimeError(f"the guard is stopped; the task {name} was not started")
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._eternal_done if eternal else self._mortal_done)
        return task

    async def stop(self, seconds: float) -> None:
        """Cancel every task and wait for all of them.

        Raises: TasksStuck when some still run after `seconds`; they are named and stay cancelled. CancelledError of the
        caller is raised at once, the tasks stay cancelled.
        """
        self._stopping = True
        await cancel_and_wait(tuple(self._tasks), seconds)

    def _eternal_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if not self._stopping:
            self._report(TaskEnded(task.get_name(), error))

    def _mortal_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._report(TaskEnded(task.get_name(), error))

    def _report(self, ended: TaskEnded) -> None:
        _log.error("task ended", cause=ended.error, task=ended.name, error=ended.error)
        if self._on_end is not None:
            self._on_end(ended)


async def cancel_and_wait(tasks: tuple[asyncio.Task[None], ...], seconds: float) -> None:
    """Cancel `tasks` and wait until they are over. Their own errors are left to their owners' callbacks.

    Raises: TasksStuck naming those that still run after `seconds`.
    """
    for task in tasks:
        task.cancel()
    if not tasks:
        return
    _, stuck = await asyncio.wait(tasks, timeout=seconds)
    if stuck:
        names = tuple(sorted(task.get_name() for task in stuck))
        _log.error("tasks do not stop", tasks=", ".join(names), seconds=seconds)
        raise TasksStuck(names, seconds)
