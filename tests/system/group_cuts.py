"""Cuts in the network of a group: between brokers, from controllers, from everybody, one way; lossy and slow ones."""

import itertools
from collections.abc import Callable, Iterable, Mapping

from system.broker_groups import BROKERS, PEER_PORT
from system.controllers import CLIENTS, NODES
from system.faults import Block, Partition, Slow, both_ways, cut, prove_within
from system.group_rounds import Round, Shape, apply
from system.weather import BadCable

__all__ = ["CUT_SHAPES"]

MOVES, STAYS, EITHER = "moves", "stays", "either"


def _partition(r: Round, name: str, blocks: Iterable[Block], *, action: str = "drop", share: int = 100) -> Partition:
    return Partition(r.bench.network, blocks, name=name, probe_port=PEER_PORT, action=action, share=share)


def _cutting(make: Callable[[Round], Partition], leadership: str | Callable[[Round], str]) -> Shape:
    """`leadership`: whether another broker must lead meanwhile, must not, or either may be."""

    def shape(r: Round) -> None:
        def meanwhile() -> None:
            leads = leadership(r) if callable(leadership) else leadership
            if leads == MOVES:
                r.another_leads()
            elif leads == STAYS:
                r.goes_on()
                assert r.group.leader(among=[r.leader]), "this cut leaves the leader all that it needs"
            r.hold(0.5, 4.0 if leads == EITHER else 1.0)

        apply(meanwhile, make(r))

    return shape


def _leader_from_followers(r: Round) -> Partition:
    return _partition(r, f"leader {r.leader} from followers", cut(r.leader, r.followers))


def _leader_from_controllers(r: Round) -> Partition:
    return _partition(r, f"leader {r.leader} from controllers", cut(r.leader, NODES))


def _leader_from_everybody(action: str) -> Callable[[Round], Partition]:
    def make(r: Round) -> Partition:
        return _partition(
            r, f"leader {r.leader} from everybody", cut(r.leader, [*r.followers, *NODES, CLIENTS]), action=action
        )

    return make


def _leader_in_minority(r: Round) -> Partition:
    """With one controller, and with clients."""
    beyond = [*r.followers, *r.draw.sample(NODES, 2)]
    return _partition(r, f"leader {r.leader} with a minority", cut(r.leader, beyond))


def _leader_with_one_follower(r: Round) -> Partition:
    """Apart from the other one: the set gets smaller, and both go on."""
    return _partition(r, f"follower {r.follower} from leader", both_ways(r.leader, r.follower))


def _deaf_leader(r: Round) -> Partition:
    blocks = [Block(other, r.leader) for other in (*r.followers, *NODES)]
    return _partition(r, f"leader {r.leader} hears nobody", blocks)


def _mute_leader(r: Round) -> Partition:
    blocks = [Block(r.leader, other) for other in (*r.followers, *NODES)]
    return _partition(r, f"nobody hears leader {r.leader}", blocks)


def _deaf_follower(r: Round) -> Partition:
    return _partition(r, f"follower {r.follower} hears nobody", [Block(other, r.follower) for other in
                                                              (*r.bench.others(r.follower), *NODES)])  # fmt: skip


def _follower_from_everybody(r: Round) -> Partition:
    others = [*r.bench.others(r.follower), *NODES, CLIENTS]
    return _partition(r, f"follower {r.follower} from everybody", cut(r.follower, others))


def _all_apart(r: Round) -> Partition:
    blocks = [block for one, other in itertools.combinations(BROKERS, 2) for block in both_ways(one, other)]
    return _partition(r, "brokers apart from each other", blocks)


def _lossy(share: int) -> Callable[[Round], Partition]:
    def make(r: Round) -> Partition:
        pairs = [*itertools.combinations(BROKERS, 2), *itertools.combinations(NODES, 2)]
        blocks = [block for one, other in pairs for block in both_ways(one, other)]
        return _partition(r, f"{share} % of all packets lost", blocks, share=share)

    return make


def _wake_alone(r: Round) -> None:
    """The leader sleeps while another is elected, and wakes up apart from brokers and controllers, but not from
    clients: nobody tells it that it leads no more, and the last that it heard of the others was that they followed."""
    asleep = r.paused(r.leader)
    apart = _partition(r, f"{r.leader} alone with clients", cut(r.leader, [*r.followers, *NODES]))

    def meanwhile() -> None:
        apply(lambda: (r.another_leads(), None)[1], asleep)
        r.hold(1.0, 2.0)
        prove_within(20, f"{r.leader} leads no more", lambda: r.group.ask(r.leader).get("leads") is False)

    apply(meanwhile, apart)


def _leader_with_follower(r: Round) -> None:
    """Those two hear each other and all clients; whoever the controllers may choose is on the other side."""
    rest = next(name for name in r.followers if name != r.follower)
    blocks = [block for name in (r.leader, r.follower) for block in cut(name, [rest, *NODES])]

    def meanwhile() -> None:
        if r.bench.mode.led_by_controllers:
            prove_within(20, f"{r.leader} leads no more", lambda: r.group.ask(r.leader).get("leads") is False)
        r.hold(1.0, 4.0)

    apply(meanwhile, _partition(r, f"{r.leader} and {r.follower} apart from the rest", blocks))


def _clients_with_old_leader(r: Round) -> None:
    """All that clients reach is a leader whom nobody else hears: they must not be told that it still is one."""
    blocks = [*cut(r.leader, [*r.followers, *NODES]), *cut(CLIENTS, r.followers)]

    def meanwhile() -> None:
        if not r.bench.mode.static:
            r.group.leader(among=r.followers, seconds=180)
            prove_within(20, f"{r.leader} leads no more", lambda: r.group.ask(r.leader).get("leads") is False)
        r.hold(1.0, 3.0)

    apply(meanwhile, _partition(r, f"clients reach only {r.leader}, which is alone", blocks))


def _narrow_leader(r: Round) -> None:
    apply(lambda: r.hold(3.0, 6.0), Slow(r.bench.network, r.leader, kilobits=256))


def _late_leader(r: Round) -> None:
    """What it sends and hears is late and out of order, but not so late that anybody may believe it gone."""

    def meanwhile() -> None:
        r.goes_on()
        assert r.group.leader(among=[r.leader]), "this delay leaves the leader all that it needs"
        r.hold(1.0, 3.0)

    cable = BadCable(
        r.bench.network, r.leader, port=PEER_PORT, asker=r.follower, delay_ms=(50, 200), seed=r.draw.getrandbits(32)
    )
    apply(meanwhile, cable)


def _turned_bits(r: Round) -> None:
    """Between the leader and its followers; TCP finds nothing wrong, so that only the frames' own checksums can."""

    def said() -> int:
        return sum(node.log_text().count("fails its checksum") for node in r.group.brokers.values())

    def meanwhile() -> None:
        prove_within(30, "a broker has ended a connection for a frame that is damaged", lambda: said() > before)
        r.goes_on()
        r.hold(1.0, 3.0)

    before = said()
    cable = BadCable(
        r.bench.network, r.leader, port=PEER_PORT, asker=r.follower, flip_every=100_000, seed=r.draw.getrandbits(32)
    )
    apply(meanwhile, cable)


CUT_SHAPES: Mapping[str, Shape] = {
    "cut leader from followers": _cutting(_leader_from_followers, MOVES),
    "cut leader from controllers": _cutting(
        _leader_from_controllers, lambda r: MOVES if r.bench.mode.led_by_controllers else STAYS
    ),
    "cut leader from everybody, packets dropped": _cutting(_leader_from_everybody("drop"), MOVES),
    "cut leader from everybody, packets refused": _cutting(_leader_from_everybody("reject with tcp reset"), MOVES),
    "leader with a minority of controllers": _cutting(_leader_in_minority, MOVES),
    "cut leader from one follower": _cutting(_leader_with_one_follower, STAYS),
    "leader hears nobody": _cutting(_deaf_leader, MOVES),
    "nobody hears the leader": _cutting(_mute_leader, MOVES),
    "follower hears nobody": _cutting(_deaf_follower, STAYS),
    "cut follower from everybody": _cutting(_follower_from_everybody, STAYS),
    "brokers apart from each other": _cutting(_all_apart, EITHER),
    "a twentieth of all packets lost": _cutting(_lossy(5), STAYS),
    "a fifth of all packets lost": _cutting(_lossy(20), EITHER),
    "half of all packets lost": _cutting(_lossy(50), EITHER),
    "leader sleeps and wakes up alone": _wake_alone,
    "leader and a follower apart from the rest": _leader_with_follower,
    "clients reach only the old leader": _clients_with_old_leader,
    "leader has a narrow link": _narrow_leader,
    "leader has a late link": _late_leader,
    "bits turn on the leader's link": _turned_bits,
}
