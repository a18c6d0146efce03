"""What a vote waits for, and which answers are counted for which question."""

from dataclasses import replace

import pytest

from logherd.model.names import Epoch, Position
from logherd.raft.core import RaftCore, found_group
from logherd.raft.inputs import DiskFull, Flushed, Received, Tick
from logherd.raft.memory import MemoryLog
from logherd.raft.messages import VoteAnswer, VoteRequest
from logherd.raft.options import RaftOptions
from logherd.raft.output import Output, Role, Strange
from logherd.raft.record import Kind
from logherd.raft.store import HardState
from logherd.replication.epochs import ORIGIN, Point
from logherd.replication.log import Span
from logherd.replication.messages import Append, ClusterId, Envelope, Heartbeat, ReplicaId, Stale

A, B, C = ReplicaId("a"), ReplicaId("b"), ReplicaId("c")
CLUSTER = ClusterId("test")
HARD = HardState(CLUSTER, A)
ELECTION_MS = RaftOptions().election_ms


def new_core(
    *, term: int = 0, records: tuple[int, ...] = (), now: int = 0, owed_ms: int = 0
) -> tuple[RaftCore, MemoryLog]:
    """One of three members, in `term`, with records of these terms."""
    log = MemoryLog()
    found_group(log, HARD, (A, B, C))
    for epoch in records:
        log.append(Kind.DATA, Epoch(epoch), b"record")
    hard = replace(HARD, term=Epoch(term))
    log.keep_hard_state(hard)
    return RaftCore(log, RaftOptions(), hard=hard, seed=1, now=now, owed_ms=owed_ms), log


def mail(body: object, *, term: int, sender: ReplicaId = B) -> Received:
    return Received(Envelope(CLUSTER, sender, A, Epoch(term), body))


def answers(out: Output) -> list[VoteAnswer]:
    """Given, also those that wait for the disk."""
    return [each.body for each in (*out.messages, *out.held) if isinstance(each.body, VoteAnswer)]


def standing(core: RaftCore) -> int:
    """Let it stand; the time at which it asks for pre-votes."""
    for now in range(core.ground.clock.now, core.ground.clock.now + 10 * ELECTION_MS, 20):
        core.step(Tick(), now)
        if core.role is Role.PRE_CANDIDATE:
            return now
    raise AssertionError("it never stood")


def candidate() -> tuple[RaftCore, int, int]:
    """Of term 1; the time, and the token of its own vote, which is not flushed."""
    core, _ = new_core()
    now = standing(core)
    out = core.step(mail(VoteAnswer(granted=True, pre=True), term=1), now)
    assert core.role is Role.CANDIDATE
    assert out.flush is not None
    return core, now, out.flush


def test_a_candidates_own_vote_counts_only_once_it_is_flushed() -> None:
    core, now, token = candidate()
    core.step(mail(VoteAnswer(granted=True), term=1), now)
    assert core.role is Role.CANDIDATE
    core.step(Flushed(token - 1), now)
    assert core.role is Role.CANDIDATE
    core.step(Flushed(token), now)
    assert core.role is Role.LEADER


def test_nobody_leads_before_its_own_vote_is_flushed_though_all_others_voted_for_it() -> None:
    core, now, token = candidate()
    for peer in (B, C):
        core.step(mail(VoteAnswer(granted=True), term=1, sender=peer), now)
    assert core.role is Role.CANDIDATE
    core.step(Flushed(token), now)
    assert core.role is Role.LEADER


def test_of_one_voters_answers_the_first_counts_and_only_once() -> None:
    core, now, token = candidate()
    core.step(mail(VoteAnswer(granted=False), term=1), now)
    core.step(Flushed(token), now)
    core.step(mail(VoteAnswer(granted=True), term=1), now)
    assert core.role is Role.CANDIDATE


def test_who_cannot_win_any_more_follows() -> None:
    core, now, token = candidate()
    core.step(Flushed(token), now)
    for peer in (B, C):
        core.step(mail(VoteAnswer(granted=False), term=1, sender=peer), now)
    assert core.role is Role.FOLLOWER


def test_a_pre_vote_that_cannot_be_won_any_more_ends_at_once() -> None:
    core, _ = new_core(term=3)
    now = standing(core)
    for peer in (B, C):
        core.step(mail(VoteAnswer(granted=False, pre=True), term=3, sender=peer), now)
    assert core.role is Role.FOLLOWER


@pytest.mark.parametrize(
    ("answer", "term"),
    [
        (VoteAnswer(granted=True, pre=True), 5),
        (VoteAnswer(granted=True), 3),
        (VoteAnswer(granted=False), 3),
    ],
    ids=["a pre-vote for another term", "a vote", "a refused vote"],
)
def test_an_answer_to_another_question_is_not_counted_as_a_pre_vote(answer: VoteAnswer, term: int) -> None:
    core, _ = new_core(term=3)
    now = standing(core)
    for peer in (B, C):
        core.step(mail(answer, term=term, sender=peer), now)
    assert core.role is Role.PRE_CANDIDATE
    assert core.ground.term == 3


def test_a_pre_vote_is_not_counted_as_a_vote() -> None:
    core, now, token = candidate()
    core.step(Flushed(token), now)
    core.step(mail(VoteAnswer(granted=True, pre=True), term=1), now)
    assert core.role is Role.CANDIDATE


@pytest.mark.parametrize("pre", [False, True])
@pytest.mark.parametrize(
    ("term", "end", "granted"),
    [(2, 34, True), (1, 99, False), (2, 33, False)],
    ids=["all that is here", "longer, of an earlier term", "shorter"],
)
def test_only_who_holds_all_that_is_here_gets_a_vote(term: int, end: int, granted: bool, pre: bool) -> None:
    core, log = new_core(term=2, records=(2,))
    assert log.end == 34
    out = core.step(mail(VoteRequest(Point(Epoch(term), Position(end)), pre=pre), term=3), 2 * ELECTION_MS)
    assert [answer.granted for answer in answers(out)] == [granted]


def test_in_its_own_term_or_an_earlier_one_nobody_gets_a_pre_vote() -> None:
    core, _ = new_core(term=3)
    for term in (2, 3):
        out = core.step(mail(VoteRequest(ORIGIN, pre=True), term=term), 2 * ELECTION_MS)
        assert [(each.epoch, each.body) for each in out.messages] == [(3, VoteAnswer(granted=False, pre=True))]


def test_a_vote_is_given_once_in_a_term_and_may_be_said_again() -> None:
    core, _ = new_core()
    now = 2 * ELECTION_MS
    assert answers(core.step(mail(VoteRequest(ORIGIN), term=1), now)) == [VoteAnswer(granted=True)]
    assert answers(core.step(mail(VoteRequest(ORIGIN), term=1, sender=C), now)) == [VoteAnswer(granted=False)]
    assert answers(core.step(mail(VoteRequest(ORIGIN), term=1), now)) == [VoteAnswer(granted=True)]
    assert core.ground.hard.vote == B


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("stood", [False, True])
def test_who_has_heard_the_leader_of_a_term_votes_for_nobody_else_in_it(stood: bool, full: bool) -> None:
    """It may have forgotten that it made that leader, as on an older disk that nobody noticed."""
    core, _ = new_core(term=1)
    core.step(DiskFull(full=full), 0)
    shipped = Append(1, Span(ORIGIN, Position(0), (), b""), Position(0))
    core.step(mail(shipped, term=2), 2 * ELECTION_MS)
    core.step(DiskFull(full=False), 2 * ELECTION_MS)
    core.step(Flushed(core.ground.durable.token), 2 * ELECTION_MS)
    now = standing(core) if stood else 4 * ELECTION_MS
    out = core.step(mail(VoteRequest(ORIGIN), term=2, sender=C), now)
    assert answers(out) == [VoteAnswer(granted=False)]
    assert core.ground.hard.vote is None
    out = core.step(mail(VoteRequest(ORIGIN), term=3, sender=C), now)
    assert answers(out) == [VoteAnswer(granted=True)]


def test_a_vote_that_is_said_again_waits_for_the_disk_as_the_first_one() -> None:
    core, _ = new_core()
    now = 2 * ELECTION_MS
    core.step(mail(VoteRequest(ORIGIN), term=1), now)
    again = core.step(mail(VoteRequest(ORIGIN), term=1), now)
    assert not again.messages
    assert again.flush is not None


@pytest.mark.parametrize("transfer", [False, True])
def test_a_restarted_member_votes_for_nobody_who_was_not_told_to_stand_while_a_leader_may_have_its_promise(
    transfer: bool,
) -> None:
    core, _ = new_core(term=3, now=10_000)
    early = core.step(mail(VoteRequest(ORIGIN, transfer=transfer), term=4), 10_000 + ELECTION_MS - 1)
    assert answers(early) == [VoteAnswer(granted=transfer)]
    rested = core.step(mail(VoteRequest(ORIGIN), term=5), 10_000 + ELECTION_MS)
    assert answers(rested) == [VoteAnswer(granted=True)]


def test_a_restarted_member_neither_votes_nor_stands_while_what_an_earlier_life_told_may_be_counted_on() -> None:
    """Its shortest time-out was three times as long; a leader that heard it then may still serve reads."""
    core, _ = new_core(term=3, now=10_000, owed_ms=3 * ELECTION_MS)
    early = core.step(mail(VoteRequest(ORIGIN), term=4), 10_000 + 3 * ELECTION_MS - 1)
    assert answers(early) == [VoteAnswer(granted=False)]
    rested = core.step(mail(VoteRequest(ORIGIN), term=5), 10_000 + 3 * ELECTION_MS)
    assert answers(rested) == [VoteAnswer(granted=True)]
    alone, _ = new_core(term=3, now=10_000, owed_ms=3 * ELECTION_MS)
    assert standing(alone) >= 10_000 + 3 * ELECTION_MS


@pytest.mark.parametrize("pre", [False, True])
def test_while_a_leader_may_hold_a_lease_a_rival_gets_no_answer_and_no_term(pre: bool) -> None:
    core, _ = new_core(term=3)
    heard_at = 5 * ELECTION_MS
    core.step(mail(Heartbeat(1, Position(0)), term=3), heard_at)
    request = VoteRequest(ORIGIN, pre=pre)
    out = core.step(mail(request, term=4, sender=C), heard_at + ELECTION_MS - 1)
    assert (out.messages, out.held, core.ground.term) == ((), (), 3)
    out = core.step(mail(request, term=4, sender=C), heard_at + ELECTION_MS)
    assert answers(out) == [VoteAnswer(granted=True, pre=pre)]


def test_who_is_told_to_stand_is_voted_for_though_a_leader_was_just_heard() -> None:
    core, _ = new_core(term=3)
    core.step(mail(Heartbeat(1, Position(0)), term=3), 5 * ELECTION_MS)
    out = core.step(mail(VoteRequest(ORIGIN, transfer=True), term=4, sender=C), 5 * ELECTION_MS)
    assert answers(out) == [VoteAnswer(granted=True)]


def test_who_asks_for_pre_votes_in_a_term_of_the_past_while_a_leader_lives_learns_the_term() -> None:
    core, _ = new_core(term=3)
    core.step(mail(Heartbeat(1, Position(0)), term=3), 5 * ELECTION_MS)
    out = core.step(mail(VoteRequest(ORIGIN, pre=True), term=3, sender=C), 5 * ELECTION_MS)
    assert [(each.epoch, each.body) for each in out.messages] == [(3, Stale())]


def shortly_before_it_stands(*, records: tuple[int, ...] = ()) -> tuple[RaftCore, int]:
    """A member, and when it will stand, which is 20 ms from now."""
    core, _ = new_core(term=2, records=records)
    due = standing(new_core(term=2, records=records)[0])
    for now in range(0, due, 20):
        core.step(Tick(), now)
    return core, due


def test_a_refused_candidate_does_not_put_off_this_members_own_election() -> None:
    core, due = shortly_before_it_stands(records=(2,))
    assert answers(core.step(mail(VoteRequest(ORIGIN), term=2), due - 20)) == [VoteAnswer(granted=False)]
    core.step(Tick(), due)
    assert core.role is Role.PRE_CANDIDATE


def test_who_has_given_its_vote_waits_for_the_winner() -> None:
    core, due = shortly_before_it_stands()
    assert answers(core.step(mail(VoteRequest(ORIGIN), term=2), due - 20)) == [VoteAnswer(granted=True)]
    core.step(Tick(), due)
    assert core.role is Role.FOLLOWER


@pytest.mark.parametrize("term", [(1 << 58) + 6, (1 << 63) - 1])
@pytest.mark.parametrize(
    "body",
    [
        Heartbeat(1, Position(0)),
        Stale(),
        VoteRequest(ORIGIN),
        VoteRequest(ORIGIN, transfer=True),
        VoteAnswer(granted=False),
    ],
)
def test_a_term_to_which_no_group_has_come_is_not_kept(term: int, body: object) -> None:
    """Behind the last one that fits a message no election would end any more."""
    core, log = new_core(term=5)
    out = core.step(mail(body, term=term), 10_000)
    assert (core.ground.term, log.hard_state()) == (5, replace(HARD, term=Epoch(5)))
    assert out.events == (Strange(B, f"says term {term}, and here it is 5"),)
    assert (out.messages, out.held, out.flush) == ((), (), None)
    core.step(mail(body, term=(1 << 58) + 5), 10_000)
    assert core.ground.term == (1 << 58) + 5
