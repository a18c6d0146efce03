"""1008: telling brokers at once what they would hear with their next heartbeat, and on which connection to tell them.

A notice is a hint: it may be lost, and nobody acts on more than "ask now". So it goes only to connections that are
there, to every broker of the group that has one.

Source: apache/rocketmq: controller/.../ControllerManager.java (what it sends, and to whom); controller-ha R19
"""

from collections import OrderedDict
from dataclasses import dataclass

from logherd.controller.values import BrokerId, GroupKey, Registration
from logherd.controller.verdicts import (
    MasterElected,
    MasterEnded,
    SyncSetChanged,
    TransferCancelled,
    TransferPlanned,
    Verdict,
)
from logherd.kit.errors import ensure
from logherd.service.controllers.steps import Seat
from logherd.service.controllers.views import sync_body
from logherd.service.ports import Reply
from logherd.wire.bodies import encode_body
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Frame
from logherd.wire.headers import decode_header
from logherd.wire.headers.controller import RoleChangedHeader
from logherd.wire.headers.leases import HeartbeatHeader, RegisteredResponse, RegisteringHeader

__all__ = ["Notice", "Seat", "Speakers", "notice_of", "seat_of"]

_TELLING = (MasterElected, MasterEnded, SyncSetChanged, TransferPlanned, TransferCancelled)


@dataclass(frozen=True, slots=True)
class Notice:
    """What the brokers of a group are told: code 1008, one way."""

    group: GroupKey
    header: RoleChangedHeader
    body: bytes


def notice_of(verdict: Verdict) -> Notice | None:
    """The notice that an applied command is worth, if its group has another master, in-sync set or plan now.

    As RocketMQ sends it after an election; without a master its fields are left out.
    """
    group = verdict.group
    if group is None or not any(isinstance(event, _TELLING) for event in verdict.events):
        return None
    master = group.master
    header = RoleChangedHeader(
        master_address=master.address if master is not None else None,
        master_broker_id=master.broker_id if master is not None else None,
        master_epoch=group.epoch,
        sync_state_set_epoch=group.sync.version,
    )
    return Notice(group.key, header, encode_body(sync_body(group)))


def seat_of(frame: Frame, reply: Reply) -> Seat | None:
    """Who spoke, if the request was a registration or a heartbeat that was taken."""
    if reply.code != 0:
        return None
    said: HeartbeatHeader | RegisteringHeader
    if frame.code == RequestCode.BROKER_HEARTBEAT:
        said = beat = decode_header(HeartbeatHeader, frame.ext)
        number = beat.registration
    elif frame.code == RequestCode.CONTROLLER_REGISTER_BROKER and isinstance(reply.header, RegisteredResponse):
        said, number = decode_header(RegisteringHeader, frame.ext), reply.header.registration
    else:
        return None
    if said.broker_id is None or number is None:
        return None
    return Seat(GroupKey(said.cluster_name, said.broker_name), BrokerId(said.broker_id), Registration(number))


@dataclass(frozen=True, slots=True)
class _Speaker:
    session: int
    registration: Registration


class Speakers:
    """Which session speaks for which broker: the latest one of its latest process.

    Bounded: beyond `seats_max` the one that has been silent longest is forgotten; beyond `seats_per_session_max` a
    session speaks for nobody more. Invariant: a session has seats exactly where it is the speaker.
    """

    def __init__(self, *, seats_max: int = 100_000, seats_per_session_max: int = 1_000) -> None:
        ensure(seats_max > 0 and seats_per_session_max > 0, "somebody may speak", seats_max, seats_per_session_max)
        self._seats_max = seats_max
        self._per_session_max = seats_per_session_max
        self._speakers: OrderedDict[tuple[GroupKey, BrokerId], _Speaker] = OrderedDict()
        self._groups: dict[GroupKey, dict[BrokerId, int]] = {}
        self._sessions: dict[int, set[tuple[GroupKey, BrokerId]]] = {}

    def __len__(self) -> int:
        return len(self._speakers)

    def heard(self, session: int, seat: Seat) -> None:
        """A broker has spoken on a session. What comes late from an older process of it changes nothing."""
        place = (seat.group, seat.broker_id)
        known = self._speakers.get(place)
        if known is not None and known.registration > seat.registration:
            return
        if known is None or known.session != session:
            if len(self._sessions.get(session, ())) >= self._per_session_max:
                return
            self._drop(place)
            self._sessions.setdefault(session, set()).add(place)
            self._groups.setdefault(seat.group, {})[seat.broker_id] = session
        if known is None or known.session != session or known.registration != seat.registration:
            self._speakers[place] = _Speaker(session, seat.registration)
        self._speakers.move_to_end(place)
        if len(self._speakers) > self._seats_max:
            self._drop(next(iter(self._speakers)))

    def closed(self, session: int) -> None:
        """A session has ended."""
        for place in list(self._sessions.get(session, ())):
            self._drop(place)

    def of(self, group: GroupKey) -> list[int]:
        """The sessions that a notice to this group goes to, each once."""
        return list(dict.fromkeys(self._groups.get(group, {}).values()))

    def session_of(self, seat: Seat) -> int | None:
        """The session on which exactly this process of a broker speaks."""
        known = self._speakers.get((seat.group, seat.broker_id))
        return known.session if known is not None and known.registration == seat.registration else None

    def _drop(self, place: tuple[GroupKey, BrokerId]) -> None:
        speaker = self._speakers.pop(place, None)
        if speaker is None:
            return
        group, broker_id = place
        del self._groups[group][broker_id]
        if not self._groups[group]:
            del self._groups[group]
        self._sessions[speaker.session].discard(place)
        if not self._sessions[speaker.session]:
            del self._sessions[speaker.session]
