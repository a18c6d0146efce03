"""Handing leadership over: on request, to a preferred member, or away from a full disk."""

from collections.abc import Collection
from dataclasses import dataclass

from logherd.raft.ground import Ground
from logherd.raft.inputs import Transfer
from logherd.raft.lease import Lease
from logherd.raft.messages import TimeoutNow
from logherd.raft.output import Decided, Refusal, Unknown
from logherd.replication.messages import ReplicaId
from logherd.replication.sender import Room
from logherd.replication.shipper import Shipper

__all__ = ["Handover"]


@dataclass(slots=True)
class _Order:
    """Leadership is being handed to `target` until `deadline`; `sent` once it was told to stand. `relief`: for want of
    space."""

    target: ReplicaId
    deadline: int
    request: int | None
    relief: bool = False
    sent: bool = False


class Handover:
    """Stop proposals, wait until the target holds everything durably, tell it to stand, give up after a time-out.

    Lives and ends with one leadership, so that a group never refuses writes because of an order long forgotten.
    Source: Raft dissertation 3.10; raft-log rule 5.7.
    """

    def __init__(self, ground: Ground, ship: Shipper, lease: Lease, doubted: Collection[ReplicaId]) -> None:
        """`doubted`: who may not lead."""
        self._ground = ground
        self._doubted = doubted
        self._ship = ship
        self._lease = lease
        self._order: _Order | None = None
        self._preferred_at = ground.clock.now + ground.options.election_ms

    @property
    def running(self) -> bool:
        """Whether proposals are stopped for a handover."""
        return self._order is not None

    def begin(self, transfer: Transfer, *, blocked: bool) -> None:
        """Take a request; `blocked`: members are being changed."""
        ground = self._ground
        target = transfer.target if transfer.target is not None else self._best()
        if self.running or blocked:
            ground.refuse(transfer.request, Refusal.RUNNING, ground.identity)
        elif target in (None, ground.identity, *self._doubted) or target not in ground.members.current.voters:
            ground.refuse(transfer.request, Refusal.INVALID, ground.identity)
        else:
            self._hand_to(target, transfer.request)

    @property
    def target(self) -> ReplicaId | None:
        """Who is to lead next."""
        return self._order.target if self._order is not None else None

    @property
    def sent(self) -> bool:
        """Whether it has been told to stand."""
        return self._order is not None and self._order.sent

    def on_tick(self, *, blocked: bool) -> bool:
        """Give up an order that nobody followed, True if the target had been told; think of a better leader."""
        ground, order, ignored = self._ground, self._order, False
        if order is not None and ground.clock.now >= order.deadline:
            ignored = order.sent
            if order.request is not None:
                ground.refuse(order.request, Refusal.TIMED_OUT, ground.identity)
            self._order = None
        if ground.clock.now >= self._preferred_at:
            self._preferred_at = ground.clock.now + ground.options.election_ms
            if not blocked and not self.running and not ground.members.current.joint:
                self._hand_to_better()
        return ignored

    def advance(self) -> None:
        """Tell the target to stand as soon as it holds everything; from then on there is no lease in this term."""
        order, ground = self._order, self._ground
        if order is None or order.sent or self._ship.match(order.target) < ground.log.end:
            return
        if ground.options.owner_appends and ground.progress.announced < ground.log.end:
            return  # Whoever waits for an answer gets it first: an earlier step has told that everything is committed.
        order.sent = True
        self._lease.give_up()
        self._ground.send(order.target, TimeoutNow())

    def leave(self) -> None:
        """This leader is no longer a voter: whoever is closest may stand at once."""
        best = self._best()
        if best is not None:
            self._ground.send(best, TimeoutNow())

    def close(self) -> None:
        """The leadership ends, which is what was asked for if the order had been given."""
        order, ground = self._order, self._ground
        if order is not None and order.relief and order.sent:
            ground.disk.relieved.come(ground.clock.now)
        if order is not None and order.request is not None:
            end = self._ground.log.end
            self._ground.out.answers.append(Decided(order.request, end) if order.sent else Unknown(order.request))
        self._order = None

    def _hand_to(self, target: ReplicaId, request: int | None, *, relief: bool = False) -> None:
        self._order = _Order(target, self._ground.clock.now + self._ground.options.election_ms, request, relief)
        self.advance()

    def _hand_to_better(self) -> None:
        """A preferred member that has everything and space leads; instead of a leader without space anybody does, once
        that has lasted."""
        ground, rank = self._ground, self._ground.options.rank
        relief = ground.disk.wants_relief(2 * ground.options.election_ms, ground.clock.now)
        own = len(ground.options.preferred) + 1 if relief else rank(ground.identity)
        better = [
            peer
            for peer in ground.members.current.voters
            if rank(peer) < own and not self._busy(peer) and not self._short(peer) and self._ship.caught_up(peer)
        ]
        if better:
            self._hand_to(min(better, key=rank), None, relief=relief)

    def _best(self) -> ReplicaId | None:
        """The other voter that answers, has space and holds most, then the most preferred one, then the first named. At
        rest who died a while ago holds everything, too."""
        ground = self._ground
        others = [peer for peer in ground.members.current.voters if peer != ground.identity and not self._busy(peer)]
        rank, match, silent, short = ground.options.rank, self._ship.match, self._silent, self._short
        return min(others, key=lambda peer: (silent(peer), short(peer), -match(peer), rank(peer)), default=None)

    def _silent(self, peer: ReplicaId) -> bool:
        heard_at, ground = self._ship.rounds.heard_at(peer), self._ground
        return heard_at is None or ground.clock.now - heard_at >= ground.options.election_ms // 2

    def _busy(self, peer: ReplicaId) -> bool:
        sender = self._ship.sender(peer)
        return sender is None or sender.room is Room.NONE or peer in self._doubted

    def _short(self, peer: ReplicaId) -> bool:
        sender = self._ship.sender(peer)
        return sender is None or sender.room is not Room.ENOUGH
