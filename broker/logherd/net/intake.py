"""Requests on their way in: what is with the handlers, what waits for its turn, and what all connections hold together.

Pure bookkeeping, no socket: the session asks what to deliver and reports what was answered.
"""

from collections import deque

from logherd.kit.errors import InvariantError, ensure
from logherd.net.limits import FlowLimits
from logherd.wire.frame import Flag, Frame

__all__ = ["HEADER_SIZE", "SLICE_FRAMES_MAX", "Budget", "Intake", "exact_size"]

SLICE_FRAMES_MAX = 32
"""Requests given to the handlers before the answers' size is looked at again: 32 pull answers of 256 KiB are 8 MiB."""

HEADER_SIZE = 1024
"""What an ordinary decoded header counts for, in bytes."""

FIELD_SIZE = 128


class Budget:
    """Bytes that all connections together keep in memory: requests, half frames, unsent answers.

    `held` is the application's own brake (a store that cannot follow); both stop reading everywhere.
    """

    __slots__ = ("bytes_max", "held", "used")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self.held = False

    @property
    def full(self) -> bool:
        """Whether the memory is used up."""
        return self.used >= self.bytes_max

    @property
    def exhausted(self) -> bool:
        """Whether nobody may be read now."""
        return self.held or self.used >= self.bytes_max


class Intake:
    """The unanswered requests of one connection.

    Invariants: 1. `running` and the parked ones hold each delivered, unanswered request once; oneway requests are in
    neither. 2. `size` is the bytes of those requests and of the backlog, and all of it is counted in the budget.
    3. Requests are delivered in the order of their arrival.

    A request counts as its body and HEADER_SIZE. Where headers are larger than that, `queue` is told the exact size and
    it is kept for that request: the ordinary one must not pay for it.
    """

    __slots__ = ("_budget", "_exact", "_limits", "_parked", "backlog", "running", "size")

    def __init__(self, limits: FlowLimits, budget: Budget) -> None:
        self._limits = limits
        self._budget = budget
        self._parked: dict[int, Frame] = {}  # by identity; the value keeps the identity taken
        self._exact: dict[int, int] = {}
        self.backlog: deque[Frame] = deque()
        self.running = 0
        self.size = 0

    @property
    def parked(self) -> int:
        """Number of requests that their handlers keep for later."""
        return len(self._parked)

    @property
    def blocked(self) -> bool:
        """Whether the connection itself has as much in flight as it may have."""
        limits = self._limits
        return (
            self.running >= limits.running_max
            or len(self._parked) >= limits.parked_max
            or self.size >= limits.request_bytes_max
        )

    def widen(self, limits: FlowLimits) -> None:
        """Other limits from now on."""
        self._limits = limits

    def take_all(self, frames: list[Frame], body_size: int) -> bool:
        """Count freshly received requests, none of them oneway, as delivered in one go; False if they do not fit."""
        limits = self._limits
        size = body_size + len(frames) * HEADER_SIZE
        if (
            self.backlog
            or self.running + len(frames) > limits.running_max
            or len(self._parked) >= limits.parked_max
            or self.size + size > limits.request_bytes_max
        ):
            return False
        self.running += len(frames)
        self.size += size
        self._budget.used += size
        return True

    def queue(self, frame: Frame, *, exact_size: int | None = None) -> None:
        """A received request that waits for `take_slice`."""
        size = len(frame.body) + HEADER_SIZE
        if exact_size is not None and exact_size > size:
            self._exact[id(frame)] = size = exact_size
        self.backlog.append(frame)
        self.size += size
        self._budget.used += size

    def take_slice(self) -> list[Frame]:
        """The next queued requests that may run now, at most SLICE_FRAMES_MAX; they count as delivered."""
        limits, backlog, batch = self._limits, self.backlog, list[Frame]()
        while backlog and len(batch) < SLICE_FRAMES_MAX:
            if self.running >= limits.running_max or len(self._parked) >= limits.parked_max:
                break
            frame = backlog.popleft()
            batch.append(frame)
            if frame.flag & Flag.ONEWAY:
                self._release(frame)
            else:
                self.running += 1
        return batch

    def park(self, frame: Frame) -> None:
        """A running request is kept by its handler for later."""
        if id(frame) not in self._parked:
            ensure(self.running > 0, "only a running request can be parked", frame.code)
            self.running -= 1
            self._parked[id(frame)] = frame

    def answered(self, frame: Frame) -> None:
        """A delivered request got its answer."""
        if not self._parked or self._parked.pop(id(frame), None) is None:
            if self.running == 0:
                raise InvariantError(f"a request is answered once: {frame.code}")
            self.running -= 1
        if self._exact:
            self._release(frame)
        else:  # the same without calls: this runs for every request
            size = len(frame.body) + HEADER_SIZE
            self.size -= size
            self._budget.used -= size

    def answered_all(self, frames: list[Frame]) -> None:
        """Delivered requests, each another one, got their answers."""
        if self._parked or self._exact:
            for frame in frames:
                self.answered(frame)
            return
        count = len(frames)
        if self.running < count:
            raise InvariantError(f"a request is answered once: {count} are answered, {self.running} run")
        self.running -= count
        size = count * HEADER_SIZE
        for frame in frames:
            size += len(frame.body)
        self.size -= size
        self._budget.used -= size

    def clear(self) -> None:
        """The connection is gone: forget everything. Answers that come later must not be reported.

        Who keeps a request for later may keep it on for a while; its body, which is counted no more, goes.
        """
        self._budget.used -= self.size
        for frame in self._parked.values():
            frame.body = b""
        self.size = 0
        self.running = 0
        self._parked.clear()
        self._exact.clear()
        self.backlog.clear()

    def _release(self, frame: Frame) -> None:
        exact = self._exact.pop(id(frame), 0) if self._exact else 0
        size = exact or len(frame.body) + HEADER_SIZE
        self.size -= size
        self._budget.used -= size


def exact_size(frame: Frame) -> int:
    """Characters of a request's header texts and its body, each field with a small allowance."""
    texts = sum(len(key) + len(value) + FIELD_SIZE for key, value in frame.ext.items())
    return len(frame.body) + HEADER_SIZE + texts + len(frame.remark or "")
