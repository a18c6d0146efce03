"""The writer thread: the only place where the log is written and flushed.

One batch at a time goes in; its outcome comes back to the event loop. While one batch is being flushed the next one
collects in the store, so under load one flush covers every request that arrived meanwhile (group commit), and with one
sender nothing waits for company. Between batches the thread does the store's background work (zeroing ahead, derived
files). However many batches come, it gets a turn between two of them when it is due, and at most a fifth of the time.

Who can afford to wait for a quick disk, or need not wait for the flush, does a small batch itself in the loop's thread:
handing it over and hearing of it are two changes of threads, which together may take as long as the flush.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Generic, Protocol, TypeVar

from logherd.telemetry.spread import FLUSH_SECONDS, Spread

__all__ = ["QUICK_SECONDS", "Batch", "NotYet", "Writer", "WriterFailed"]

_PAUSE_FACTOR = 4
"""After a step of background work at least this many times its length belongs to batches."""
QUICK_SECONDS = 0.002
"""A disk on which batches take less in the mean counts as quick. If it then hangs, the loop hangs with it, once."""
_MEAN_OF_BATCHES = 16
_RETRY_SECONDS = 0.2


class Batch(Protocol):
    """A piece of the log that is ready to be written. Runs on the writer thread."""

    def write_and_flush(self) -> None:
        """Block until the batch is as durable as the store promises. Raises NotYet, OSError, the store's own error."""


BatchT = TypeVar("BatchT", bound=Batch)


class NotYet(Exception):
    """There is no space, or no descriptor, for a batch that must be written all the same: nothing of it was lost by
    trying, and it may be tried again as it is."""


class WriterFailed(Exception):
    """A write or flush failed. Its outcome on the disk is unknown, so the process must not go on writing."""


class Writer(Generic[BatchT]):
    """Owns one thread. All methods belong to the event loop's thread.

    Invariants: 1. at most one batch is in flight; 2. after a failure no further batch is taken; 3. batches and
    background work never run at the same time, whichever thread does them.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, on_done: Callable[[BatchT | None, BaseException | None], None],
        background: Callable[[], bool], idle_seconds: float = 0.05,
    ) -> None:  # fmt: skip
        """`on_done` runs on the loop after each batch, and without one when the background work failed. A batch that
        raises NotYet is in flight until a later try of it has ended in another way.

        `background` runs on the thread between batches and returns whether there is more to do at once; if there is
        not, it is asked again after `idle_seconds`.
        """
        self._loop = loop
        self._on_done = on_done
        self._background = background
        self._idle_seconds = idle_seconds
        self._inbox: SimpleQueue[BatchT | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="logherd-writer", daemon=True)
        self._at_work = threading.Lock()
        """Of whoever does background work, or a batch in the loop's thread."""
        self._background_wanted = False
        self._mean_seconds = 1.0
        self.busy = False
        self.seconds = Spread(FLUSH_SECONDS)
        """How long batches took to be written and flushed; kept on the loop's thread."""
        self.failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def submit(
        self, batch: BatchT, *, here: Callable[[], bool] | None = None, behind: Callable[[], None] | None = None
    ) -> None:
        """Hand over one batch; returns at once. Raises WriterFailed after a failure or while a batch is in flight.

        `here` writes and flushes the batch itself if that is short, and says whether it has. It is called while the
        disk is quick and no background work is under way; then `on_done` has been called when this returns, and after
        it `behind`, for what nobody waits for. Its failure is as final as the batch's: `on_done` hears of it, without
        a batch.
        """
        if self.failure is not None or self.busy:
            raise WriterFailed("the writer takes no batch: " + ("it failed" if self.failure else "one is in flight"))
        self.busy = True
        if here is None or self._mean_seconds >= QUICK_SECONDS or not self._done_here(batch, here, behind):
            self._inbox.put(batch)

    def stop(self, timeout_seconds: float) -> bool:
        """End the thread after the batch in flight; blocks up to the timeout. Returns whether it has ended."""
        self._inbox.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _done_here(self, batch: BatchT, here: Callable[[], bool], behind: Callable[[], None] | None) -> bool:
        if self._background_wanted or not self._at_work.acquire(blocking=False):
            return False
        error: Exception | None = None
        started = monotonic()
        try:  # all of it while no background work can begin; a batch that follows meanwhile is for the thread
            try:
                if not here():
                    return False
            except Exception as failure:  # as on the thread: it is for `on_done`
                error = failure
            self._done(batch, error, monotonic() - started)
            if behind is not None and self.failure is None and not self.busy:  # the thread notes what it does itself
                self._do_behind(behind)
        finally:
            self._at_work.release()
        return True

    def _do_behind(self, behind: Callable[[], None]) -> None:
        try:
            behind()
        except Exception as failure:
            self._done(None, failure, 0.0)

    def _run(self) -> None:
        background_due = 0.0
        while True:
            wait = background_due - monotonic()
            try:
                batch = self._inbox.get(timeout=wait) if wait > 0 else self._inbox.get_nowait()
            except Empty:
                started = monotonic()
                more = self._run_background()
                ended = monotonic()
                background_due = ended + (_PAUSE_FACTOR * (ended - started) if more else self._idle_seconds)
                continue
            if batch is None:
                return
            error: BaseException | None = None
            started = monotonic()
            try:
                batch.write_and_flush()
            except BaseException as failure:  # the loop decides; this thread only reports
                error = failure
            self._report(batch, error, monotonic() - started)

    def _run_background(self) -> bool:
        """Whether there is more to do. A failure is as final as one of a batch: the disk may have dropped pages."""
        self._background_wanted = True  # before the lock: a loop that is never without a batch lets us in, too
        with self._at_work:
            self._background_wanted = False
            return self._step_background()

    def _step_background(self) -> bool:
        if self.failure is not None:
            return False
        try:
            return self._background()
        except BaseException as failure:
            self._report(None, failure, 0.0)
            # Seen by this thread before the loop hears of it, so that the failed work is not tried again.
            self.failure = failure
            return False

    def _report(self, batch: BatchT | None, error: BaseException | None, seconds: float) -> None:
        try:
            self._loop.call_soon_threadsafe(self._done, batch, error, seconds)
        except RuntimeError:
            return  # the loop is closed: the process is ending and nobody waits for this answer

    def _done(self, batch: BatchT | None, error: BaseException | None, seconds: float) -> None:
        if batch is not None:
            self.busy = isinstance(error, NotYet)
            self._mean_seconds += (seconds - self._mean_seconds) / _MEAN_OF_BATCHES
        if isinstance(error, NotYet) and batch is not None:
            self._loop.call_later(_RETRY_SECONDS, self._again, batch)
            return
        if error is not None:
            self.failure = error
        self._on_done(batch, error)
        if batch is not None:
            self.seconds.observe(seconds)  # somebody waits for what came before

    def _again(self, batch: BatchT) -> None:
        if self.failure is None:
            self._inbox.put(batch)
