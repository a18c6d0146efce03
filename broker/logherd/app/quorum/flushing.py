"""The disk's side of a member: one batch at a time for the writer thread, and the messages that wait for it."""

import asyncio
from collections import deque
from collections.abc import Callable

from logherd.app.writer import NotYet, Writer
from logherd.raftlog.log import Batch, RaftLog
from logherd.replication.messages import Envelope
from logherd.store.errors import StoreFull
from logherd.telemetry.spread import Spread

__all__ = ["Flushing"]

_TEND_SECONDS = 0.1
_HELD_MAX = 1024
"""Steps of whose messages is remembered that they wait: a disk may hang or be full for days, in which the leader is
answered several times a second. The oldest goes, as on a connection that breaks."""


class _Batch:
    """A batch that outlives a full disk, because votes must go on."""

    __slots__ = ("_batch", "token")

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self.token = batch.token

    def write_and_flush(self) -> None:
        try:
            self._batch.write_and_flush()
        except StoreFull as error:
            raise NotYet from error


class Flushing:
    """Owns the writer thread. Loop thread only.

    Invariants: (1) a held message is sent after a flush that covers its token; (2) after a failure nothing is sent, and
    `on_flushed` is not called again.
    """

    def __init__(
        self, log: RaftLog, *, send: Callable[[Envelope], bool], on_flushed: Callable[[int], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:  # fmt: skip
        self._log = log
        self._send = send
        self._on_flushed = on_flushed
        self._on_failure = on_failure
        self._writer: Writer[_Batch] = Writer(
            asyncio.get_running_loop(), on_done=self._written, background=log.tend, idle_seconds=_TEND_SECONDS
        )
        self._wanted: int | None = None
        self._held: deque[tuple[int, tuple[Envelope, ...]]] = deque(maxlen=_HELD_MAX)
        self._waited = False
        self._stopped = False

    @property
    def seconds(self) -> Spread:
        """How long batches took."""
        return self._writer.seconds

    @property
    def failed(self) -> bool:
        """Whether nothing can be written any more; `on_failure` may hear it a moment later."""
        return self._writer.failure is not None

    def start(self) -> None:
        """Begin to take batches."""
        self._writer.start()

    def want(self, token: int, held: tuple[Envelope, ...]) -> None:
        """Have every change so far flushed, and send `held` then. Nothing begins before `submit`."""
        self._wanted = token if self._wanted is None else max(self._wanted, token)
        if held:
            self._held.append((token, held))

    def submit(self, *, messages_first: bool = False) -> None:
        """Hand over what is wanted, unless a batch is on its way: it comes back here.

        With `messages_first` it is left to the next call, once: what was sent in this pass leaves before the writer
        thread takes the interpreter, because the other members have to flush the same.
        """
        if self._wanted is None or self._writer.busy or self._stopped or self.failed:
            return
        self._waited = messages_first and not self._waited
        if self._waited:
            return
        token, self._wanted = self._wanted, None
        self._writer.submit(_Batch(self._log.take_batch(token)))

    def end(self) -> None:
        """Send nothing more, and take no more batches."""
        self._stopped = True
        self._held.clear()

    async def stop(self, seconds: float) -> bool:
        """End the thread after the batch in flight; whether it has ended in time."""
        self.end()
        return await asyncio.to_thread(self._writer.stop, seconds)

    def _written(self, batch: _Batch | None, error: BaseException | None) -> None:
        if self._stopped:
            return
        if batch is None or error is not None:
            self._on_failure(error or RuntimeError("the writer reported neither a batch nor an error"))
            return
        while self._held and self._held[0][0] <= batch.token:
            for envelope in self._held.popleft()[1]:
                self._send(envelope)
        self._on_flushed(batch.token)
        self.submit()
