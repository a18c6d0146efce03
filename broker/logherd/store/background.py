"""Background work of the writer thread, in small steps, and in which order it is done."""

from collections import deque
from collections.abc import Iterator
from enum import Enum

__all__ = ["Background", "NoSpace", "Task"]


class NoSpace(Enum):
    """What a task yields when it cannot go on before the disk has space again."""

    WAITING = "waiting for space"


Task = Iterator[NoSpace | None]
"""Background work cut into steps of a few milliseconds at most; each `next` does one."""


class Background:
    """Tasks in the order in which they came, and deletions of segments before them. True while there are any.

    A deletion waits for no task, as a task that waits for space may get it by that alone. Either thread adds; the
    writer thread steps.
    """

    __slots__ = ("_deletions", "_tasks")

    def __init__(self) -> None:
        self._deletions: deque[Task] = deque()
        self._tasks: deque[Task] = deque()

    def __bool__(self) -> bool:
        return bool(self._deletions or self._tasks)

    def append(self, task: Task) -> None:
        """Do this when what came before it is done."""
        self._tasks.append(task)

    def append_deletion(self, task: Task) -> None:
        """The same for one that deletes segments."""
        self._deletions.append(task)

    def step(self) -> bool:
        """One step of the oldest deletion, else of the oldest task; False if there is none or each waits."""
        for tasks in (self._deletions, self._tasks):
            try:
                if tasks and next(tasks[0]) is None:
                    return True
            except StopIteration:
                tasks.popleft()
                return bool(self)
        return False
