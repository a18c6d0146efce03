"""The connection to the leader: made, kept, measured and made again.

One at a time is wanted; an older one may still be open until the forwarder gives it up. A connection counts as a link
only when the leader has agreed to take requests for the epoch that it is wanted for.
"""

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from logherd.aiokit.tasks import TaskGuard
from logherd.kit.clock import Clock
from logherd.net.connection import Connection, Outcome, connect
from logherd.net.errors import ConnectionLost, NetError
from logherd.service.forwarding.roles import Following
from logherd.service.identity import BrokerIdentity
from logherd.telemetry.log import Log
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.errors import HeaderError
from logherd.wire.frame import Frame
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.headers.forwarding import ForwardingClock, ForwardingOpenHeader, ForwardingRefusal, Refused

__all__ = ["LeaderLinks", "LinkEvents"]

CONNECT_SECONDS: Final = 1.0
BEAT_SECONDS: Final = 1.0
SILENT_SECONDS: Final = 3.0
"""As long as a lease: a leader that says nothing for so long leads no more, or cannot be reached."""
RETRY_SECONDS: Final = (0.02, 0.5)
UNSENT_BYTES_MAX: Final = 128 * 1024 * 1024
"""More than all requests that are away at once (`ForwarderLimits`). What lies beyond wants no answer and is counted by
nobody: offset commits, for a leader that takes them slower than clients send them, or not at all."""
_DRIFT_PARTS: Final = 1000

_log = Log("logherd.app.forwarding")


class LinkEvents(Protocol):
    """Who hears of links. All calls come on the loop thread."""

    def link_opened(self, number: int, epoch: int, ahead_ms: int) -> None:
        """The leader takes requests. Its clock is at least `ahead_ms` ahead of ours."""

    def link_clock(self, number: int, ahead_ms: int) -> None:
        """The leader's clock was read again."""

    def link_lost(self, number: int) -> None:
        """The link is gone; comes before the outcomes of the requests on it, and may come again."""

    def link_asks(self, connection: Connection, frame: Frame) -> None:
        """The leader's request to a client of ours."""

    def link_refused(self, hint: Following) -> None:
        """A broker that was asked does not lead, and says who does."""


class _Link:
    """An open link. `ahead_ms` was measured at `measured_ms`. `unheard`: it was not read for a while since it was last
    asked whether it still answers. `heard_ms`: when it last answered anything else. `pause`: how long to wait in
    seconds before the next one if this one is lost; none once it has answered that."""

    __slots__ = ("ahead_ms", "connection", "epoch", "heard_ms", "measured_ms", "number", "pause", "unheard")

    def __init__(self, number: int, epoch: int, connection: Connection, *, pause: float) -> None:
        self.number = number
        self.epoch = epoch
        self.connection = connection
        self.pause = pause
        self.ahead_ms = 0
        self.measured_ms = 0
        self.heard_ms = 0
        self.unheard = False

    def measure(self, clock_ms: int, now_ms: int, *, first: bool = False) -> None:
        """The leader's clock said `clock_ms` at some time before `now_ms`, so it is at least this much ahead of ours.

        The best of all readings counts, less what the two clocks may have drifted apart since.
        """
        kept = self.ahead_ms - (now_ms - self.measured_ms) // _DRIFT_PARTS - 1
        self.ahead_ms = clock_ms - now_ms if first else max(clock_ms - now_ms, kept)
        self.measured_ms = now_ms


class LeaderLinks:
    """Keeps a link to whoever is to be followed. Tasks run in the guard that is given."""

    def __init__(
        self, identity: BrokerIdentity, instance: str, *, clock: Clock, guard: TaskGuard, events: LinkEvents
    ) -> None:
        self._identity = identity
        self._instance = instance
        self._clock = clock
        self._guard = guard
        self._events = events
        self._links: dict[int, _Link] = {}
        self._goal: Following | None = None
        self._pursuit: asyncio.Task[None] | None = None
        self._last_number = 0
        self._refusal = ""
        self._held = False
        self._stopped = False

    def __len__(self) -> int:
        """Number of open links."""
        return len(self._links)

    def follow(self, leader: Following, have: int = 0) -> None:
        """Have a link to this leader, `have` if that is open, and keep trying until another leader is named."""
        self.rest()
        if self._stopped:
            return
        self._goal = leader
        if have not in self._links:
            self._begin(leader)

    def rest(self) -> None:
        """Make no new link. Open ones stay until they are closed or lost."""
        self._goal = None
        if self._pursuit is not None:
            self._pursuit.cancel()
            self._pursuit = None

    def start(self, number: int, frame: Frame, on_outcome: Callable[[Outcome], None], *, seconds: float) -> None:
        """Send a request. A link that is gone gives ConnectionLost, not written. Raises: FrameError."""
        link = self._links.get(number)
        if link is None:
            lost = ConnectionLost("the leader", written=False, reason="the link is gone")
            asyncio.get_running_loop().call_soon(on_outcome, lost)
            return

        def heard(outcome: Outcome) -> None:
            if isinstance(outcome, Frame):
                link.heard_ms = self._clock.monotonic_ms()
            on_outcome(outcome)

        link.connection.start(frame, heard, seconds=seconds)

    def tell(self, number: int, frame: Frame) -> None:
        """Send a oneway request; dropped if the link is gone."""
        link = self._links.get(number)
        if link is not None and not link.connection.closed:
            link.connection.oneway(frame)

    def offer(self, number: int, frame: Frame) -> None:
        """As `tell`, of what its sender repeats; dropped, too, while UNSENT_BYTES_MAX are unsent on the link."""
        link = self._links.get(number)
        if link is not None and link.connection.unsent < UNSENT_BYTES_MAX:
            self.tell(number, frame)

    def tell_all(self, frames: Iterable[Frame]) -> None:
        """Send oneway requests on every link."""
        for frame in frames:
            for number in self._links:
                self.tell(number, Frame(frame.code, 0, ext=frame.ext, body=frame.body))

    def close(self, number: int) -> None:
        """Close a link at once; the requests on it have been given up."""
        link = self._links.get(number)
        if link is not None:
            link.connection.abort()

    def hold_reading(self, *, held: bool) -> None:
        """Read no answers while `held`: the clients do not take those that came."""
        self._held = held
        for link in self._links.values():
            link.connection.hold_reading(held=held)
            link.unheard |= held

    def stop(self) -> None:
        """Close everything, and make no link any more."""
        self._stopped = True
        self.rest()
        for number in list(self._links):
            self.close(number)

    # ---- inside

    def _begin(self, leader: Following, pause: float = 0) -> None:
        """Try to open a link, after a pause in seconds."""
        work = self._pursue(leader, pause)
        self._pursuit = self._guard.start(f"link to leader {leader.address}", work, eternal=False)

    async def _pursue(self, leader: Following, pause: float) -> None:
        shortest, longest = RETRY_SECONDS
        linked = False
        while not linked:
            if pause:
                await asyncio.sleep(pause * random.uniform(0.7, 1.3))  # noqa: S311 - spreads out those who try
            pause = min(max(pause * 2, shortest), longest)
            linked = await self._try(leader, pause)

    async def _try(self, leader: Following, pause: float) -> bool:
        host, _, port = leader.address.rpartition(":")
        header = ForwardingOpenHeader(
            cluster=self._identity.cluster, group=self._identity.name, epoch=leader.epoch,
            broker_id=self._identity.broker_id, instance=self._instance,
        )  # fmt: skip
        connection: Connection | None = None
        linked = False
        try:
            connection = await connect(
                host.strip("[]"), int(port), seconds=CONNECT_SECONDS, on_request=self._events.link_asks,
                on_lost=self._lost,
            )  # fmt: skip
            answer = await connection.call(
                Frame(RequestCode.FORWARDING_OPEN, 0, ext=encode_header(header)), seconds=CONNECT_SECONDS
            )
            linked = self._opened(leader, connection, answer, pause=pause)
        except (NetError, HeaderError, ValueError) as error:
            self._report(leader, str(error))
        finally:
            if connection is not None and not linked:
                connection.abort()
        return linked

    def _opened(self, leader: Following, connection: Connection, answer: Frame, *, pause: float) -> bool:
        if answer.code != ResponseCode.SUCCESS:
            self._refused(leader, answer)
            return False
        now_ms = self._clock.monotonic_ms()
        self._last_number += 1
        link = _Link(self._last_number, leader.epoch, connection, pause=pause)
        link.measure(decode_header(ForwardingClock, answer.ext).clock_ms, now_ms, first=True)
        if connection.closed:
            return False
        self._links[link.number] = link
        self._refusal = ""
        self._pursuit = None
        _log.info("requests go to the leader", leader=leader.address, epoch=leader.epoch)
        self._beat_later(link)
        self._events.link_opened(link.number, link.epoch, link.ahead_ms)
        return True

    def _refused(self, leader: Following, answer: Frame) -> None:
        """Behind an address of `leader` there may be anybody by now. Who leads another group is nothing to us, and
        what is no news must not take the place of a pause."""
        typed = answer.code == ResponseCode.FORWARDING_REFUSED
        refusal = decode_header(ForwardingRefusal, answer.ext) if typed else None
        elsewhere = refusal is not None and refusal.reason == Refused.NOT_LEADER
        self._report(leader, answer.remark or f"code {answer.code}", expected=elsewhere)
        if elsewhere and refusal is not None and refusal.leader and refusal.epoch > leader.epoch:
            self._events.link_refused(Following(refusal.leader, refusal.epoch))

    def _report(self, leader: Following, why: str, *, expected: bool = False) -> None:
        """Once, not at each of many attempts. That whoever is at the address does not lead belongs to each change of
        leader: the elected one has no barrier yet, or the guardian of a dead one leads to another."""
        if why != self._refusal:
            self._refusal = why
            tell = _log.info if expected else _log.warning
            tell("no requests go to the leader yet", leader=leader.address, epoch=leader.epoch, reason=why)

    def _lost(self, connection: Connection) -> None:
        for link in list(self._links.values()):
            if link.connection is connection:
                del self._links[link.number]
                self._events.link_lost(link.number)
                goal = self._goal
                # The leader ends an older link of ours when a newer one stands. To replace it would end that one.
                replaced = any(each.epoch == link.epoch and each.number > link.number for each in self._links.values())
                if goal is not None and goal.epoch == link.epoch and self._pursuit is None and not replaced:
                    self._begin(goal, link.pause)

    # ---- the leader's clock, and whether it still answers

    def _beat_later(self, link: _Link) -> None:
        asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat, link)

    def _beat(self, link: _Link, seconds: float | None = None) -> None:
        """Ask for the clock. The answer may come late: it stands behind all others, which may be megabytes."""

        def on_outcome(outcome: Outcome) -> None:
            left = SILENT_SECONDS - (self._clock.monotonic_ms() - link.heard_ms) / 1000
            if isinstance(outcome, Frame):
                self._heard(link, outcome)
                self._beat_later(link)
            elif link.unheard:
                self._beat_later(link)
            elif left > 0:
                self._beat(link, left)
            elif not link.connection.closed:
                _log.warning("the leader is silent", leader=link.connection.peer, seconds=SILENT_SECONDS)
                link.connection.abort()

        if link.number in self._links and not link.connection.closed:
            link.unheard = self._held
            link.connection.start(Frame(RequestCode.FORWARDING_CLOCK, 0), on_outcome, seconds=seconds or SILENT_SECONDS)

    def _heard(self, link: _Link, answer: Frame) -> None:
        link.pause = 0
        try:
            clock_ms = decode_header(ForwardingClock, answer.ext).clock_ms
        except HeaderError:
            return
        link.measure(clock_ms, self._clock.monotonic_ms())
        self._events.link_clock(link.number, link.ahead_ms)
