"""The disk's side of a replica: one batch at a time for the writer thread, and the messages that wait for it."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from logherd.app.engine import Flushes
from logherd.app.group.replica_file import ReplicaFile
from logherd.app.writer import NotYet, Writer
from logherd.group.output import Output, Promise
from logherd.replica import ReplicaStore
from logherd.replication.messages import Envelope
from logherd.store import StoreFull, WriteBatch
from logherd.store.writer import NO_DESCRIPTOR
from logherd.telemetry.spread import RUN_BYTES, Spread

__all__ = ["Flushing"]

_HELD_MAX = 1024
"""Steps of whose messages is remembered that they wait: a disk may hang, or have no space for a promise, for days, in
which the leader is answered several times a second. The oldest goes, as on a connection that breaks."""


class _Batch:
    """A promise to keep, then a piece of the log; either may be missing.

    It outlives a disk without space and a process without a descriptor to open the promise's file with, because votes
    must go on.
    """

    __slots__ = ("_file", "piece", "promise")

    def __init__(self, file: ReplicaFile, promise: Promise | None, piece: WriteBatch | None) -> None:
        self._file = file
        self.promise = promise
        self.piece = piece

    def write_and_flush(self) -> None:
        if self.promise is not None:
            try:
                self._file.keep(self.promise)
            except StoreFull as error:
                raise NotYet from error
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR:
                    raise
                raise NotYet from error
        if self.piece is not None:
            self.piece.write_and_flush()

    def write_if_brief(self) -> bool:
        """The same in the loop's thread, for a small piece alone; False: nothing was done."""
        return self.promise is None and self.piece is not None and self.piece.write_if_brief()

    def note(self) -> None:
        """See WriteBatch.note; of what was written here."""
        if self.piece is not None:
            self.piece.note()


@dataclass(slots=True)
class _Tokens:
    """The highest token that the log was asked for, gave back, and that was told; `promise` is that of a promise
    which is not kept yet."""

    noted: int = 0
    reached: int = 0
    told: int = 0
    promise: int | None = None


class Flushing:
    """Owns the writer thread. Loop thread only.

    Invariants: (1) a held message leaves after a flush that covers its token, and `on_flushed` hears of a token after
    everything that was changed when it was wanted is durable, the promise included; (2) after a failure or `end`
    nothing is sent, and `on_flushed` is not called again.
    """

    def __init__(
        self, log: ReplicaStore, file: ReplicaFile, *, hold: Callable[[], bool], send: Callable[[Envelope], bool],
        on_flushed: Callable[[int], None], on_failure: Callable[[BaseException], None],
    ) -> None:  # fmt: skip
        """`hold`: whether what was appended behind a batch is not to follow it at once; `submit` is called then."""
        self._log = log
        self._file = file
        self._hold = hold
        self._send = send
        self._on_flushed = on_flushed
        self._on_failure = on_failure
        self._writer: Writer[_Batch] = Writer(
            asyncio.get_running_loop(), on_done=self._written, background=log.store.background_work
        )
        self.flushes = Flushes(self._writer.seconds, Spread(RUN_BYTES))
        self._promise: Promise | None = None
        self._tokens = _Tokens()
        self._held: deque[tuple[int, tuple[Envelope, ...]]] = deque(maxlen=_HELD_MAX)
        self._stopped = False

    @property
    def failure(self) -> BaseException | None:
        """Why nothing is written any more."""
        return self._writer.failure

    @property
    def busy(self) -> bool:
        """Whether something of the log is being written, or waits for that."""
        return self._writer.busy or self._log.untaken

    @property
    def promises(self) -> bool:
        """Whether a promise is to be kept."""
        return self._promise is not None

    def start(self) -> None:
        """Begin to take batches."""
        self._writer.start()

    def want(self, output: Output) -> None:
        """Have every change so far flushed, and what is held sent then. Nothing begins before `submit`."""
        token = output.flush
        if token is None:
            return
        if output.keep is not None:
            self._promise = output.keep
            self._tokens.promise = token if self._tokens.promise is None else self._tokens.promise
        if token > self._tokens.noted:
            self._tokens.noted = token
            if self._log.note(token):
                self._tokens.reached = token
        if output.held:
            self._held.append((token, output.held))

    def submit(self, *, here: bool = False) -> None:
        """Hand over what is wanted, unless a batch is on its way: it comes back here.

        `here`: what is small is written and flushed before this returns, if the disk is quick; the loop waits for it.
        """
        if self._stopped or self._writer.busy or self._writer.failure is not None:
            return
        promise, self._promise = self._promise, None
        piece = self._log.take_batch()
        if promise is not None or piece is not None:
            batch = _Batch(self._file, promise, piece)
            self._writer.submit(batch, here=batch.write_if_brief if here else None, behind=batch.note)
        if self._writer.failure is None:  # what was written here may have failed
            self._tell()

    def end(self) -> None:
        """Send nothing more, and take no more batches."""
        self._stopped = True

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
        if self._promise is None:
            self._tokens.promise = None
        if batch.piece is not None:
            token = self._log.flushed(batch.piece)
            self._tokens.reached = token or self._tokens.reached
        self._tell()
        if batch.piece is not None:  # behind what somebody waits for
            self.flushes.bytes.observe(batch.piece.end - batch.piece.start)
        more = self._log.untaken or self._tokens.reached > self._tokens.told
        if self._promise is not None or (more and not self._hold()):
            self.submit()

    def _tell(self) -> None:
        """Send what is held for what is durable by now, and say so."""
        token = self._tokens.reached
        if self._tokens.promise is not None:
            token = min(token, self._tokens.promise - 1)
        if token <= self._tokens.told:
            return
        self._tokens.told = token
        while self._held and self._held[0][0] <= token:
            for envelope in self._held.popleft()[1]:
                self._send(envelope)
        self._on_flushed(token)
