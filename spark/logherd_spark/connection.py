"""One blocking connection: frames out, frames in, each wait with a deadline."""

import socket
import time

from logherd.wire.codec import FrameReader, encode_frame
from logherd.wire.errors import WireError
from logherd.wire.frame import Frame
from logherd.wire.limits import ANSWER_LIMITS

__all__ = ["Connection", "ConnectionLost"]

_READ_BYTES = 1 << 18


class ConnectionLost(Exception):
    """The peer cannot be reached, went away, or did not answer in time. Whoever asked decides whether to ask again."""


class Connection:
    """A TCP connection to one address ("host:port"). Not for several threads.

    Requests may be sent before earlier ones are answered; answers are taken in the order of the requests.
    """

    def __init__(self, address: str, *, seconds: float) -> None:
        """Connect. Blocks at most `seconds`. Raises: ConnectionLost."""
        host, _, port = address.rpartition(":")
        self.address = address
        try:
            self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout=seconds)
        except (OSError, ValueError) as error:
            raise ConnectionLost(f"{address} cannot be reached: {_why(error)}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = FrameReader(ANSWER_LIMITS)
        self._answers: dict[int, Frame] = {}
        self._opaque = 0

    def send(self, request: Frame, *, seconds: float) -> int:
        """Write one request whole; returns the number by which its answer is taken. Raises: ConnectionLost."""
        self._opaque += 1
        request.opaque = self._opaque
        try:
            self._socket.settimeout(seconds)
            self._socket.sendall(encode_frame(request))
        except OSError as error:
            self.close()
            raise ConnectionLost(f"{self.address} went away: {_why(error)}") from None
        return self._opaque

    def receive(self, opaque: int, *, seconds: float) -> Frame:
        """The answer to a request. Blocks at most `seconds`. Raises: ConnectionLost; the connection is closed then."""
        deadline = time.monotonic() + seconds
        while opaque not in self._answers:
            try:
                # At least a moment: 0 would mean not to wait at all, which is another kind of error.
                self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
                data = self._socket.recv(_READ_BYTES)
                frames = self._reader.feed(data) if data else None
            except TimeoutError:
                self.close()
                raise ConnectionLost(f"{self.address} did not answer within {seconds:.1f} s") from None
            except (OSError, WireError) as error:
                self.close()
                raise ConnectionLost(f"{self.address} went away: {_why(error)}") from None
            if frames is None:
                self.close()
                raise ConnectionLost(f"{self.address} closed the connection")
            self._answers.update((frame.opaque, frame) for frame in frames if frame.is_response)
        return self._answers.pop(opaque)

    def ask(self, request: Frame, *, seconds: float) -> Frame:
        """Send and receive. Raises: ConnectionLost."""
        return self.receive(self.send(request, seconds=seconds), seconds=seconds)

    def close(self) -> None:
        self._socket.close()


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
