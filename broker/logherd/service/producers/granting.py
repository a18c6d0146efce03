"""Which run of a writer may write: epochs, expiry, and what is forgotten to make room for new names."""

from logherd.kit.clock import Clock
from logherd.service.errors import RequestError
from logherd.service.metadata import Metadata, Writer, WriterPut
from logherd.service.producers.options import WriterOptions
from logherd.wire.codes import ResponseCode
from logherd.wire.headers.producers import OpenWriterHeader

__all__ = ["Granting"]

_SWEEP_INTERVAL_MS = 60_000
_NOTED_PER_EXPIRY = 4
"""How often in the time of its expiry it is written down that a run has asked again: this bounds what asking costs."""


class Granting:
    """Opens, checks and closes writers of the metadata. Only the leader's is asked."""

    def __init__(self, metadata: Metadata, clock: Clock, options: WriterOptions) -> None:
        self._metadata = metadata
        self._now_ms = clock.now_ms
        self._options = options
        self._swept_ms = 0

    def open(self, header: OpenWriterHeader) -> int:
        """The epoch of this run: a new one, or the one that it has.

        Raises: RequestError WRITER_FENCED for a run before the newest, WRITER_UNKNOWN for an expired writer, 29 for a
        bad name, 2 when there are too many; MetadataRefusedError.
        """
        name, run, now = header.writer, header.run, self._now_ms()
        for what, value in (("writer", name), ("run", run)):
            if not value or len(value.encode()) > self._options.name_bytes_max:
                raise RequestError(
                    ResponseCode.INVALID_PARAMETER,
                    f"{what} has {len(value.encode())} bytes, 1 to {self._options.name_bytes_max} are allowed",
                )
        self._sweep(now)
        writers = self._metadata.writers
        writer = self._living(name, now)
        if writer is None:
            self._make_room()
            writers.put(WriterPut(name, 1, run, [], header.lasting, expired=False, used_ms=now))
            return 1
        if writer.run == run:
            self._note_use(name, writer, now)
            return writer.epoch
        if run in writer.earlier_runs:
            raise self._fenced(name, writer)
        earlier = [*writer.earlier_runs, writer.run][-self._options.earlier_runs_max :]
        epoch = writer.epoch + 1
        writers.put(WriterPut(name, epoch, run, earlier, writer.lasting, expired=False, used_ms=now))
        return epoch

    def check(self, name: str, epoch: int) -> Writer:
        """The writer, if this epoch is its newest.

        Raises: RequestError WRITER_FENCED for an older one, WRITER_UNKNOWN for an unknown or expired writer, 29 for an
        epoch that was never granted; MetadataRefusedError.
        """
        writer = self._living(name, self._now_ms())
        if writer is None:
            raise RequestError(
                ResponseCode.WRITER_UNKNOWN,
                f"writer {name} is not known here: it was never opened, was closed, or expired",
            )
        if epoch < writer.epoch:
            raise self._fenced(name, writer)
        if epoch > writer.epoch:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER, f"writer {name} was granted epoch {writer.epoch}, not {epoch}"
            )
        return writer

    def close(self, name: str, epoch: int) -> None:
        """Forget a writer that will not come again; a lasting one stays until it expires."""
        if self._metadata.writers.get(name) is not None and not self.check(name, epoch).lasting:
            self._metadata.writers.forget(name)

    def _living(self, name: str, now: int) -> Writer | None:
        """Raises: RequestError WRITER_UNKNOWN if it has expired."""
        writer = self._metadata.writers.get(name)
        if writer is None:
            return None
        if not writer.expired and now - writer.used_ms > self._options.expire_ms:
            self._expire(name, writer)
            if not writer.lasting:
                return None
        if writer.expired:
            raise RequestError(
                ResponseCode.WRITER_UNKNOWN,
                f"writer {name} expired: it wrote nothing for {self._options.expire_ms // 1000} s, so what it repeats "
                "cannot be recognised any more; look at what is stored, then write under another name",
            )
        return writer

    def _note_use(self, name: str, writer: Writer, now: int) -> None:
        """A run that only asks, because its rows go to other groups, is as alive as one that stores."""
        if (now - writer.used_ms) * _NOTED_PER_EXPIRY > self._options.expire_ms:
            change = WriterPut(
                name, writer.epoch, writer.run, list(writer.earlier_runs), writer.lasting, expired=False, used_ms=now
            )
            self._metadata.writers.put(change)

    def _expire(self, name: str, writer: Writer) -> None:
        if writer.lasting:
            change = WriterPut(name, writer.epoch, "", [], lasting=True, expired=True, used_ms=writer.used_ms)
            self._metadata.writers.put(change)
        else:
            self._metadata.writers.forget(name)

    def _sweep(self, now: int) -> None:
        if now - self._swept_ms < _SWEEP_INTERVAL_MS:
            return
        self._swept_ms = now
        for name, writer in self._metadata.writers:
            if not writer.expired and now - writer.used_ms > self._options.expire_ms:
                self._expire(name, writer)

    def _make_room(self) -> None:
        writers = self._metadata.writers
        if len(writers) < self._options.writers_max:
            return
        expired = [(writer.used_ms, name) for name, writer in writers if writer.expired]
        if not expired:
            raise RequestError(
                ResponseCode.SYSTEM_BUSY, f"{len(writers)} writers are known and none has expired; no more are taken"
            )
        writers.forget(min(expired)[1])

    @staticmethod
    def _fenced(name: str, writer: Writer) -> RequestError:
        return RequestError(
            ResponseCode.WRITER_FENCED,
            f"writer {name} was opened by a newer run (epoch {writer.epoch}); this older one may not write any more",
        )
