"""A group in raft mode whose brokers change: one joins, one goes. `peers` at the leader says who is in it."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from checkers.history import Outcome
from checkers.log_checks import check_log
from system.guarded_group import GuardedGroup, GuardedReplica
from system.guardians import eventually
from system.load import Load, drained_history

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(240)]

STORE = {"segmentSize": "4MiB", "messageSizeMax": "64KiB", "reservedPercent": 0}
SECONDS = 60.0


def test_a_broker_joins_and_another_goes_while_sends_go_on(tmp_path: Path) -> None:
    replication = {"mode": "raft", "controllers": [], "raft": {"founders": [1, 2, 3]}}
    with GuardedGroup(tmp_path, replication=replication, guarded=False, store=STORE) as group:
        fourth = another(group, tmp_path)
        everybody = [*group.brokers, fourth]
        first, _ = group.leader()
        gone = next(broker for broker in group.brokers if broker is not first)
        try:
            with Load(first, senders=2) as load:
                load.wait_for(Outcome.OK, 50, seconds=SECONDS)
                roll_out(group.brokers, fourth.settings["replication"]["peers"])  # type: ignore[index]
                fourth.start()
                wait_for_members(everybody, [1, 2, 3, 4])
                load.wait_for(Outcome.OK, 50, seconds=SECONDS)
                assert gone.stop() == 0
                number = group.number(gone)
                peers = fourth.settings["replication"]["peers"]  # type: ignore[index]
                rest = [broker for broker in everybody if broker is not gone]
                roll_out(rest, {key: value for key, value in peers.items() if key != str(number)})
                wait_for_members(rest, [each for each in (1, 2, 3, 4) if each != number])
                load.wait_for(Outcome.OK, 50, seconds=SECONDS)
            verdict = check_log(drained_history(first, load), ok_sends_min=150)
            assert verdict.name == "valid", verdict
        finally:
            fourth.kill()


def another(group: GuardedGroup, directory: Path) -> GuardedReplica:
    """Broker 4, which knows all others; they do not know it yet."""
    settings: dict[str, Any] = dict(group.brokers[0].settings)
    replication: dict[str, Any] = dict(settings["replication"])
    host = group.brokers[0].host.rpartition(".")[0] + ".4"
    peer = f"{host}:10912"
    replication |= {"peers": {**replication["peers"], "4": peer}, "peerListen": peer}
    settings |= {
        "brokerId": 4, "listen": f"{host}:10911", "adminListen": f"{host}:10913", "guardian": {},
        "replication": replication,
    }  # fmt: skip
    broker = GuardedReplica(directory / "b4", host, **settings)
    broker.flags = ()
    return broker


def roll_out(brokers: Iterable[GuardedReplica], peers: Mapping[str, str]) -> None:
    """Give each of them, the leader last, another list of peers; one restarts when the one before has all again."""
    for broker in sorted(brokers, key=lambda broker: broker.leads_in):
        before: Any = broker.settings["replication"]
        broker.settings["replication"] = {**before, "peers": dict(peers)}
        assert broker.stop() == 0
        broker.start()
        eventually(lambda broker=broker: follows_or_leads(broker), f"not back: {broker.log()[-2000:]}", SECONDS)  # type: ignore[misc]


def follows_or_leads(broker: GuardedReplica) -> bool:
    return broker.replication().get("role") in ("leader", "follower")


def wait_for_members(brokers: Iterable[GuardedReplica], members: list[int]) -> None:
    """Until a leader among them has these in sync, and no change is under way."""

    def settled() -> bool:
        leading = [said for broker in brokers if (said := broker.replication()).get("serving")]
        return any(said["inSync"]["members"] == members and said["pending"] is None for said in leading)

    eventually(settled, f"not {members}: {[broker.replication() for broker in brokers]}", SECONDS)
