"""A TCP proxy on loopback that notes every frame of the remoting protocol in both directions.

A name server's answers name the broker's port; the proxy puts its own in their place (of the same length), so that a
client that asks through the proxy also speaks to the broker through it.
"""

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from compat.remoting import read_frame

__all__ = ["Note", "Recorder", "free_alias"]


@dataclass(frozen=True, slots=True)
class Note:
    """One frame as it passed. A connection is the recorder's port and a count in the order of accepting."""

    connection: tuple[int, int]
    from_client: bool
    raw: bytes


def free_alias(port: int, free: Callable[[], int]) -> int:
    """A free port whose decimal text is as long as that of `port`."""
    while len(str(alias := free())) != len(str(port)):
        pass
    return alias


class Recorder:
    """Listens on `port`, passes everything to `target`, notes each frame in `notes`.

    `replace` is applied to whatever comes from the server; both texts must have one length.
    """

    def __init__(self, port: int, target: int, *, notes: list[Note], replace: tuple[bytes, bytes] = (b"", b"")) -> None:
        if len(replace[0]) != len(replace[1]):
            raise ValueError("a replacement of another length would break the frames")
        self.port = port
        self.target = target
        self.notes = notes
        self.replace = replace
        self._listener = socket.create_server(("127.0.0.1", port))
        self._sockets = [self._listener]
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._connections = 0
        self._start(self._accept)

    def _start(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._sockets += [client, server]
                number, self._connections = (self.port, self._connections), self._connections + 1
            self._start(self._pass, client, server, number)
            self._start(self._pass, server, client, number)

    def _pass(self, source: socket.socket, sink: socket.socket, number: tuple[int, int]) -> None:
        from_client = source.getsockname()[1] == self.port
        try:
            while True:
                raw = read_frame(source)
                if not from_client and self.replace[0]:
                    raw = raw.replace(*self.replace)
                with self._lock:
                    self.notes.append(Note(number, from_client, raw))
                sink.sendall(raw)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self) -> None:
        """Cut every connection and wait for the threads."""
        with self._lock:
            sockets = list(self._sockets)
        for each in sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in list(self._threads):
            thread.join(5)
        for each in sockets:
            each.close()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
