"""Consumer offsets of a group as registers: each is written and read by several clients, through any of the brokers.

A commit that a broker refuses as not taken has failed; one without an answer, or whose answer says so, is unknown.
"""

import itertools
import random
import threading
from collections.abc import Sequence
from pathlib import Path

from checkers.history import Outcome
from checkers.operations import Operation, Recorder, read_operations
from logherd.wire.codes import RequestCode, ResponseCode
from system.blocking import BlockingClient, NoAnswerError
from system.group_load import QUEUES, TOPIC, GroupClient
from system.netns import Network

__all__ = ["OFFSETS_MIN", "OffsetLoad"]

_REQUESTS_OF_A_KEY = 36
_ALIVE = 6
_PACE_SECONDS = 0.05
OFFSETS_MIN = _REQUESTS_OF_A_KEY
"""Each queue must have so many messages before this begins: offsets beyond the end of a queue are refused."""

_NOT_TAKEN = frozenset({int(ResponseCode.SERVICE_NOT_AVAILABLE)})


class _Keys:
    """Which registers are in use, and the next value of each: no value is written twice. Shared by all users."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._uses: dict[str, int] = {}
        self.used: list[str] = []

    def draw(self, draw: random.Random) -> tuple[str, int]:
        """A register for one more request, and a value that is new to it."""
        with self._lock:
            while len(self._uses) < _ALIVE:
                key = f"g{next(self._numbers)}"
                self._uses[key] = 0
                self.used.append(key)
            key = draw.choice(list(self._uses))
            self._uses[key] += 1
            value = self._uses[key]
            if value == _REQUESTS_OF_A_KEY:
                del self._uses[key]
            return key, value


class _User(threading.Thread):
    def __init__(self, network: Network, recorder: Recorder, keys: _Keys, number: int) -> None:
        super().__init__(name=f"offsets-{number}", daemon=True)
        self.draw = random.Random(f"offsets {number}")
        self.client = GroupClient(network, self.draw)
        self.recorder = recorder
        self._keys = keys
        self._known: set[str] = set()
        self.stopping = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                key, value = self._keys.draw(self.draw)
                while not self.stopping.is_set() and not self.prepared(key):
                    self.stopping.wait(_PACE_SECONDS)
                if self.stopping.is_set():
                    return
                self.ask(key, value if self.draw.random() < 0.5 else None)
                self.stopping.wait(self.draw.uniform(0, 2 * _PACE_SECONDS))  # the load's pace
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.client.close()

    def prepared(self, key: str) -> bool:
        """A consumer group is made by its first pull."""
        if key in self._known:
            return True
        try:
            client = self.client.connection()
            first = client.offset(RequestCode.GET_MIN_OFFSET, TOPIC, _queue(key))
            made = bool(client.pull(TOPIC, _queue(key), first, group=key))
        except OSError:
            return False
        except NoAnswerError:
            made = False
        if made:
            self._known.add(key)
        else:
            self.client.turn()
        return made

    def ask(self, key: str, value: int | None) -> Outcome | None:
        """Write, or read without a value; None if it could not be sent."""
        try:
            connection = self.client.connection()
        except OSError:
            return None
        name, arguments = ("read", {}) if value is None else ("write", {"value": str(value)})
        self.recorder.invoke(name, key, arguments)
        outcome, answer = _exchange(connection, key, value)
        self.recorder.answered(outcome, answer)
        if outcome is not Outcome.OK or self.draw.random() < 0.05:
            self.client.turn()
        return outcome


def _queue(key: str) -> int:
    return int(key[1:]) % QUEUES


def _exchange(client: BlockingClient, key: str, value: int | None) -> tuple[Outcome, dict[str, str]]:
    ext = {"consumerGroup": key, "topic": TOPIC, "queueId": str(_queue(key))}
    try:
        if value is None:
            answer = client.ask(RequestCode.QUERY_CONSUMER_OFFSET, ext | {"setZeroIfNotFound": "false"})
        else:
            answer = client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext | {"commitOffset": str(value)})
    except NoAnswerError:
        return Outcome.UNKNOWN, {}
    if answer.code == ResponseCode.SUCCESS:
        return Outcome.OK, {"value": answer.ext["offset"]} if value is None else {}
    if value is None and answer.code == ResponseCode.QUERY_NOT_FOUND:
        return Outcome.OK, {"value": ""}
    return (Outcome.FAILED if answer.code in _NOT_TAKEN else Outcome.UNKNOWN), {}


class OffsetLoad:
    """Users of the registers. Use as a context manager: on leaving, all of them have stopped."""

    def __init__(self, network: Network, directory: Path, *, users: int = 4) -> None:
        self._network = network
        self._directory = directory
        self._keys = _Keys()
        self._recorders: list[Recorder] = []
        self._users = [_User(network, self._recorder(), self._keys, number) for number in range(users)]

    def _recorder(self) -> Recorder:
        number = len(self._recorders) + 1
        self._recorders.append(Recorder(self._directory / f"offsets-{number}.jsonl", number))
        return self._recorders[-1]

    @property
    def keys(self) -> Sequence[str]:
        return self._keys.used

    def __enter__(self) -> "OffsetLoad":
        for user in self._users:
            user.start()
        return self

    def __exit__(self, *_: object) -> None:
        for user in self._users:
            user.stopping.set()
        for user in self._users:
            user.join(30)
            user.recorder.close()
        for user in self._users:
            if user.error is not None:
                raise user.error

    def drain(self, *, seconds: float = 120.0) -> None:
        """Read every register once more, until it is answered."""
        user = _User(self._network, self._recorder(), self._keys, len(self._users))
        over = threading.Timer(seconds, user.stopping.set)
        over.start()
        try:
            for key in self._keys.used:
                while not user.stopping.is_set() and user.ask(key, None) is not Outcome.OK:
                    user.stopping.wait(_PACE_SECONDS)
            assert not user.stopping.is_set(), f"not all of {len(self._keys.used)} registers were read"
        finally:
            over.cancel()
            user.client.close()
            user.recorder.close()

    def history(self) -> list[Operation]:
        """What all clients have recorded; they must have stopped."""
        return read_operations(recorder.path for recorder in self._recorders)
