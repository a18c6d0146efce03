"""How a group stands that no controllers lead (mode raft or static), from what its brokers say of themselves.

GET /status         of each broker that answers
GET /replica/roles  of each that answers, in mode static

Who leads counts only if it says that it serves: in mode raft it has a lease then. What cannot be read counts as not
answered.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from logherd_operator.observed.quorum import Group, Own, Replica, Rules, Table

__all__ = ["group_of_brokers"]

Document = Mapping[str, Any]
_NEAR_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Follower:
    broker_id: int
    connected: bool
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Voice:
    """What one broker says. `version`: of who belongs to the group, which a follower has, too."""

    broker_id: int
    store_id: str
    address: str
    epoch: int
    end: int
    serving: bool
    members: tuple[int, ...]
    version: int
    least: int
    followers: tuple[_Follower, ...]
    changing: bool


def group_of_brokers(
    mode: str, pages: Iterable[Document], roles: Iterable[Document] = (), *, founded: bool, replicas: int
) -> Group | None:
    """The group as its brokers have it; None if none of them answers. `mode`: as the brokers call it. `founded`: it is
    known to have been led before. `replicas`: so many are wanted.
    """
    voices = [each for page in pages if (each := _voice(page, mode)) is not None]
    if not voices:
        return None
    table = _table(roles) if mode == "static" else None
    began = founded or any(each.members if mode == "raft" else each.epoch for each in voices)
    latest = max(voices, key=lambda each: (each.version, each.epoch))
    if not began:
        rules = Rules(replicas=replicas, min_in_sync=max(1, latest.least))
        return Group(epoch=0, founded=False, rules=rules, why=_unfounded(mode, voices, replicas), own=Own(table=table))
    leader = max((each for each in voices if each.serving), key=lambda each: each.epoch, default=None)
    epoch = max(each.epoch for each in voices)
    if leader is None:
        return Group(
            epoch=epoch, founded=True, rules=Rules(replicas=replicas, min_in_sync=max(1, latest.least)),
            eligible=latest.members, replicas=_unled(voices), why=_leaderless(table, epoch, voices),
            own=Own(table=table),
        )  # fmt: skip
    learners = _learners(leader, voices, table)
    near = [each.broker_id for each in leader.followers if each.connected and _near(each)]
    return Group(
        epoch=leader.epoch, founded=True, rules=Rules(replicas=replicas, min_in_sync=max(1, leader.least)),
        leader=leader.broker_id, serving=True, in_sync=leader.members, replicas=_led(leader, voices, learners),
        why=_how_it_leads(leader),
        own=Own(
            table=table, keeping_up=tuple(each for each in near if table is not None and each in learners),
            changing=leader.changing,
        ),
    )  # fmt: skip


def _near(follower: _Follower) -> bool:
    return follower.lag is not None and follower.lag <= _NEAR_BYTES


def _voice(page: Document, mode: str) -> _Voice | None:
    try:
        said = page["replication"]
        if said["mode"] != mode:
            return None
        in_sync = said["inSync"]
        return _Voice(
            broker_id=int(page["brokerId"]), store_id=str(page.get("storeId") or ""),
            address=str(page.get("address") or ""), epoch=int(said["epoch"]), end=int(said["positions"]["end"]),
            serving=bool(said["serving"]), members=tuple(int(each) for each in in_sync["members"]),
            version=int(in_sync["version"]), least=int(in_sync["minInSync"]),
            followers=tuple(
                _Follower(broker_id=int(each["brokerId"]), connected=bool(each["connected"]), lag=each["lagBytes"])
                for each in said["followers"]
            ),
            changing=said["pending"] is not None,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        return None


def _table(pages: Iterable[Document]) -> Table | None:
    """The latest that anybody knows. Only who knows it can say whether its own promotion would lose something."""
    found: list[tuple[int, Document]] = []
    for page in pages:
        try:
            found.append((int(page["table"]), page))
        except (KeyError, TypeError, ValueError):
            continue
    if not found:
        return None
    number = max(each for each, _ in found)
    known = [page for each, page in found if each == number]
    try:
        return Table(
            number=number, leader=int(known[0]["leader"]), copies=int(known[0]["copies"]),
            synchronous=tuple(int(each) for each in known[0]["synchronous"]),
            promotable=tuple(sorted(int(each["brokerId"]) for each in known if each["eligible"])),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        return None


def _learners(leader: _Voice, voices: list[_Voice], table: Table | None) -> frozenset[int]:
    """Followers that nobody counts on: in mode raft those without a vote, as a follower with the same list tells."""
    following = frozenset(each.broker_id for each in leader.followers)
    if table is not None:
        return following - {table.leader, *table.synchronous}
    alike = (each for each in voices if each is not leader and each.version == leader.version)
    told = next(alike, None)
    return following - frozenset(told.members) if told is not None else frozenset()


def _led(leader: _Voice, voices: list[_Voice], learners: frozenset[int]) -> tuple[Replica, ...]:
    """Those that belong to the group, as the leader sees them."""
    stores = {each.broker_id: each for each in voices}
    own = Replica(broker_id=leader.broker_id, store_id=leader.store_id, alive=True, address=leader.address)
    others = [
        Replica(
            broker_id=each.broker_id, store_id=stores[each.broker_id].store_id if each.broker_id in stores else "",
            alive=each.connected, learner=each.broker_id in learners, lag=leader.end if each.lag is None else each.lag,
            address=stores[each.broker_id].address if each.broker_id in stores else "",
        )
        for each in leader.followers
    ]  # fmt: skip
    return tuple(sorted((own, *others), key=lambda each: each.broker_id))


def _how_it_leads(leader: _Voice) -> str:
    """Whoever it waits for may be known to it before its service ends."""
    have, least = len(leader.members), leader.least
    if have < least:
        return f"broker {leader.broker_id} leads, and writes wait: {have} of at least {least} replicas are in sync"
    return f"broker {leader.broker_id} leads and serves"


def _unled(voices: list[_Voice]) -> tuple[Replica, ...]:
    """Those that answer: of the others nobody can tell."""
    longest = max(each.end for each in voices)
    return tuple(
        Replica(
            broker_id=each.broker_id, store_id=each.store_id, alive=True, lag=longest - each.end, address=each.address
        )
        for each in sorted(voices, key=lambda each: each.broker_id)
    )


def _unfounded(mode: str, voices: list[_Voice], replicas: int) -> str:
    if mode == "raft":
        return f"{len(voices)} of {replicas} brokers answer; the group is founded when all have spoken to each other"
    return "nobody has led the group yet"


def _leaderless(table: Table | None, epoch: int, voices: list[_Voice]) -> str:
    """With the epoch, which an order to promote somebody else has to name."""
    numbers = ", ".join(str(each) for each in sorted(each.broker_id for each in voices))
    answering = f"brokers {numbers} answer" if len(voices) > 1 else f"broker {numbers} answers"
    if table is not None:
        said = f"broker {table.leader} leads by table {table.number}, in epoch {epoch}, and does not serve"
        return f"{said}; {answering}"
    return f"no broker serves as leader; {answering}"
