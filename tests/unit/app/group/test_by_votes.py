"""Raft mode in the shell: how a group is founded, and who should belong to it."""

import dataclasses

import pytest
from msgspec.structs import replace

from logherd.aiokit.tasks import TaskGuard
from logherd.app.clock import boot_ms
from logherd.app.group import by_votes
from logherd.app.group.about import About, decode_about, encode_about
from logherd.app.group.by_votes import ByVotes
from logherd.app.group.mode import Host, Lease
from logherd.app.group.replica_file import ReplicaFileError
from logherd.app.group.roster import read_roster
from logherd.app.group.unfounded import Unfounded
from logherd.controller.values import BrokerId
from logherd.group.inputs import (
    Appended,
    Drain,
    Flushed,
    Health,
    Input,
    Linked,
    MembersWanted,
    Patience,
    Rebuild,
    Received,
    Tick,
)
from logherd.group.output import Promise
from logherd.group.seat import cluster_of, voter_of
from logherd.group.voting_core import VotingCore
from logherd.model.names import Epoch, Position
from logherd.raft.members import Configuration
from logherd.raft.messages import VoteAnswer
from logherd.raft.output import Role
from logherd.replication.epochs import Point
from logherd.replication.messages import AppendAck, Envelope, HeartbeatAck, ReplicaId
from unit.app.group.stand import GROUP, Stand, options_of, seat_of
from unit.store.helpers import ROOT, append

ABOUT = About(mode="raft", address="b:10911")
GUARD = TaskGuard(on_end=lambda _: None)


def voter(number: int, store: str = "s") -> ReplicaId:
    return voter_of(BrokerId(number), f"{store}{number}")


def started(stand: Stand, **more: object) -> ByVotes:
    mode = ByVotes(seat_of(stand.file), options_of("raft", **more), stand.log, stand.file)
    mode.start(stand.host, GUARD)
    return mode


def own(stand: Stand) -> ReplicaId:
    return voter_of(BrokerId(stand.broker_id), stand.file.store_id)


def test_the_first_founder_waits_for_all_and_decides_durably() -> None:
    stand = Stand("raft", broker_id=1)
    mode = started(stand)
    assert isinstance(mode.machine, Unfounded)
    mode.heard(stand.hello(voter(2), ABOUT))
    assert mode.greet().founded is None
    mode.heard(stand.hello(voter(3), ABOUT))
    assert isinstance(mode.machine, VotingCore)
    assert mode.greet().founded == (own(stand), voter(2), voter(3))
    assert stand.opened(log_empty=False).founders == mode.greet().founded
    assert stand.announced == 1
    assert mode.core is not None
    assert mode.core.cluster == cluster_of(GROUP), "it was not rebuilt yet"


def test_founders_compare_whom_they_are_to_found_with_and_who_comes_later_compares_nothing() -> None:
    for number, nodes in ((2, ("1", "2")), (3, ())):
        mode = started(Stand("raft", broker_id=number), replicas=2, raft={"founders": [1, 2]})
        assert mode.greet().nodes == nodes


def test_who_was_linked_before_the_group_was_founded_is_linked_with_its_machine() -> None:
    stand = Stand("raft")
    mode = started(stand)
    mode._host = dataclasses.replace(stand.host, linked=lambda: (voter(1), voter(3)))
    mode.heard(stand.hello(voter(1), ABOUT, (voter(1), own(stand), voter(3))))
    assert stand.steps[:2] == [Linked(voter(1)), Linked(voter(3))]


def test_the_others_found_with_whom_they_are_told() -> None:
    stand = Stand("raft")
    mode = started(stand)
    mode.heard(stand.hello(voter(3), ABOUT))
    assert isinstance(mode.machine, Unfounded)
    founders = (voter(1), own(stand), voter(3))
    mode.heard(stand.hello(voter(1), ABOUT, founders))
    assert mode.core is not None
    assert mode.core.raft.ground.members.current.voters == founders
    again = ByVotes(seat_of(stand.file), options_of("raft"), stand.log, stand.opened(log_empty=False))
    assert isinstance(again.machine, VotingCore), "a restart needs nobody to know its founders"


def test_a_store_that_was_lost_joins_without_a_vote() -> None:
    stand = Stand("raft")
    mode = started(stand)
    founders = (voter(1), voter(2, "former"), voter(3))
    mode.heard(stand.hello(voter(1), ABOUT, founders))
    assert mode.core is not None
    assert mode.core.raft.ground.members.current.voters == ()
    assert stand.file.founders == founders


def test_who_was_never_a_founder_joins_a_rebuilt_group_without_a_vote() -> None:
    stand = Stand("raft")
    mode = started(stand)
    hello = stand.hello(voter(1), ABOUT, (voter(1), voter(2, "former"), voter(3)))
    mode.heard(dataclasses.replace(hello, cluster=cluster_of(GROUP, 1)))
    again = ByVotes(seat_of(stand.file), options_of("raft"), stand.log, stand.opened(log_empty=False))
    for process in (mode, again):
        assert process.core is not None
        assert process.core.cluster == cluster_of(GROUP, 1)
        assert process.core.raft.ground.members.current.voters == ()


def test_a_replica_that_knows_its_group_from_an_earlier_process_goes_on_and_founds_nothing() -> None:
    """It may be another group's number by now, which nothing may set back."""
    stand = Stand("raft")
    stand.file.keep(Promise(Epoch(4), voter(3), reset=2))
    stand.file.found((voter(1), own(stand), voter(3)), reset=2)
    stand.file, joined = stand.opened(log_empty=False), list[str]()
    mode = ByVotes(seat_of(stand.file), options_of("raft"), stand.log, stand.file)
    mode.start(dataclasses.replace(stand.host, join=joined.append), GUARD)
    assert joined == [""], "it may be linked with at once"
    assert (stand.announced, stand.steps, stand.failures) == (0, [], [])
    assert stand.opened(log_empty=False).promise == Promise(Epoch(4), voter(3), reset=2)
    assert mode.core is not None
    assert (mode.core.epoch, mode.core.cluster) == (4, cluster_of(GROUP, 2))


def test_a_group_of_one_is_founded_by_its_start_and_needs_no_lease() -> None:
    stand = Stand("raft")
    mode = ByVotes(
        seat_of(stand.file), options_of("raft", replicas=1, minInSync=1, peers={2: "b2:1"}), stand.log, stand.file
    )
    mode.start(stand.host, GUARD)
    core = mode.core
    assert core is not None
    assert core.raft.ground.members.current.voters == (own(stand),)
    assert stand.opened(log_empty=False).founders == (own(stand),)
    now = core.raft.ground.clock.now
    while core.leads is None:
        now += 50
        core.step(Tick(), now)
        core.step(Flushed(core.raft.ground.durable.token), now)
    stand.log.begin_epoch(Epoch(1))
    append(stand.store)
    core.step(Appended(), now)
    core.step(Flushed(core.raft.ground.durable.token), now)
    assert mode.rules(now) == 1
    assert mode.lease is None, "a guardian that was stopped for a while kills nobody in vain"


def test_a_lost_store_gives_its_place_to_the_new_one_and_an_unheard_one_keeps_it() -> None:
    stand = Stand("raft")
    mode = started(stand)
    founders = (voter(1), own(stand), voter(3))
    mode.heard(stand.hello(voter(1), ABOUT, founders))
    assert stand.steps[-1] == MembersWanted(founders)
    mode.heard(stand.hello(voter(3, "new"), ABOUT, founders))
    assert stand.steps[-1] == MembersWanted((voter(1), own(stand), voter(3, "new")))
    count = len(stand.steps)
    mode.tick()
    assert len(stand.steps) == count, "what was said is not said again"


def test_who_is_a_learner_by_its_own_word_gets_no_vote() -> None:
    stand = Stand("raft")
    mode = started(stand, replicas=2, raft={"founders": [1, 2]})
    founders = (voter(1), own(stand))
    mode.heard(stand.hello(voter(1), ABOUT, founders))
    mode.heard(stand.hello(voter(3), About(mode="raft", address="b3:1", learner=True), founders))
    assert stand.steps[-1] == MembersWanted(founders, (voter(3),))
    assert mode.address_of(BrokerId(3)) == "b3:1"


def test_a_running_broker_takes_who_belongs_to_the_group_and_only_those_of_the_peers_get_a_vote() -> None:
    stand = Stand("raft")
    mode = started(stand, raft={"founders": [1, 2, 3], "members": [1, 2]})
    founders = (voter(1), own(stand), voter(3))
    mode.heard(stand.hello(voter(1), ABOUT, founders))
    assert stand.steps[-1] == MembersWanted((voter(1), own(stand)))
    mode.retime(options_of("raft", raft={"founders": [1, 2, 3], "members": [2, 3]}))
    assert stand.steps[-1] == MembersWanted((own(stand), voter(3)))
    mode.retime(options_of("raft"))
    assert stand.steps[-1] == MembersWanted(founders)


def test_what_was_said_of_the_disk_and_of_a_stop_before_the_group_was_founded_counts_after_it() -> None:
    """It is said once: a leader on a full disk would keep leadership and refuse every message."""
    stand = Stand("raft")
    mode = started(stand)
    short = Health(space=False, barrier=False)
    for said in (Health(space=False), Drain(), short):
        mode.machine.step(said, boot_ms())
    mode.heard(stand.hello(voter(1), ABOUT, (voter(1), own(stand), voter(3))))
    assert mode.core is not None
    for step in stand.steps:
        mode.machine.step(step, boot_ms())
    assert stand.steps[:2] == [short, Drain()]
    assert mode.core.raft.ground.short


def test_the_members_as_the_log_has_them_are_known_to_a_process_that_heals(monkeypatch: pytest.MonkeyPatch) -> None:
    stand, now = Stand("raft"), 5_000
    monkeypatch.setattr(by_votes, "boot_ms", lambda: now)
    mode = started(stand)
    mode.tick()
    assert read_roster(stand.disk, str(ROOT)) is None, "before the group is founded nothing is known"
    founders = (voter(1), own(stand), voter(3))
    mode.heard(stand.hello(voter(1), ABOUT, founders))
    assert read_roster(stand.disk, str(ROOT)) == {1, 2, 3}
    mode.heard(stand.hello(voter(4), ABOUT, founders))
    assert read_roster(stand.disk, str(ROOT)) == {1, 2, 3, 4}, "it may become a member before the next tick"
    now += 59_999
    mode.tick()
    assert mode.roster.brokers == (1, 2, 3, 4), "a link that comes and goes does not rewrite the list"
    now += 1
    mode.tick()
    assert read_roster(stand.disk, str(ROOT)) == {1, 2, 3}, "it is neither a member nor linked"
    assert mode.core is not None
    members, later = mode.core.raft.ground.members, Position(mode.core.commit + 100)
    members.add(later, Configuration((voter(1), own(stand), voter(5))))
    mode.tick()
    assert mode.roster.brokers == (1, 2, 3, 5), "whichever of the two is committed in the end"
    members.forget(later)
    mode.tick()
    assert mode.roster.brokers == (1, 2, 5)
    assert not stand.failures


def test_who_says_hello_is_known_before_it_may_become_a_member() -> None:
    stand, known = Stand("raft"), list[frozenset[int] | None]()
    mode = started(stand)
    founders = (voter(1), own(stand), voter(3))
    mode.heard(stand.hello(voter(1), ABOUT, founders))

    def step(event: Input) -> None:
        stand.steps.append(event)
        if isinstance(event, MembersWanted):
            known.append(read_roster(stand.disk, str(ROOT)))

    mode._host = Host(step, stand.failures.append, lambda _: None, lambda: None, lambda: ())
    mode.heard(stand.hello(voter(3, "another store"), ABOUT, founders))
    mode._options = replace(mode._options, peers={**mode._options.peers, 4: mode._options.peers[3]})
    mode.heard(stand.hello(voter(4), ABOUT, founders))
    assert known[-1] == {1, 2, 3, 4}


def test_a_replica_that_was_not_told_the_members_yet_knows_nobody() -> None:
    stand = Stand("raft")
    mode = started(stand)
    mode.heard(stand.hello(voter(1), ABOUT, (voter(1), voter(2, "former"), voter(3))))
    mode.tick()
    assert read_roster(stand.disk, str(ROOT)) is None


def test_a_founder_that_lost_its_memory_ends_its_process() -> None:
    stand = Stand("raft", broker_id=1)
    mode = started(stand)
    mode.heard(stand.hello(voter(2), ABOUT, (own(stand), voter(2), voter(3))))
    assert "has founded its group" in str(stand.failures[0])
    assert isinstance(mode.machine, Unfounded)


@pytest.mark.parametrize("about", [encode_about(About(mode="static", address="b:1")), "", "{"])
def test_a_replica_of_another_mode_is_not_listened_to(about: str) -> None:
    stand = Stand("raft")
    mode = started(stand)
    hello = stand.hello(voter(1), ABOUT, (voter(1), own(stand), voter(3)))
    mode.heard(dataclasses.replace(hello, about=about))
    assert isinstance(mode.machine, Unfounded)


def test_a_group_keeps_its_mode() -> None:
    stand = Stand("raft")
    stand.mode = "static"
    with pytest.raises(ReplicaFileError, match="a group in mode raft"):
        stand.opened(log_empty=True)


def test_the_guardian_of_a_leader_is_told_its_lease_and_that_of_a_follower_none() -> None:
    stand = Stand("raft", broker_id=2)
    mode = started(stand)
    mode.heard(stand.hello(voter(1), ABOUT, (voter(1), own(stand), voter(3))))
    assert mode.lease is None


def test_the_guardian_of_a_leader_is_told_until_when_nobody_else_is_elected(monkeypatch: pytest.MonkeyPatch) -> None:
    led = Led(Stand("raft"))
    led.acknowledge(1, led.write())
    leading = led.core.raft.leading
    assert leading is not None
    until = leading.leased_until
    assert until > led.now
    for now, lease in ((until - 1, Lease(Epoch(1), until)), (until, None)):
        monkeypatch.setattr(by_votes, "boot_ms", lambda at=now: at)
        assert led.mode.lease == lease


def test_an_order_to_rebuild_is_carried_out_and_told_to_whoever_is_linked() -> None:
    stand = Stand("raft")
    mode = started(stand)
    mode.heard(stand.hello(voter(1), ABOUT, (voter(1), own(stand), voter(3))))
    core, told = mode.core, list[int]()
    assert core is not None

    def step(event: Input) -> None:
        core.step(event, core.raft.ground.clock.now)

    mode._host = Host(step, stand.failures.append, lambda _: None, lambda: told.append(core.cluster.reset), lambda: ())
    last = core.raft.ground.last
    mode.rebuild(Rebuild(1, Epoch(1), ((own(stand), Point(last.epoch, Position(last.position + 1))),)))
    assert told == [], "it was for another log"
    mode.rebuild(Rebuild(1, Epoch(1), ((own(stand), last),)))
    assert told == [1]


def election(ms: int) -> dict[str, object]:
    return {"founders": [1, 2, 3], "election": {"timeoutMs": f"{ms}ms", "spreadMs": "100ms", "heartbeatMs": "20ms"}}


def told_ms(mode: ByVotes) -> int:
    about = decode_about(mode.greet().about)
    assert about is not None
    return about.election_ms


def test_replicas_tell_each_other_how_long_they_wait_for_a_leader_before_they_are_counted_on() -> None:
    stand = Stand("raft")
    mode = started(stand, raft=election(700))
    assert told_ms(mode) == 0, "nobody counts on who belongs to no group"
    founders = (voter(1), own(stand), voter(3))
    mode.heard(stand.hello(voter(1), ABOUT, founders))
    assert told_ms(mode) == 700
    assert stand.opened(log_empty=False).election_ms == 700
    waits = About(mode="raft", address="b:1", election_ms=300)
    mode.heard(stand.hello(voter(3), waits, founders))
    assert stand.steps[-1] == Patience({voter(3): 300}), "who does not tell has the own one"
    mode.heard(stand.hello(voter(3), About(mode="raft", address="b:1", election_ms=900), founders))
    assert stand.steps[-1] == Patience({voter(3): 900})
    count = len(stand.steps)
    mode.tick()
    assert len(stand.steps) == count, "what was said is not said again"


def test_a_replica_that_waits_less_than_before_owes_the_longer_time_until_it_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand = Stand("raft")
    mode = started(stand, raft=election(700))
    mode.heard(stand.hello(voter(1), ABOUT, (voter(1), own(stand), voter(3))))
    stand.file = stand.opened(log_empty=False)
    now = boot_ms()
    again = started(stand, raft=election(300))
    assert told_ms(again) == 300
    assert again.core is not None
    ground = again.core.raft.ground
    monkeypatch.setattr(ground.clock, "now", now + 690)
    again.tick()
    assert (ground.quarantined, stand.file.election_ms) == (True, 700)
    monkeypatch.setattr(ground.clock, "now", ground.clock.started_at + 700)
    again.tick()
    assert (ground.quarantined, stand.file.election_ms) == (False, 300)


class Led:
    """Broker 2, which leads since all were heard, and followers whose logs are as long as the test says."""

    def __init__(self, stand: Stand) -> None:
        self.stand = stand
        self.mode = started(stand)
        self.mode.heard(stand.hello(voter(1), ABOUT, (voter(1), own(stand), voter(3))))
        assert self.mode.core is not None
        self.core = self.mode.core
        self.now = self.core.raft.ground.clock.now
        while self.core.raft.role is not Role.PRE_CANDIDATE:
            self.now += 50
            self.step(Tick())
        self.hear(VoteAnswer(granted=True, pre=True))
        self.step(Flushed(self.core.raft.ground.durable.token))
        self.hear(VoteAnswer(granted=True))
        assert self.core.leads == 1
        stand.log.begin_epoch(Epoch(1))
        self.write()

    def step(self, event: Input) -> None:
        self.core.step(event, self.now)

    def hear(self, body: object, number: int = 1) -> None:
        self.step(Received(Envelope(self.core.cluster, voter(number), own(self.stand), Epoch(1), body)))

    def write(self) -> Position:
        """One more record, durable here."""
        log = self.stand.log
        append(self.stand.store)
        self.step(Appended())
        while (batch := log.take_batch()) is not None:
            batch.write_and_flush()
            log.flushed(batch)
        self.step(Flushed(self.core.raft.ground.durable.token))
        return log.end

    def acknowledge(self, number: int, end: Position) -> None:
        leading = self.core.raft.leading
        assert leading is not None
        sender = leading.shipper.sender(voter(number))
        assert sender is not None
        self.hear(HeartbeatAck(leading.shipper.rounds.last, end), number)
        self.hear(AppendAck(sender.generation, end, end), number)

    def in_sync(self) -> list[int]:
        return [each.broker_id for each in self.mode.followers() if each.in_sync]


def test_a_follower_that_is_a_moment_behind_all_the_time_is_in_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under load the slower of two always lacks what the other one has just helped to commit."""
    led, began = Led(Stand("raft")), boot_ms()
    ends = [led.write()]
    for second in range(1, 5):
        monkeypatch.setattr("logherd.app.group.by_votes.boot_ms", lambda at=began + 1_000 * second: at)
        led.mode.tick()
        ends.append(led.write())
        led.acknowledge(1, ends[-1])
        led.acknowledge(3, ends[-2])
        assert led.core.commit == ends[-1]
    assert led.in_sync() == [1, 3]
    assert list(led.mode.members().members) == [1, 2, 3]
    for second in range(5, 8):
        monkeypatch.setattr("logherd.app.group.by_votes.boot_ms", lambda at=began + 1_000 * second: at)
        led.mode.tick()
        led.acknowledge(1, led.write())
    assert led.in_sync() == [1], "which is no moment any more"


def test_a_follower_without_a_vote_is_known_as_one_whom_nobody_awaits(monkeypatch: pytest.MonkeyPatch) -> None:
    led = Led(Stand("raft"))
    assert [(each.broker_id, each.awaited) for each in led.mode.followers()] == [(1, True), (3, True)]
    current = led.core.raft.ground.members.current
    monkeypatch.setattr(type(current), "is_voter", lambda self, each: each in self.voters and each != voter(3))
    assert [(each.broker_id, each.awaited) for each in led.mode.followers()] == [(1, True), (3, False)]


def test_a_broker_whose_lost_store_still_has_its_vote_is_one_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its metrics would else be there twice. Of the two stores it is the one that is heard."""
    led, new = Led(Stand("raft")), voter(3, "t")
    current = led.core.raft.ground.members.current
    for members in ((voter(1), voter(3), new), (voter(1), new, voter(3))):
        monkeypatch.setattr(type(current), "members", members)
        assert [(each.broker_id, each.awaited, each.flushed) for each in led.mode.followers()] == [
            (1, True, None), (3, True, None),
        ]  # fmt: skip
    end = led.write()
    led.acknowledge(3, end)
    for members in ((voter(1), voter(3), new), (voter(1), new, voter(3))):
        monkeypatch.setattr(type(current), "members", members)
        assert [(each.broker_id, each.flushed) for each in led.mode.followers()] == [(1, None), (3, end)]


def test_since_when_a_follower_lacks_something_is_known_while_it_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of one that is away; and under load one that is a moment behind is no longer behind than that."""
    led, began = Led(Stand("raft")), boot_ms()

    def tick(second: int) -> dict[int, int | None]:
        monkeypatch.setattr("logherd.app.group.by_votes.boot_ms", lambda: began + 1_000 * second)
        led.mode.tick()
        return {each.broker_id: each.in_step_at for each in led.mode.followers()}

    assert tick(0) == {1: None, 3: None}, "of neither anything is known"
    ends = [led.write()]
    led.acknowledge(1, ends[-1])
    led.acknowledge(3, ends[-1])
    assert None not in tick(1).values()
    for second in range(2, 6):
        ends.append(led.write())
        led.acknowledge(1, ends[-2])
        seen = tick(second)
    assert seen == {1: began + 4_000, 3: began + 1_000}


def test_a_change_of_members_tells_for_how_long_it_has_been_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    led, began = Led(Stand("raft")), boot_ms()
    led.acknowledge(1, led.write())
    led.mode.retime(options_of("raft", raft={"founders": [1, 2, 3], "members": [1, 2]}))
    led.step(led.stand.steps[-1])
    led.step(Tick())
    ages = []
    for second in (1, 3):
        monkeypatch.setattr("logherd.app.group.by_votes.boot_ms", lambda at=began + 1_000 * second: at)
        led.mode.tick()
        pending = led.mode.pending(began + 1_000 * second)
        ages.append(pending.age_ms if pending is not None else None)
    assert ages == [0, 2_000]
