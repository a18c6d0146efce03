"""Clients of the registers: each writes, swaps and reads a few keys that others use at the same time.

A key lives for some forty requests, because the search of the judge grows with each; several keys are alive at once, so
that every fault falls into the life of some.
"""

import itertools
import json
import random
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from checkers.history import Outcome
from checkers.operations import Recorder

__all__ = ["KeyRing", "RegisterClient", "RegisterUser"]

_REQUESTS_OF_A_KEY = 36
_PACE_SECONDS = 0.02
Connect = Callable[[str, float], socket.socket]


class RegisterClient:
    """One connection at a time, to any member: followers answer reads too. Not thread-safe."""

    def __init__(self, connect: Connect, names: Sequence[str], recorder: Recorder, *, seconds: float = 1.0) -> None:
        self._connect = connect
        self._names = list(names)
        self._target = self._names[0]
        self._recorder = recorder
        self._seconds = seconds
        self._socket: socket.socket | None = None
        self._tail = b""

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._tail = b""

    def turn(self, hint: str | None = None) -> None:
        """Go to the member that was named, or to the next one."""
        self.close()
        after = self._names[(self._names.index(self._target) + 1) % len(self._names)]
        self._target = hint if hint in self._names and hint != self._target else after

    def ask(self, op: str, key: str, **arguments: str) -> tuple[Outcome, Mapping[str, Any]] | None:
        """One attempt; None if it could not be sent."""
        try:
            self._socket = self._socket or self._connect(self._target, self._seconds)
        except OSError:
            self.turn()
            time.sleep(_PACE_SECONDS)  # nobody listens there: the pace of tries
            return None
        self._recorder.invoke(op, key, arguments)
        try:
            answer = self._exchange(json.dumps({"op": op, "key": key, **arguments}).encode() + b"\n")
        except (OSError, ValueError):
            self._recorder.answered(Outcome.UNKNOWN)
            self.turn()
            return Outcome.UNKNOWN, {}
        if "ok" in answer:
            self._recorder.answered(Outcome.OK, answer["ok"])
            return Outcome.OK, answer["ok"]
        outcome = Outcome.FAILED if "refused" in answer else Outcome.UNKNOWN
        self._recorder.answered(outcome)
        self.turn(answer.get("leader"))
        return outcome, {}

    def _exchange(self, line: bytes) -> dict[str, Any]:
        assert self._socket is not None
        self._socket.sendall(line)
        while b"\n" not in self._tail:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionResetError("the member closed the connection")
            self._tail += data
        found, _, self._tail = self._tail.partition(b"\n")
        answer = json.loads(found)
        assert isinstance(answer, dict)
        return answer


class KeyRing:
    """Which keys are in use. Shared by all users."""

    def __init__(self, *, alive: int) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._left: dict[str, int] = {}
        self._alive = alive
        self.used: list[str] = []

    def draw(self, draw: random.Random) -> str:
        """A key for one more request."""
        with self._lock:
            while len(self._left) < self._alive:
                key = f"r{next(self._numbers)}"
                self._left[key] = _REQUESTS_OF_A_KEY
                self.used.append(key)
            key = draw.choice(list(self._left))
            self._left[key] -= 1
            if self._left[key] == 0:
                del self._left[key]
            return key


class RegisterUser(threading.Thread):
    """Asks until told to stop. What it swaps from is what it read last, which others may have changed."""

    def __init__(self, client: RegisterClient, keys: KeyRing, *, number: int) -> None:
        super().__init__(name=f"user-{number}", daemon=True)
        self._client = client
        self._keys = keys
        self._number = number
        self._draw = random.Random(number)
        self.stopping = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.error = error
            raise
        finally:
            self._client.close()

    def _work(self) -> None:
        seen: dict[str, str] = {}
        for count in itertools.count(1):
            if self.stopping.is_set():
                return
            key = self._keys.draw(self._draw)
            value = f"{self._number}-{count}"
            chance = self._draw.random()
            if chance < 0.5:
                asked = self._client.ask("read", key)
                if asked is not None and asked[0] is Outcome.OK:
                    seen[key] = asked[1]["value"]
            elif chance < 0.75:
                self._client.ask("write", key, value=value)
            else:
                self._client.ask("cas", key, **{"from": seen.get(key, ""), "to": value})
            if self._draw.random() < 0.1:
                self._client.turn()  # reads go to everybody in turn
            time.sleep(self._draw.uniform(0, 2 * _PACE_SECONDS))  # the load's pace
