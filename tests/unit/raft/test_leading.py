"""What a leader may do before its first record is committed, and what it counts."""

from dataclasses import replace

import pytest

from logherd.model.names import Epoch, Position
from logherd.raft import leader as leader_module
from logherd.raft.core import RaftCore, found_group
from logherd.raft.inputs import (
    Appended,
    Applied,
    ChangeMembers,
    DiskFull,
    Flushed,
    Patience,
    Propose,
    ProposeAll,
    Read,
    Received,
    Tick,
    Transfer,
)
from logherd.raft.leader import Leader
from logherd.raft.members import Configuration, Goal
from logherd.raft.memory import MemoryLog
from logherd.raft.messages import Doubtful, TimeoutNow, Trusted, VoteAnswer, VoteRequest
from logherd.raft.options import RaftOptions
from logherd.raft.output import Decided, Output, ReadReady, Refusal, Refused, Role, Unknown
from logherd.raft.record import Kind
from logherd.raft.store import HardState
from logherd.replication.epochs import ORIGIN, Point
from logherd.replication.log import Image
from logherd.replication.messages import (
    AppendAck,
    ClusterId,
    Envelope,
    Heartbeat,
    HeartbeatAck,
    ReadAsk,
    ReadGrant,
    ReplicaId,
    Stale,
)

A, B, C, D = ReplicaId("a"), ReplicaId("b"), ReplicaId("c"), ReplicaId("d")
CLUSTER = ClusterId("test")
HARD = HardState(CLUSTER, A)
OPTIONS = RaftOptions()


class Led:
    """A leader of term 1 that has heard nobody since it was elected, and what the test does with it."""

    def __init__(self, *, options: RaftOptions = OPTIONS, members: Configuration | None = None) -> None:
        self.log = MemoryLog()
        found_group(self.log, HARD, (A, B, C))
        if members is not None:
            self.log.keep_image(Image("founding", ORIGIN, 0, 0, 0, members.encode()), b"")
        self.core = RaftCore(self.log, options, hard=HARD, seed=1, now=0)
        self.now = 0
        while self.core.role is Role.FOLLOWER:
            self.now += 20
            self.step(Tick())
        for answer in (VoteAnswer(granted=True, pre=True), VoteAnswer(granted=True)):
            for peer in (B, C):
                self.hear(answer, peer)
            self.flush()

    def step(self, event: object) -> Output:
        out = self.core.step(event, self.now)  # type: ignore[arg-type]
        self.sent = out.messages
        return out

    def hear(self, body: object, sender: ReplicaId = B) -> Output:
        return self.step(Received(Envelope(CLUSTER, sender, A, Epoch(1), body)))

    def flush(self) -> None:
        self.step(Flushed(self.core.ground.durable.token))

    def acked(self, sender: ReplicaId = B) -> AppendAck:
        """The answer of who has everything, in the exchange that is on."""
        shipper = self.leading.shipper
        sent = shipper.sender(sender)
        assert sent is not None
        return AppendAck(sent.generation, self.log.end, self.log.end)

    def alive(self, sender: ReplicaId = B) -> HeartbeatAck:
        """The answer to the newest round."""
        return HeartbeatAck(self.leading.shipper.rounds.last, self.log.end)

    def get_ready(self) -> None:
        self.hear(self.acked())
        assert self.leading.ready

    @property
    def leading(self) -> Leader:
        assert self.core.leading is not None
        return self.core.leading


def test_nothing_is_served_before_the_first_record_is_committed() -> None:
    led = Led(options=replace(OPTIONS, lease_reads=True))
    led.hear(led.alive())
    assert led.step(Propose(1, b"x")).answers == (Refused(1, Refusal.NOT_READY, A),)
    assert led.step(Read(2, lease=True)).answers == (Refused(2, Refusal.NOT_READY, A),)
    led.hear(ReadAsk(3))
    assert [each.body for each in led.sent] == [ReadGrant(3, None)]
    assert not led.leading.leased(led.now)
    assert led.leading.leased_until == 0
    led.get_ready()
    assert led.leading.leased(led.now)
    assert led.leading.leased_until == led.now + OPTIONS.lease_ms


def test_the_answer_of_who_waits_less_for_a_leader_gives_a_shorter_lease() -> None:
    """As while time-outs are being changed, one member after the other."""
    led = Led()
    led.get_ready()
    led.step(Patience({B: 400, C: 2 * OPTIONS.election_ms}))
    led.hear(led.alive(B), B)
    assert led.leading.leased_until == led.now + 300
    led.hear(led.alive(C), C)
    assert led.leading.leased_until == led.now + OPTIONS.lease_ms, "no longer than its own"
    led.step(Patience({B: 400, C: 600}))
    assert led.leading.leased_until == led.now + 450
    led.step(Patience({}))
    assert led.leading.leased_until == led.now + OPTIONS.lease_ms


@pytest.mark.parametrize(("waits_ms", "beats"), [(100, 20), (2 * OPTIONS.election_ms, 2)])
def test_who_waits_less_for_a_leader_hears_of_it_more_often(waits_ms: int, beats: int) -> None:
    led, sent = Led(), 0
    led.get_ready()
    led.step(Patience({B: waits_ms}))
    for _ in range(20):
        led.now += 20
        led.step(Tick())
        sent += sum(isinstance(each.body, Heartbeat) and each.to == B for each in led.sent)
    assert sent == beats, "in 400 ms, where heartbeats are 150 ms apart"


def test_a_change_that_another_leader_began_goes_on_only_after_the_first_record_is_committed() -> None:
    led = Led(members=Configuration((A, B, C), outgoing=(A, B, D)))
    kinds = [record.kind for record in led.log.records(Position(0), led.log.end)]
    assert led.core.role is Role.LEADER
    assert kinds == [Kind.NOOP]


@pytest.mark.parametrize("options", [OPTIONS, replace(OPTIONS, lease_reads=True)], ids=["not allowed", "not asked for"])
def test_a_read_is_served_from_the_lease_only_if_both_sides_want_that(options: RaftOptions) -> None:
    led = Led(options=options)
    led.get_ready()
    led.hear(led.alive())
    out = led.step(Read(1, lease=not options.lease_reads))
    assert out.answers == ()
    assert [type(each.body) for each in led.sent] == [Heartbeat, Heartbeat]
    answered = led.hear(led.alive())
    assert answered.answers == () or [type(each) for each in answered.answers] == [ReadReady]


def test_a_read_waits_for_a_round_that_begins_after_it_was_asked() -> None:
    led = Led()
    led.get_ready()
    before = led.alive()
    led.hear(before, C)
    out = led.step(Read(1))
    after = led.alive()
    assert after.round == before.round + 1
    led.hear(before)
    assert led.core.ground.progress.granted.count == 0
    commit = led.core.ground.progress.commit
    assert (out.answers, led.hear(after).answers) == ((), ())
    assert led.step(Applied(commit)).answers == (ReadReady(1, commit),)


def test_reads_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_module, "READS_MAX", 2)
    led = Led()
    led.get_ready()
    assert led.step(Read(1)).answers == ()
    led.hear(ReadAsk(2))
    assert led.step(Read(3)).answers == (Refused(3, Refusal.BUSY, A),)
    led.hear(ReadAsk(4))
    assert [each.body for each in led.sent] == [ReadGrant(4, None)]
    for _ in range(2):
        led.hear(led.alive())
    assert led.step(Read(5)).answers == ()
    assert led.step(Read(6)).answers == (Refused(6, Refusal.BUSY, A),), "the first one waits for the state"


def refused(out: Output) -> list[int]:
    return [answer.request for answer in out.answers if isinstance(answer, Refused) and answer.reason is Refusal.BUSY]


def test_what_is_proposed_together_is_bounded_as_if_one_by_one() -> None:
    led = Led(options=replace(OPTIONS, uncommitted_records_max=3, uncommitted_bytes_max=10))
    led.get_ready()
    many = tuple(Propose(number, b"x") for number in range(1, 6))
    assert refused(led.step(ProposeAll(many))) == [4, 5]
    assert refused(led.step(Propose(6, b"x"))) == [6]


def test_bytes_under_way_are_bounded_and_a_large_record_travels_alone() -> None:
    led = Led(options=replace(OPTIONS, uncommitted_bytes_max=10))
    led.get_ready()
    assert refused(led.step(ProposeAll((Propose(1, bytes(6)), Propose(2, bytes(5)), Propose(3, bytes(4)))))) == [2]
    assert refused(led.step(Propose(4, b"x"))) == [4]
    led.flush()
    led.hear(led.acked())
    assert refused(led.step(ProposeAll((Propose(5, bytes(99)), Propose(6, b""), Propose(7, b"x"))))) == [6, 7]
    assert refused(led.step(Propose(8, bytes(99)))) == [8]


def test_only_a_members_doubt_is_heard() -> None:
    led = Led()
    led.get_ready()
    end = led.log.end
    led.hear(Doubtful(7, led.alive()), D)
    assert led.log.end == end
    led.hear(Doubtful(7, led.alive()), C)
    assert led.log.end > end


def test_whoever_doubts_counts_for_no_record_and_no_read_until_the_record_of_its_doubt_is_committed() -> None:
    led = Led()
    led.get_ready()
    led.hear(Doubtful(7, led.acked(C)), C)
    record = led.log.end
    led.flush()
    led.step(Read(1))
    for answer in (led.acked(C), led.alive(C)):
        led.hear(Doubtful(7, answer), C)
        led.hear(answer, C)  # As if an earlier life had said it.
    assert led.core.ground.progress.commit < record
    assert led.core.ground.progress.granted.count == 0
    led.hear(led.acked(B))
    assert led.core.ground.progress.commit == record
    led.hear(Doubtful(7, led.alive(C)), C)
    assert Trusted(7, record) in [each.body for each in led.sent]
    assert led.core.ground.progress.granted.count == 0
    led.hear(led.alive(C), C)
    led.now += OPTIONS.ship.heartbeat_ms
    led.step(Tick())
    led.hear(led.alive(C), C)
    assert led.core.ground.progress.granted.count == 1


def test_a_leader_that_hears_nobody_leads_for_an_election_time_out_and_no_longer() -> None:
    led = Led()
    began = led.now
    while led.core.role is Role.LEADER:
        led.now += 1
        led.step(Tick())
    assert led.now == began + OPTIONS.election_ms


def test_a_change_that_waits_for_a_new_voter_is_given_up_in_time() -> None:
    led = Led()
    led.get_ready()
    led.step(ChangeMembers(5, Goal((A, B, D))))
    assert led.leading.changing
    until = led.now + OPTIONS.change_ms_max
    while led.now < until - 100:
        led.now += 100
        assert led.step(Tick()).answers == ()
        led.flush()
        led.hear(led.acked())
        led.hear(led.alive())
    led.now = until
    assert led.step(Tick()).answers == (Refused(5, Refusal.BEHIND, A),)
    assert not led.leading.changing


def test_of_a_change_that_a_leader_leaves_behind_nothing_is_known() -> None:
    led = Led()
    led.get_ready()
    led.step(ChangeMembers(5, Goal((A, B, D))))
    assert led.step(Received(Envelope(CLUSTER, B, A, Epoch(2), Stale()))).answers == (Unknown(5),)


def test_members_are_changed_only_by_a_leader_that_has_committed_in_its_term() -> None:
    led = Led()
    assert led.step(ChangeMembers(5, Goal((A, B, D)))).answers == (Refused(5, Refusal.NOT_READY, A),)
    led.get_ready()
    assert led.step(ChangeMembers(6, Goal((A, B, D)))).answers == ()


def test_a_second_change_waits_for_nobody_and_one_that_replaces_the_first_says_so() -> None:
    led = Led()
    led.get_ready()
    led.step(ChangeMembers(5, Goal((A, B, D))))
    assert led.step(ChangeMembers(6, Goal((A, B)))).answers == (Refused(6, Refusal.RUNNING, A),)
    assert led.step(ChangeMembers(7, Goal((A, C, D)), instead=True)).answers == (Refused(5, Refusal.BEHIND, A),)
    assert led.leading.goal == Goal((A, C, D))


def test_no_change_begins_while_leadership_is_handed_over() -> None:
    led = Led()
    led.get_ready()
    led.step(Transfer(4, C))
    assert led.leading.handing_over == C
    assert led.step(ChangeMembers(5, Goal((A, B, D)))).answers == (Refused(5, Refusal.RUNNING, A),)


def told_to_stand(led: Led) -> bool:
    return TimeoutNow in [type(each.body) for each in led.sent]


def test_who_was_told_to_stand_has_the_longest_log_though_somebody_doubts_meanwhile() -> None:
    """A record behind the back of B would make it lose: A has more then, and C may have it, too, and has no vote."""
    led = Led()
    led.get_ready()
    led.step(Transfer(1, B))
    assert told_to_stand(led)
    end = led.log.end
    led.hear(Doubtful(7, led.alive(C)), C)
    assert led.log.end == end
    led.now += OPTIONS.election_ms
    led.hear(led.alive(B))
    led.step(Tick())
    led.hear(Doubtful(7, led.alive(C)), C)
    assert led.log.end > end, "it did not stand, and C has waited long enough"


def test_who_was_told_to_stand_has_the_longest_log_though_members_are_due_to_be_named_again() -> None:
    led = Led(options=replace(OPTIONS, owner_appends=True, restate_ms=100))
    led.log.append(Kind.NOOP, Epoch(1), b"")
    led.step(Appended())
    led.flush()
    led.hear(led.acked())
    led.step(Transfer(1, B))
    assert told_to_stand(led)
    end = led.log.end
    led.now += 200
    led.step(Tick())
    assert led.log.end == end


def test_who_was_told_to_stand_has_the_longest_log_though_a_member_that_was_waited_for_catches_up() -> None:
    """A change of members keeps no leader without space, and goes on under the next one."""
    led = Led()
    led.get_ready()
    led.step(ChangeMembers(5, Goal((A, B, D))))
    led.step(DiskFull(full=False, short=True))
    while not led.leading.given_away:
        led.now += 100
        led.step(Tick())
        led.flush()
        for peer in (B, C):
            led.hear(led.acked(peer), peer)
            led.hear(led.alive(peer), peer)
    assert led.core.ground.members.current.learners == (D,)
    end = led.log.end
    for answer in (led.alive(D), led.acked(D)):
        led.hear(answer, D)
    assert led.log.end == end


def test_leadership_is_handed_to_nobody_who_doubts_and_the_lease_stays() -> None:
    """It would not stand, and there would be no lease for the rest of the term."""
    led = Led(options=replace(OPTIONS, lease_reads=True))
    led.get_ready()
    led.hear(Doubtful(7, led.alive(C)), C)
    led.flush()
    led.hear(Doubtful(7, led.acked(C)), C)
    for answer in (led.acked(), led.alive()):
        led.hear(answer)
    assert led.step(Transfer(4, C)).answers == (Refused(4, Refusal.INVALID, A),)
    assert not told_to_stand(led)
    assert led.leading.leased(led.now)


@pytest.mark.parametrize("goal", [Goal(()), Goal((A, B), learners=(B,))], ids=["nobody votes", "voter and learner"])
def test_a_goal_that_cannot_be_reached_is_refused(goal: Goal) -> None:
    led = Led()
    led.get_ready()
    assert led.step(ChangeMembers(5, goal)).answers == (Refused(5, Refusal.INVALID, A),)
    assert not led.leading.changing


def test_a_leader_without_room_changes_no_members_but_says_what_is_so_already() -> None:
    led = Led()
    led.get_ready()
    led.step(DiskFull(full=True))
    assert led.step(ChangeMembers(5, Goal((A, B, D)))).answers == (Refused(5, Refusal.DISK_FULL, A),)
    assert [type(each) for each in led.step(ChangeMembers(6, Goal((A, B, C)))).answers] == [Decided]


@pytest.mark.parametrize("pre", [False, True])
def test_a_leader_that_hears_a_quorum_is_not_disturbed_by_a_rival(pre: bool) -> None:
    led = Led()
    led.get_ready()
    led.now += OPTIONS.election_ms // 2
    led.step(Tick())
    led.hear(led.alive())
    request = VoteRequest(Point(Epoch(1), led.log.end), pre=pre)
    out = led.step(Received(Envelope(CLUSTER, C, A, Epoch(2), request)))
    assert [each.body for each in (*out.messages, *out.held) if isinstance(each.body, VoteAnswer)] == []
    assert (led.core.role, led.core.ground.term) == (Role.LEADER, 1)
