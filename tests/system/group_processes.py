"""What can happen to processes of a group: killed, paused, stopped in order, started again without their data."""

import shutil
from collections.abc import Mapping, Sequence

from checkers.history import Outcome
from system.broker_groups import BROKERS
from system.group_rounds import Round, Shape, apply

__all__ = ["PROCESS_SHAPES"]

ATTEMPTS = 3
"""A stock client's synchronous send makes so many before it fails."""


def _kill_leader(r: Round) -> None:
    r.group.brokers[r.leader].die()
    r.another_leads()
    r.group.brokers[r.leader].revive()


def _kill_leader_who_returns(r: Round) -> None:
    """Nobody does anything but to start it again, if its guardian does not."""
    broker = r.group.brokers[r.leader]
    broker.die()
    broker.revive()
    r.group.leader(seconds=180)
    r.goes_on()


def _kill_follower(r: Round) -> None:
    r.group.brokers[r.follower].die()
    r.goes_on()
    assert r.group.leader() == r.leader, "a follower's death changes no leader"
    r.group.brokers[r.follower].revive()


def _kill_followers(r: Round) -> None:
    """What is left is too little for an answer, and enough again when one is back."""
    first, second = r.draw.sample(r.followers, 2)
    for name in (first, second):
        r.group.nodes[name].kill()
    r.hold(1, 4)
    r.group.nodes[first].start()
    r.goes_on()
    r.group.nodes[second].start()


def _kill_all(r: Round) -> None:
    for name in r.draw.sample(BROKERS, len(BROKERS)):
        r.group.nodes[name].kill()
    for name in r.draw.sample(BROKERS, len(BROKERS)):
        r.group.nodes[name].launch()
    for node in r.group.nodes.values():
        node.wait_ready()


def _kill_everything(r: Round) -> None:
    """Brokers and controllers, started again in any order."""
    nodes = [*r.group.nodes.values(), *r.controllers.nodes.values()]
    for node in nodes:
        node.kill()
    r.draw.shuffle(nodes)
    for node in nodes:
        node.launch()
    for node in nodes:
        node.wait_ready()


def _kill_controller(r: Round) -> None:
    """Sends go on while the controllers elect another leader."""
    leading = r.controllers.agree(seconds=180)
    r.controllers.nodes[leading].kill()
    r.goes_on()
    # Where brokers vote they have no part in it, and on a busy machine a leader may have changed for its own reasons.
    if r.bench.mode.led_by_controllers or r.bench.mode.static:
        assert r.group.leader() == r.leader, "the death of a controller changes no leader of a group"
    r.controllers.nodes[leading].start()


def _kill_both_leaders(r: Round) -> None:
    leading = r.controllers.agree(seconds=180)
    r.controllers.nodes[leading].kill()
    broker = r.group.brokers[r.leader]
    broker.die()
    if broker.guarded:  # it may be back before there is a controller that could elect another
        broker.revive()
        r.group.leader(seconds=180)
        r.goes_on()
    else:
        r.another_leads()
        broker.revive()
    r.controllers.nodes[leading].start()


def _pause_leader(r: Round) -> None:
    """Longer than the lease; the one that sleeps has answers and requests waiting when it wakes up."""

    def meanwhile() -> None:
        r.another_leads()
        r.hold(0.2, 1.0)

    apply(meanwhile, r.paused(r.leader))


def _pause_leader_briefly(r: Round) -> None:
    for _ in range(4):
        apply(lambda: r.hold(0.1, 1.2), r.paused(r.leader))
        r.hold(0.1, 0.4)


def _pause_follower(r: Round) -> None:
    def meanwhile() -> None:
        r.group.wait_in_sync(without=r.follower)
        r.goes_on()

    apply(meanwhile, r.paused(r.follower))


def _pause_followers(r: Round) -> None:
    apply(lambda: r.hold(2.0, 5.0), *(r.paused(name) for name in r.followers))


def _rolling_restart(r: Round) -> None:
    """In order, the leader last: no send fails, as a stock client counts it, where a leader hands over."""
    marks, mode = r.load.marks(), r.bench.mode
    for name in (*r.followers, r.leader):
        node = r.group.nodes[name]
        assert node.stop() == 0, node.condition()
        if name != r.leader or mode.hands_over:
            r.goes_on()
        elif mode.promotes:
            r.another_leads()
        node.start()
        r.group.agree()
    _no_send_failed(r, marks)


def _stop_leader(r: Round) -> None:
    marks = r.load.marks()
    node = r.group.nodes[r.leader]
    assert node.stop() == 0, node.condition()
    r.another_leads()
    node.start()
    _no_send_failed(r, marks)


def _no_send_failed(r: Round, marks: Sequence[int]) -> None:
    if not r.bench.mode.hands_over:
        return
    for number, sends in enumerate(r.load.since(marks)):
        row = 0
        for send in sends:
            row = 0 if send.outcome is Outcome.OK else row + 1
            assert row < ATTEMPTS, f"sender {number}: {row} attempts in a row failed, the last is {send}"


def _wipe(r: Round, name: str) -> None:
    """It comes back under its old name with nothing: another store, which is filled from the leader."""
    node = r.group.brokers[name]
    node.kill()
    before = (node.data / "replica.json").read_text()
    shutil.rmtree(node.data)
    if name == r.leader and r.bench.mode.static:
        r.another_leads()
    node.start()
    r.goes_on()
    r.group.agree()
    assert (node.data / "replica.json").read_text() != before, "a wiped replica is another store"


def _wipe_follower(r: Round) -> None:
    _wipe(r, r.follower)


def _wipe_leader(r: Round) -> None:
    _wipe(r, r.leader)


PROCESS_SHAPES: Mapping[str, Shape] = {
    "kill leader": _kill_leader,
    "kill leader, who comes back": _kill_leader_who_returns,
    "kill follower": _kill_follower,
    "kill both followers": _kill_followers,
    "kill all brokers": _kill_all,
    "kill everything": _kill_everything,
    "kill leading controller": _kill_controller,
    "kill leader and leading controller": _kill_both_leaders,
    "pause leader until another leads": _pause_leader,
    "pause leader briefly, four times": _pause_leader_briefly,
    "pause follower": _pause_follower,
    "pause both followers": _pause_followers,
    "rolling restart": _rolling_restart,
    "stop leader": _stop_leader,
    "wipe follower": _wipe_follower,
    "wipe leader": _wipe_leader,
}
