"""One report on its way to one controller."""

import os
import selectors
import socket
from collections.abc import Callable

from logherd_guardian.frames import ANSWER_BYTES_MAX, Answer, decode_answer, encode_report
from logherd_guardian.options import Address
from logherd_guardian.reporter import Ask
from logherd_guardian.spare import dialled

__all__ = ["INQUIRY_MS", "Inquiry"]

INQUIRY_MS = 1_000
"""How long a controller may take; a decision of the quorum is some flushes away."""


class Inquiry:
    """Connects, sends, waits for the answer; closed when `done(inquiry, answer or None)` is called."""

    def __init__(
        self, selector: selectors.BaseSelector, ask: Ask, address: Address, now: int,
        done: "Callable[[Inquiry, Answer | None], None]",
    ) -> None:  # fmt: skip
        """Raises: OSError if it cannot even begin."""
        self.ask = ask
        self.address = address
        self.since = now
        self._selector = selector
        self._done = done
        self._unsent = encode_report(ask.exit)
        self._heard = b""
        self._socket = dialled(address)
        selector.register(self._socket, selectors.EVENT_WRITE, self._ready)

    def close(self) -> None:
        self._selector.unregister(self._socket)
        self._socket.close()

    def _ready(self, mask: int) -> None:
        answer = None
        try:
            if mask & selectors.EVENT_WRITE:
                self._send()
                return
            answer = self._listen()
            if answer is None:
                return
        except BlockingIOError:
            return
        except (OSError, ValueError):
            pass
        self.close()
        self._done(self, answer)

    def _send(self) -> None:
        number = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            raise OSError(number, os.strerror(number))
        self._unsent = self._unsent[self._socket.send(self._unsent) :]
        if not self._unsent:
            self._selector.modify(self._socket, selectors.EVENT_READ, self._ready)

    def _listen(self) -> Answer | None:
        data = self._socket.recv(4096)
        self._heard += data
        if not data or len(self._heard) > ANSWER_BYTES_MAX + 4:
            raise ValueError("no answer came")
        return decode_answer(self._heard)
