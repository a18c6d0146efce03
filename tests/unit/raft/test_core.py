"""What the core refuses, and what its outputs promise."""

from dataclasses import replace

import pytest

from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch, Position
from logherd.raft.core import RaftCore, found_group
from logherd.raft.inputs import Applied, Flushed, Propose, ProposeAll, Read, Received, RecoverQuorum, Tick
from logherd.raft.memory import MemoryLog
from logherd.raft.messages import Doubtful, TimeoutNow, Trusted, VoteAnswer, VoteRequest
from logherd.raft.options import Jitter, RaftOptions
from logherd.raft.output import Decided, Output, Refusal, Refused, Role, Strange
from logherd.raft.record import Kind
from logherd.raft.store import HardState, StoreMismatchError
from logherd.replication.epochs import ORIGIN, Point
from logherd.replication.log import Span
from logherd.replication.messages import Append, AppendAck, ClusterId, Envelope, Heartbeat, ReplicaId, Stale
from logherd.replication.sender import ShipOptions

A, B, C = ReplicaId("a"), ReplicaId("b"), ReplicaId("c")
CLUSTER = ClusterId("test")
HARD = HardState(CLUSTER, A)


def new_core(*voters: ReplicaId, options: RaftOptions | None = None) -> tuple[RaftCore, MemoryLog]:
    log = MemoryLog()
    found_group(log, HARD, voters)
    return RaftCore(log, options or RaftOptions(), hard=HARD, seed=1, now=0), log


def mail(
    body: object, *, term: int, sender: ReplicaId = B, to: ReplicaId = A, cluster: ClusterId = CLUSTER
) -> Received:
    return Received(Envelope(cluster, sender, to, Epoch(term), body))


def lead_alone() -> RaftCore:
    core, _ = new_core(A)
    now = 0
    while core.leading is None:
        now += 20
        out = core.step(Tick(), now)
        if out.flush is not None:
            out = core.step(Flushed(out.flush), now)
    core.step(Flushed(core.ground.durable.token), now)
    return core


@pytest.mark.parametrize(
    "hard",
    [HardState(CLUSTER, B), HardState(ClusterId("other"), A)],
    ids=["another member's store", "another cluster's store"],
)
def test_a_store_of_somebody_else_is_refused_by_name(hard: HardState) -> None:
    log = MemoryLog()
    found_group(log, hard, (A, B))
    with pytest.raises(StoreMismatchError, match="not of a in test"):
        RaftCore(log, RaftOptions(), hard=HARD, seed=1, now=0)


def test_an_empty_store_is_refused() -> None:
    with pytest.raises(StoreMismatchError):
        RaftCore(MemoryLog(), RaftOptions(), hard=HARD, seed=1, now=0)


def test_a_store_is_founded_once() -> None:
    log = MemoryLog()
    found_group(log, HARD, (A,))
    with pytest.raises(InvariantError):
        found_group(log, HARD, (A,))


@pytest.mark.parametrize(
    "received",
    [
        mail(Heartbeat(1, Position(0)), term=9, cluster=ClusterId("other")),
        mail(Heartbeat(1, Position(0)), term=9, cluster=ClusterId("test", 1)),
        mail(Heartbeat(1, Position(0)), term=9, to=ReplicaId("a of old")),
    ],
    ids=["cluster", "reset", "identity"],
)
def test_a_message_of_another_cluster_or_for_another_life_changes_nothing(received: Received) -> None:
    core, _ = new_core(A, B, C)
    out = core.step(received, 10)
    assert [type(event) for event in out.events] == [Strange]
    assert out.messages == ()
    assert core.ground.term == 0


def test_an_unknown_message_is_reported_and_harmless() -> None:
    core, _ = new_core(A, B, C)
    assert "unknown message" in str(core.step(mail("what", term=0), 10).events)


def test_a_vote_waits_for_the_disk_and_a_refusal_does_not() -> None:
    core, _ = new_core(A, B, C)
    granted = core.step(mail(VoteRequest(ORIGIN), term=1), 1_500)
    assert granted.messages == ()
    assert [envelope.body for envelope in granted.held] == [VoteAnswer(granted=True)]
    assert granted.flush is not None
    refused = core.step(mail(VoteRequest(ORIGIN), term=1, sender=C), 1_501)
    assert [envelope.body for envelope in refused.messages] == [VoteAnswer(granted=False)]


def test_a_higher_term_is_adopted_before_the_log_is_judged() -> None:
    """openmessaging/dledger#325: judged the other way round, the group never agrees on a term."""
    core, log = new_core(A, B, C)
    log.append(Kind.DATA, Epoch(0), b"longer")
    core.step(mail(VoteRequest(ORIGIN), term=7), 1_500)
    assert core.ground.term == 7


def test_a_pre_vote_changes_nothing() -> None:
    core, _ = new_core(A, B, C)
    out = core.step(mail(VoteRequest(ORIGIN, pre=True), term=7), 1_500)
    assert out.flush is None
    assert core.ground.term == 0
    assert [(envelope.epoch, envelope.body) for envelope in out.messages] == [(7, VoteAnswer(granted=True, pre=True))]


def test_after_a_split_vote_it_asks_again_within_half_a_time_out_though_the_third_is_dead() -> None:
    core, _ = new_core(A, B, C)
    now, asked = 0, []
    while not asked:
        now += 20
        asked = [mail.body for mail in core.step(Tick(), now).messages if isinstance(mail.body, VoteRequest)]
    out = core.step(mail(VoteAnswer(granted=True, pre=True), term=core.ground.term + 1), now)
    assert out.flush is not None
    assert core.role is Role.CANDIDATE
    core.step(Flushed(out.flush), now)
    split_at = now
    core.step(mail(VoteAnswer(granted=False), term=core.ground.term), now)
    again: list[object] = []
    while not again:
        now += 20
        again = [mail.body for mail in core.step(Tick(), now).messages if isinstance(mail.body, VoteRequest)]
    assert now - split_at <= RaftOptions().election_ms // 2 + 20


def test_a_lost_pre_vote_lets_no_straggler_of_a_closed_connection_in() -> None:
    core, _ = new_core(A, B, C)

    def appended(generation: int, now: int) -> Output:
        return core.step(mail(Append(generation, Span(ORIGIN, ORIGIN.position, (), b""), ORIGIN.position), term=1), now)

    first = appended(5, 10)
    core.step(Flushed(first.flush or 0), 11)
    assert core.leader == B
    now = 11
    while core.role is not Role.PRE_CANDIDATE:
        now += 20
        core.step(Tick(), now)
    while core.role is not Role.FOLLOWER:
        now += 20
        core.step(Tick(), now)
    assert appended(3, now).messages == ()
    answered = appended(5, now)
    assert [type(each.body) for each in (*answered.messages, *answered.held)] == [AppendAck]


def test_a_leader_of_the_past_is_told_the_term() -> None:
    core, _ = new_core(A, B, C)
    core.step(mail(Stale(), term=5), 10)
    out = core.step(mail(Heartbeat(1, Position(0)), term=4), 20)
    assert [(envelope.epoch, envelope.body) for envelope in out.messages] == [(5, Stale())]


def test_a_record_is_decided_only_when_it_is_flushed_even_alone() -> None:
    core = lead_alone()
    out = core.step(Propose(1, b"x"), 5_000)
    assert out.answers == ()
    assert out.flush is not None
    assert [type(answer) for answer in core.step(Flushed(out.flush), 5_001).answers] == [Decided]


def test_proposals_of_one_pass_are_shipped_together_and_decided_one_by_one() -> None:
    core, log = new_core(A, B, C)
    now = 0
    while core.role is Role.FOLLOWER:
        now += 20
        core.step(Tick(), now)
    core.step(mail(VoteAnswer(granted=True, pre=True), term=1), now)
    core.step(Flushed(core.ground.durable.token), now)
    core.step(mail(VoteAnswer(granted=True), term=1), now)
    core.step(Flushed(core.ground.durable.token), now)
    core.step(mail(AppendAck(1, log.end, log.end), term=1), now)
    out = core.step(ProposeAll((Propose(1, b"x"), Propose(2, b"y"))), now)
    assert [type(envelope.body) for envelope in out.messages] == [Append]
    core.step(Flushed(core.ground.durable.token), now)
    decided = core.step(mail(AppendAck(1, log.end, log.end), term=1), now).answers
    assert [answer.request for answer in decided] == [1, 2]


def test_a_follower_refuses_with_a_hint() -> None:
    core, _ = new_core(A, B, C)
    core.step(mail(Heartbeat(1, Position(0)), term=1), 10)
    assert core.step(Propose(1, b"x"), 20).answers == (Refused(1, Refusal.NOT_LEADER, B),)


def test_a_read_without_a_leader_is_refused() -> None:
    core, _ = new_core(A, B, C)
    assert core.step(Read(1), 20).answers == (Refused(1, Refusal.NOT_LEADER, None),)


def test_quorum_recovery_is_refused_while_somebody_leads_or_by_wrong_words() -> None:
    core, _ = new_core(A, B, C)
    order = RecoverQuorum(1, 1, Epoch(9), ((A, ORIGIN),))
    core.step(mail(Heartbeat(1, Position(0)), term=1), 10)
    assert core.step(order, 20).answers == (Refused(1, Refusal.RUNNING, B),)
    for wrong in (
        RecoverQuorum(1, 0, Epoch(9), ((A, ORIGIN),)),
        RecoverQuorum(1, 1, Epoch(1), ((A, ORIGIN),)),
        RecoverQuorum(1, 1, Epoch(9), ((B, ORIGIN),)),
        RecoverQuorum(1, 1, Epoch(9), ((A, Point(Epoch(1), Position(9))),)),
        RecoverQuorum(1, 1, Epoch(9), ()),
    ):
        assert core.step(wrong, 3_000).answers == (Refused(1, Refusal.INVALID, None),)


def test_quorum_recovery_outlives_a_restart() -> None:
    """sofastack/sofa-jraft#676: a reset that is only in memory is undone by the next start."""
    core, log = new_core(A, B, C)
    core.step(RecoverQuorum(1, 1, Epoch(9), ((A, ORIGIN),)), 3_000)
    again = RaftCore(log, RaftOptions(), hard=HARD, seed=2, now=0)
    assert again.ground.hard.cluster.reset == 1
    assert again.ground.members.current.voters == (A,)


def test_the_clock_never_goes_back() -> None:
    core, _ = new_core(A)
    core.step(Tick(), 100)
    with pytest.raises(InvariantError):
        core.step(Tick(), 99)


def test_what_is_not_committed_cannot_have_been_applied() -> None:
    core, _ = new_core(A)
    with pytest.raises(InvariantError):
        core.step(Applied(Position(1)), 10)


def test_two_leaders_in_one_term_stop_the_process() -> None:
    core = lead_alone()
    with pytest.raises(InvariantError):
        core.step(mail(Heartbeat(1, Position(0)), term=core.ground.term), 9_000)


def test_a_leader_of_one_is_ready_after_its_own_flush() -> None:
    core = lead_alone()
    assert core.role is Role.LEADER
    assert core.leading is not None
    assert core.leading.ready


@pytest.mark.parametrize(
    "make",
    [
        lambda: RaftOptions(election_ms=500),
        lambda: RaftOptions(election_spread_ms=0),
        lambda: RaftOptions(uncommitted_records_max=0),
        lambda: ShipOptions(message_bytes_max=10, window_bytes=5),
        lambda: ShipOptions(answer_ms=9_000),
    ],
)
def test_limits_that_contradict_each_other_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(InvariantError):
        make()


def test_jitter_is_the_same_for_the_same_seed_and_spread() -> None:
    one, two = Jitter(7), Jitter(7)
    drawn = [one.below(1_000) for _ in range(200)]
    assert drawn == [two.below(1_000) for _ in range(200)]
    assert len(frozenset(drawn)) > 150
    assert drawn != [Jitter(8).below(1_000) for _ in range(200)]


def doubtful_core(*voters: ReplicaId) -> tuple[RaftCore, MemoryLog]:
    log = MemoryLog()
    found_group(log, replace(HARD, doubtful=True), voters)
    return RaftCore(log, RaftOptions(), hard=HARD, seed=1, now=0), log


def tick(core: RaftCore, since: int, until: int) -> None:
    for now in range(since, until, 100):
        out = core.step(Tick(), now)
        if out.flush is not None:
            core.step(Flushed(out.flush), now)


def test_the_only_voter_waits_for_others_for_a_while_and_keeps_in_its_first_promise_that_there_were_none() -> None:
    core, log = doubtful_core(A)
    tick(core, 0, 5_000)
    assert core.role is Role.FOLLOWER
    tick(core, 5_000, 8_000)
    assert core.role is Role.LEADER
    assert log.hard_state() == HardState(CLUSTER, A, Epoch(1), A)


@pytest.mark.parametrize("silent_since", [None, -60_000])
def test_the_only_voter_waits_from_its_start_on_for_others_may_start_with_it(silent_since: int | None) -> None:
    log = MemoryLog()
    found_group(log, replace(HARD, term=Epoch(3), doubtful=True), (A,))
    options = RaftOptions(first_election_ms=50)
    core = RaftCore(log, options, hard=HARD, seed=1, now=0, silent_since=silent_since)
    tick(core, 0, 5_000)
    assert core.role is Role.FOLLOWER


@pytest.mark.parametrize("heard_at", [4_000, 5_000])
def test_the_only_voter_follows_who_was_named_in_what_its_log_has_lost_and_counts_for_nothing(heard_at: int) -> None:
    """Also if its time was over, and it has only not stood yet: it forgets its doubt by nothing that others say."""
    core, log = doubtful_core(A)
    tick(core, 0, heard_at)
    assert core.role is Role.FOLLOWER
    out = core.step(mail(Heartbeat(1, Position(0)), term=1), heard_at)
    assert [type(each.body) for each in (*out.messages, *out.held)] == [Doubtful]
    tick(core, heard_at + 100, 30_000)
    assert (core.role, core.ground.doubtful) == (Role.FOLLOWER, True)
    hard = log.hard_state()
    assert hard is not None
    assert hard.doubtful


@pytest.mark.parametrize("pre", [True, False])
def test_the_only_voter_is_not_the_only_one_if_somebody_asks_for_its_vote(*, pre: bool) -> None:
    core, _ = doubtful_core(A)
    asked = core.step(mail(VoteRequest(Point(Epoch(1), Position(99)), pre=pre), term=2), 1_000)
    assert [each.body for each in (*asked.messages, *asked.held)] == [VoteAnswer(granted=False, pre=pre)]
    tick(core, 1_100, 30_000)
    assert core.role is Role.FOLLOWER


@pytest.mark.parametrize("pre", [True, False])
def test_who_was_a_voter_before_and_has_not_heard_that_it_is_none_any_more_keeps_nobody_in_doubt(*, pre: bool) -> None:
    """It was left running when the group was made smaller, and asks for ever."""
    log = MemoryLog()
    found_group(log, replace(HARD, term=Epoch(1), doubtful=True), (A,))
    log.append(Kind.NOOP, Epoch(1), b"")
    core = RaftCore(log, RaftOptions(), hard=HARD, seed=1, now=0)
    before = Point(Epoch(1), Position(core.ground.last.position - 1))
    for now in range(0, 8_000, 500):
        out = core.step(mail(VoteRequest(before, pre=pre), term=3), now)
        if out.flush is not None:
            core.step(Flushed(out.flush), now)
        tick(core, now + 1, now + 500)
    assert core.role is Role.LEADER


def test_a_doubtful_member_neither_stands_nor_votes_nor_takes_over() -> None:
    core, log = doubtful_core(A, B, C)
    last = Point(Epoch(0), Position(0))
    assert [core.step(Tick(), now).messages for now in range(0, 9_000, 100)] == [()] * 90
    asked = core.step(mail(VoteRequest(last, pre=True), term=1), 9_001).messages
    assert [envelope.body for envelope in asked] == [VoteAnswer(granted=False, pre=True)]
    for request in (VoteRequest(last), VoteRequest(last, transfer=True)):
        assert [e.body for e in core.step(mail(request, term=1), 9_002).messages] == [VoteAnswer(granted=False)]
    core.step(mail(TimeoutNow(), term=1), 9_003)
    assert core.role is Role.FOLLOWER
    assert log.hard_state() == HardState(CLUSTER, A, Epoch(1), None, doubtful=True)


def test_only_the_answer_to_the_doubt_of_this_life_ends_it_and_only_once_the_record_is_here() -> None:
    core, log = doubtful_core(A, B, C)
    out = core.step(mail(Heartbeat(1, Position(0)), term=1), 1)
    held = out.held[0].body if out.held else out.messages[0].body
    assert isinstance(held, Doubtful)
    for trusted in (Trusted(held.number + 1, Position(0)), Trusted(held.number, Position(28))):
        core.step(mail(trusted, term=1), 2)
        assert core.ground.doubtful
    core.step(mail(Trusted(held.number, Position(0)), term=1), 3)
    assert log.hard_state() == HardState(CLUSTER, A, Epoch(1))


def time_of_standing(core: RaftCore) -> int:
    return next(now for now in range(0, 6_000, 10) if core.step(Tick(), now) and core.role is Role.PRE_CANDIDATE)


def test_where_nobody_can_have_led_an_election_begins_early_and_only_there() -> None:
    early = RaftOptions(first_election_ms=50)
    assert time_of_standing(new_core(A, B, C, options=early)[0]) <= 50
    assert time_of_standing(new_core(A, B, C)[0]) >= 1_000
    core, _ = new_core(A, B, C, options=early)
    out = core.step(mail(VoteRequest(ORIGIN), term=1), 0)
    assert out.flush is not None
    core.step(Flushed(out.flush), 0)
    assert time_of_standing(core) >= 1_000


def after_a_restart(*, silent_since: int | None, now: int = 10_000) -> RaftCore:
    """In term 3, as a new life on the disk of a former one."""
    log = MemoryLog()
    found_group(log, HARD, (A, B, C))
    hard = replace(HARD, term=Epoch(3))
    log.keep_hard_state(hard)
    options = RaftOptions(first_election_ms=200)
    return RaftCore(log, options, hard=hard, seed=1, now=now, silent_since=silent_since)


def is_granted(core: RaftCore, now: int) -> bool:
    out = core.step(mail(VoteRequest(ORIGIN, pre=True), term=4), now)
    (answer,) = [envelope.body for envelope in out.messages if isinstance(envelope.body, VoteAnswer)]
    return answer.granted


@pytest.mark.parametrize(("silent_since", "from_ms"), [(None, 11_000), (9_400, 10_400), (9_000, 10_000)])
def test_a_new_life_owes_what_is_left_of_the_last_ones_promise(silent_since: int | None, from_ms: int) -> None:
    core = after_a_restart(silent_since=silent_since)
    if from_ms > 10_000:
        assert not is_granted(core, from_ms - 1)
    assert is_granted(core, from_ms)


def test_who_was_silent_for_an_election_timeout_stands_at_once_and_others_as_ever() -> None:
    rested, hasty = after_a_restart(silent_since=9_000), after_a_restart(silent_since=9_001)
    for core in (rested, hasty):
        core.step(Tick(), 10_200)
    assert (rested.role, hasty.role) == (Role.PRE_CANDIDATE, Role.FOLLOWER)


def test_a_leader_that_is_heard_ends_the_haste_of_a_start() -> None:
    core = after_a_restart(silent_since=0)
    core.step(mail(Heartbeat(1, Position(0)), term=3), 10_001)
    core.step(Tick(), 10_900)
    assert core.role is Role.FOLLOWER


def test_a_start_that_finds_nobody_becomes_patient() -> None:
    core = after_a_restart(silent_since=0)
    stood = 0
    for now in range(10_000, 60_000, 20):
        before = core.role
        core.step(Tick(), now)
        stood += core.role is Role.PRE_CANDIDATE and before is Role.FOLLOWER
    assert 20 < stood < 70


def test_nobody_can_have_been_silent_since_later_than_now() -> None:
    with pytest.raises(InvariantError):
        after_a_restart(silent_since=10_001)
