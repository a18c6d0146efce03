"""From appended to answered: the passes of the event loop, the writer thread, and what waits for a commit.

One pass of the loop handles every request that has arrived and appends to the store's memory. When the pass ends, all
of it goes to the writer as one batch. When that batch is flushed, the store dispatches it to consume queues and index,
parked pulls wake, and the answers that waited for those positions leave. Requests that arrive meanwhile form the next
batch, so the number of flushes follows the disk, not the number of requests. A pass may be held for requests that are
about to come (`linger.py`), unless somebody waits for everything to be committed.

What must be durable before what is sent: a `ReplyAfter(position)` leaves only after a flush that covers `position`.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from logherd.app.writer import Batch, Writer

__all__ = ["CommitPipeline", "Log", "LogBatch"]


class LogBatch(Batch, Protocol):
    """A piece of the log up to the position `end`."""

    @property
    def end(self) -> int: ...


BatchT = TypeVar("BatchT", bound=LogBatch)
TouchedT_co = TypeVar("TouchedT_co", covariant=True)
QueuesT = TypeVar("QueuesT")


class Log(Protocol[BatchT, TouchedT_co]):
    """The part of the store that the pipeline drives."""

    @property
    def committed_position(self) -> int: ...

    def take_batch(self) -> BatchT | None:
        """Everything appended and not yet handed out, up to the store's bound; None if there is nothing."""

    def flushed(self, batch: BatchT) -> None:
        """Take a batch back that was flushed."""

    def advance(self, position: int) -> TouchedT_co:
        """Make visible what was flushed up to `position`; the result says which queues have new messages."""


class CommitPipeline(Generic[BatchT, QueuesT]):
    """Drives one log through one writer. Every method runs on the event loop's thread."""

    def __init__(
        self,
        log: Log[BatchT, QueuesT],
        writer: Writer[BatchT],
        *,
        hold: Callable[[], bool],
        before_batch: Callable[[], None],
        on_commit: Callable[[QueuesT, int], None],
        on_failure: Callable[[BaseException], None],
        brief: Callable[[BatchT], bool] | None = None,
    ) -> None:
        """`hold`: whether what was appended is to wait for more; `schedule` is called then when it need not any longer.
        `before_batch` may append (coalesced metadata); `on_commit(touched, committed_position)` wakes and answers;
        `on_failure` ends the process' writing life and is called once.

        `brief`: does in the loop's thread what a pass has appended, if that is short, and says whether it has.
        """
        self._log = log
        self._writer = writer
        self._hold = hold
        self._before_batch = before_batch
        self._on_commit = on_commit
        self._on_failure = on_failure
        self._brief = brief
        self._scheduled = False
        self._loop = asyncio.get_running_loop()
        self._idle_waiters: list[asyncio.Future[None]] = []

    def schedule(self) -> None:
        """Say that something may have been appended in this pass. Cheap; may be called for every request."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._end_pass)

    async def drained(self) -> None:
        """Wait until everything appended so far is committed, or the writer has failed."""
        self.schedule()
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._idle_waiters.append(waiter)
        await waiter

    def done(self, batch: BatchT | None, error: BaseException | None) -> None:
        """The writer's outcome of a batch, or a failure of its background work (no batch)."""
        if batch is None or error is not None:
            self._release_waiters()
            self._on_failure(error or RuntimeError("the writer reported neither a batch nor an error"))
            return
        self._log.flushed(batch)
        touched = self._log.advance(batch.end)  # alone, so what is flushed here is committed
        self._on_commit(touched, self._log.committed_position)
        self._submit()

    def _end_pass(self) -> None:
        self._scheduled = False
        self._submit(brief=self._brief)

    def _submit(self, brief: Callable[[BatchT], bool] | None = None) -> None:
        if self._writer.failure is not None:
            self._release_waiters()
            return
        if self._writer.busy:
            return  # done() comes back here
        if not self._idle_waiters and self._hold():
            return
        self._before_batch()
        batch = self._log.take_batch()
        if batch is None:
            self._release_waiters()
        else:
            self._writer.submit(batch, here=partial(brief, batch) if brief is not None else None)

    def _release_waiters(self) -> None:
        waiters, self._idle_waiters = self._idle_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
