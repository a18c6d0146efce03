"""The forwarder: what a broker does with clients' requests while it does not lead. Pure; see the class."""

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush

from logherd.service.forwarding.effects import Answer, CloseLink, Effect, Execute, Follow, Relay, Transmit
from logherd.service.forwarding.errand import HEADER_BYTES, Caller, Errand
from logherd.service.forwarding.handling import Kind
from logherd.service.forwarding.replies import commit_refused, expired, overloaded, unknown
from logherd.service.forwarding.roles import Following
from logherd.service.ports import Reply, Session
from logherd.service.requests import LEAVING
from logherd.wire.codes import ResponseCode
from logherd.wire.errors import HeaderError
from logherd.wire.frame import Frame
from logherd.wire.headers import decode_header
from logherd.wire.headers.forwarding import ForwardingRefusal, Refused

__all__ = ["Forwarder", "ForwarderLimits"]

_MIB = 1024 * 1024
_HERE = -1
"""The number of the leader that is this broker itself."""


@dataclass(frozen=True, slots=True)
class ForwarderLimits:
    """Bounds of what is held and of what is on its way. A request counts as its body and its header, 1 KiB at least.

    Beyond the first three a request is refused; beyond the next two it is held. These two, the second of what waits at
    the leader or for a client, together stay below what a leader takes on one link (`app/forwarding/reception`): it
    reads no further then, and would be given up as silent. After a change of leader the old one
    has `settle_ms` to say what became of requests that it has.
    """

    held_max: int = 50_000
    held_bytes_max: int = 128 * _MIB
    caller_bytes_max: int = 32 * _MIB
    away_bytes_max: int = 64 * _MIB
    pull_bytes_max: int = 50_000 * HEADER_BYTES
    settle_ms: int = 500


class _Link:
    """A connection on which a leader has agreed to take requests."""

    __slots__ = ("ahead_ms", "closes_ms", "epoch", "number", "open", "spent")

    def __init__(self, number: int, epoch: int, ahead_ms: int) -> None:
        self.number = number
        self.epoch = epoch
        self.ahead_ms = ahead_ms
        self.closes_ms: int | None = None
        self.spent = False  # lost or refused: nothing more goes to it
        self.open: dict[int, Errand] = {}


class _Load:
    """Bytes of what is held and of what is away."""

    __slots__ = ("away_bytes", "held_bytes", "pull_bytes")

    def __init__(self) -> None:
        self.held_bytes = 0
        self.away_bytes = 0
        self.pull_bytes = 0


class Forwarder:
    """Takes requests in the order of arrival and sees each to exactly one end.

    1. Each request that wants an answer gets exactly one, unless its client is gone.
    2. A request is sent again only after the leader's typed refusal, which proves that nothing was done, or when no
       byte of it was written, or if it is one that changes nothing. Otherwise its client hears "unknown" (H10).
    3. Requests of one connection reach leaders in the order of arrival. What waits for another client's answer or for
       messages does not hold up what comes after it.
    4. An offset commit is sent at once and once, or refused (H11).
    5. Nothing waits here longer than its handling says, and nothing beyond the limits is held.

    Every method returns what is to be done now. Times are ms on this process' monotonic clock.
    """

    def __init__(self, limits: ForwarderLimits | None = None) -> None:
        self._limits = limits or ForwarderLimits()
        self._callers: dict[int, Caller] = {}
        self._waiting: dict[int, Caller] = {}
        self._blocked: dict[bool, deque[Caller]] = {True: deque(), False: deque()}
        """Who waits for the room of what is ordered, and of what is not: an answer frees one of the two, and who waits
        for the other is not looked at. Where `blocked` of a caller is not the same, the entry is out of date."""
        self._links: dict[int, _Link] = {}
        self._target: _Link | None = None
        self._wanted: Following | None = None
        self._held: dict[int, Errand] = {}
        self._due: list[tuple[int, int]] = []
        """When the time of each that is held is over, with its number; and of some that are held no more."""
        self._load = _Load()
        self._last_number = 0
        self._leaving = False

    # ---- what can be asked

    @property
    def idle(self) -> bool:
        """Whether nothing is held and nothing is away."""
        return not self._waiting and not any(link.open for link in self._links.values())

    @property
    def held(self) -> int:
        """Number of requests that wait here."""
        return len(self._held)

    @property
    def taken(self) -> int:
        """Number of requests since the start."""
        return self._last_number

    @property
    def held_bytes(self) -> int:
        return self._load.held_bytes

    @property
    def wanted(self) -> Following | None:
        """The leader to which links are wanted."""
        return self._wanted

    def due_ms(self) -> int | None:
        """When `tick` has something to do next; None for not before something else happens."""
        while self._due and self._due[0][1] not in self._held:
            heappop(self._due)
        times = [link.closes_ms for link in self._links.values() if link.closes_ms is not None]
        if self._due:
            times.append(self._due[0][0])
        return min(times, default=None)

    # ---- clients

    def take(self, session: Session, frame: Frame, *, now_ms: int) -> list[Effect]:
        """A client's request whose route is FORWARD or BOTH."""
        caller = self._callers.get(session.id)
        if caller is None:
            caller = self._callers[session.id] = Caller(session)
        self._last_number += 1
        errand = Errand(self._last_number, caller, frame, now_ms=now_ms)
        if self._leaving and errand.handling.kind is Kind.PULL:
            return _answer(errand, LEAVING)
        target = self._target
        if target is not None and not caller.waiting and caller.free_for(target.number) and self._room(errand):
            return [self._dispatch(errand, target)]
        if errand.handling.kind is Kind.COMMIT:
            return _answer(errand, commit_refused())
        load, limits = self._load, self._limits
        if (
            self.held >= limits.held_max or load.held_bytes + errand.size > limits.held_bytes_max
            or caller.bytes_waiting + errand.size > limits.caller_bytes_max
        ):  # fmt: skip
            return _answer(errand, overloaded(self.held, load.held_bytes))
        self._hold(errand)
        if target is not None and len(caller.waiting) == 1 and caller.free_for(target.number):
            self._block(errand)
        return []

    def closed(self, session_id: int) -> None:
        """A client's connection is gone: what waits for it is dropped, and nothing was done of that."""
        caller = self._callers.pop(session_id, None)
        if caller is not None:
            caller.gone = True
            for errand in caller.waiting:
                self._release(errand)
            caller.waiting.clear()
            caller.bytes_waiting = 0
            self._waiting.pop(session_id, None)

    def leave(self, *, now_ms: int) -> list[Effect]:
        """This broker stops: who waits for messages is told to pull again, and so is who pulls from now on."""
        self._leaving = True
        effects: list[Effect] = []
        held = [each for each in self._held.values() if each.handling.kind is Kind.PULL]
        for errand in held:
            errand.caller.drop(errand)
            self._release(errand)
            effects += _answer(errand, LEAVING)
        for caller in {errand.caller: None for errand in held}:
            effects += self._flush(caller, now_ms)
        for link in list(self._links.values()):
            for errand in [each for each in link.open.values() if each.handling.kind is Kind.PULL]:
                self._settle(link.number, errand.number)
                effects += [*_answer(errand, LEAVING), *self._go_on(errand.caller, now_ms)]
        return effects

    # ---- leaders

    def follow(self, leader: Following, *, now_ms: int) -> list[Effect]:
        """Another broker leads. A lower epoch than the one that is followed is old news."""
        wanted, target = self._wanted, self._target
        if wanted is not None and leader.epoch < wanted.epoch:
            return []
        self._wanted = leader
        self._links.pop(_HERE, None)
        if target is not None and target.number != _HERE and target.epoch == leader.epoch:
            return [] if leader == wanted else [Follow(leader.address, leader.epoch)]
        self._target = None
        for link in self._links.values():
            if link.epoch == leader.epoch and not link.spent:
                return [Follow(leader.address, leader.epoch, link.number), *self._aim(link, now_ms)]
        self._retire_others(None, now_ms)
        return [Follow(leader.address, leader.epoch)]

    def wait(self) -> None:
        """No leader is known. What is away may still be answered."""
        self._wanted = None
        self._target = None
        self._links.pop(_HERE, None)

    def lead(self, epoch: int, *, now_ms: int) -> list[Effect]:
        """This broker leads and can carry out requests."""
        self._wanted = None
        here = self._links[_HERE] = _Link(_HERE, epoch, 0)
        return self._aim(here, now_ms)

    # ---- links

    def linked(self, number: int, *, epoch: int, ahead_ms: int, now_ms: int) -> list[Effect]:
        """The leader of `epoch` takes requests on a new link; its clock is at least `ahead_ms` ahead of ours."""
        link = self._links[number] = _Link(number, epoch, ahead_ms)
        if self._wanted is None or self._wanted.epoch != epoch:
            link.closes_ms = now_ms
            return []
        return self._aim(link, now_ms)

    def clock(self, number: int, ahead_ms: int) -> None:
        """The leader's clock was read again."""
        link = self._links.get(number)
        if link is not None:
            link.ahead_ms = ahead_ms

    def lost(self, number: int) -> None:
        """The link is gone or will not be used any more; each request on it still gets its outcome reported."""
        link = self._links.get(number)
        if link is None:
            return
        if self._target is link:
            self._target = None
        link.spent, link.closes_ms = True, None
        if not link.open:
            del self._links[number]

    def answered(self, link_number: int, number: int, answer: Frame, *, now_ms: int) -> list[Effect]:
        """The leader's answer to a request."""
        errand = self._settle(link_number, number)
        if errand is None:
            return []
        effects: list[Effect] = []
        if answer.code == ResponseCode.FORWARDING_REFUSED:
            effects += self._refused(errand, link_number, answer, now_ms)
        elif not errand.oneway and not errand.caller.gone:
            effects.append(Relay(errand, answer))
        return effects + self._go_on(errand.caller, now_ms)

    def unanswered(self, link_number: int, number: int, *, written: bool, why: str, now_ms: int) -> list[Effect]:
        """A request's link is gone or the leader took too long; `written`: whether it may have got a byte of it."""
        errand = self._settle(link_number, number)
        if errand is None:
            return []
        harmless = not written or errand.handling.kind is Kind.READ
        effects = self._return(errand, now_ms) if harmless else _answer(errand, unknown(errand, why))
        return effects + self._go_on(errand.caller, now_ms)

    def tick(self, *, now_ms: int) -> list[Effect]:
        """Time has passed; call it when `due_ms` has come."""
        effects: list[Effect] = []
        for link in list(self._links.values()):
            if link.closes_ms is not None and link.closes_ms <= now_ms:
                effects += self._give_up(link, now_ms)
        while self._due and self._due[0][0] <= now_ms:
            errand = self._held.get(heappop(self._due)[1])
            if errand is not None:
                errand.caller.drop(errand)
                self._release(errand)
                effects += _answer(errand, expired(errand))
                effects += self._flush(errand.caller, now_ms)  # what stood behind it may need other room
        return effects

    # ---- inside: leaders

    def _aim(self, link: _Link, now_ms: int) -> list[Effect]:
        self._target = link
        link.closes_ms = None
        self._retire_others(link, now_ms)
        for blocked in self._blocked.values():
            while blocked:
                blocked.popleft().blocked = None
        effects: list[Effect] = []
        for caller in list(self._waiting.values()):
            effects += self._flush(caller, now_ms)
        return effects

    def _retire_others(self, kept: _Link | None, now_ms: int) -> None:
        """The leader changed: whoever led before has a little time to say what became of what it has."""
        for link in self._links.values():
            if link is not kept and link.closes_ms is None and not link.spent:
                link.closes_ms = now_ms + (self._limits.settle_ms if link.open else 0)

    def _give_up(self, link: _Link, now_ms: int) -> list[Effect]:
        """An old leader had its time: nobody will hear from it any more."""
        effects: list[Effect] = [CloseLink(link.number)]
        for number in list(link.open):
            effects += self.unanswered(
                link.number, number, written=True, why="the leader changed and the old one did not answer",
                now_ms=now_ms,
            )  # fmt: skip
        self._links.pop(link.number, None)
        return effects

    def _refused(self, errand: Errand, link_number: int, answer: Frame, now_ms: int) -> list[Effect]:
        """Nothing was done. Only "not leader" is a reason to try again, and only with another leader or link."""
        try:
            refusal = decode_header(ForwardingRefusal, answer.ext)
        except HeaderError:
            refusal = ForwardingRefusal(reason="")
        if refusal.reason == Refused.LATE:
            return _answer(errand, expired(errand))
        effects: list[Effect] = []
        link = self._links.get(link_number)
        if link is not None and link is self._target:
            self._target = None
            link.spent, link.closes_ms = True, now_ms + self._limits.settle_ms
            wanted = self._wanted
            if wanted is not None and refusal.leader and refusal.epoch > wanted.epoch:
                wanted = self._wanted = Following(refusal.leader, refusal.epoch)
            if wanted is not None:
                effects.append(Follow(wanted.address, wanted.epoch))
        return effects + self._return(errand, now_ms)

    # ---- inside: requests

    def _room(self, errand: Errand) -> bool:
        if self._target is not None and self._target.number == _HERE:
            return True
        load, limits = self._load, self._limits
        away, most = load.away_bytes, limits.away_bytes_max
        if not errand.handling.ordered:
            away, most = load.pull_bytes, limits.pull_bytes_max
        return not away or away + errand.size <= most

    def _dispatch(self, errand: Errand, target: _Link) -> Effect:
        if target.number == _HERE:
            return Execute(errand)
        kind = errand.handling.kind
        if kind is not Kind.COMMIT or not errand.oneway:
            target.open[errand.number] = errand
            if errand.handling.ordered:
                errand.caller.away += 1
                errand.caller.link = target.number
                self._load.away_bytes += errand.size
            else:
                self._load.pull_bytes += errand.size
        return Transmit(errand, target.number, target.epoch, errand.deadline_ms + target.ahead_ms)

    def _settle(self, link_number: int, number: int) -> Errand | None:
        """A request on a link has its outcome; None if it had one before."""
        link = self._links.get(link_number)
        errand = None if link is None else link.open.pop(number, None)
        if link is None or errand is None:
            return None
        if errand.handling.ordered:
            errand.caller.away -= 1
            self._load.away_bytes -= errand.size
        else:
            self._load.pull_bytes -= errand.size
        if not link.open and link.closes_ms is not None:
            link.closes_ms = 0  # whatever it was kept for has come
        elif not link.open and link.spent:
            del self._links[link_number]
        return errand

    def _return(self, errand: Errand, now_ms: int) -> list[Effect]:
        """Nothing was changed by a request that was away: it takes its place among those that wait."""
        if errand.caller.gone:
            return []
        if errand.handling.kind is Kind.COMMIT:
            return _answer(errand, commit_refused())
        if errand.deadline_ms <= now_ms:
            return _answer(errand, expired(errand))
        self._hold(errand)
        return []

    def _hold(self, errand: Errand) -> None:
        caller = errand.caller
        errand.delayed = True
        caller.keep(errand)
        self._waiting[caller.session.id] = caller
        self._held[errand.number] = errand
        self._load.held_bytes += errand.size
        heappush(self._due, (errand.deadline_ms, errand.number))

    def _release(self, errand: Errand) -> None:
        del self._held[errand.number]
        self._load.held_bytes -= errand.size

    def _flush(self, caller: Caller, now_ms: int) -> list[Effect]:
        """Send on what waits for a caller, as far as order and room allow."""
        effects: list[Effect] = []
        done = 0
        target, waiting = self._target, caller.waiting
        while target is not None and done < len(waiting) and caller.free_for(target.number):
            errand = waiting[done]
            if errand.deadline_ms > now_ms and not self._room(errand):
                self._block(errand)
                break
            done += 1
            caller.bytes_waiting -= errand.size
            self._release(errand)
            if errand.deadline_ms > now_ms:
                effects.append(self._dispatch(errand, target))
            else:
                effects += _answer(errand, expired(errand))
        del waiting[:done]
        if not waiting:
            self._waiting.pop(caller.session.id, None)
        return effects

    def _block(self, errand: Errand) -> None:
        """Have a caller wait for the room that its next errand needs, behind those that do already."""
        caller, ordered = errand.caller, errand.handling.ordered
        if caller.blocked is not ordered:
            caller.blocked = ordered
            self._blocked[ordered].append(caller)

    def _go_on(self, caller: Caller, now_ms: int) -> list[Effect]:
        """Something came back: what waited for it, or for its room, may go.

        Room goes round: who gets some and has more that waits is the last one then, and who gets none stays the first.
        Otherwise a caller with many requests would take all that its own answers free, and others would never get any.
        """
        effects: list[Effect] = []
        if caller.waiting and self._target is not None:
            self._block(caller.waiting[0])
        for ordered, blocked in self._blocked.items():
            for _ in range(len(blocked)):
                first = blocked.popleft()
                if first.blocked is not ordered:
                    continue
                first.blocked = None
                sent = self._flush(first, now_ms)
                effects += sent
                if first.blocked is ordered:
                    if not sent:
                        blocked.rotate(1)
                    break
        return effects


def _answer(errand: Errand, reply: Reply) -> list[Effect]:
    return [] if errand.oneway or errand.caller.gone else [Answer(errand, reply)]
