"""What a follower promises, whom it believes, and when it does not stand."""

from dataclasses import replace

import pytest

from logherd.model.names import Epoch, Position
from logherd.raft import follower as follower_module
from logherd.raft.core import RaftCore, found_group
from logherd.raft.inputs import Applied, DiskFull, Flushed, Read, Received, StoreBroken, Tick
from logherd.raft.members import Configuration
from logherd.raft.memory import MemoryLog
from logherd.raft.messages import Doubtful, TimeoutNow, Trusted, VoteAnswer, VoteRequest
from logherd.raft.options import RaftOptions
from logherd.raft.output import MembersChanged, Output, Refusal, Refused, Role
from logherd.raft.record import Kind
from logherd.raft.store import HardState
from logherd.replication.epochs import ORIGIN
from logherd.replication.log import Image
from logherd.replication.messages import (
    Append,
    AppendAck,
    ClusterId,
    Envelope,
    Heartbeat,
    ReadAsk,
    ReadGrant,
    ReplicaId,
    Stale,
)

A, B, C = ReplicaId("a"), ReplicaId("b"), ReplicaId("c")
CLUSTER = ClusterId("test")
HARD = HardState(CLUSTER, A)
OPTIONS = RaftOptions()


def new_core(
    *, term: int = 1, doubtful: bool = False, options: RaftOptions = OPTIONS, members: Configuration | None = None,
    seed: int = 1,
) -> tuple[RaftCore, MemoryLog]:  # fmt: skip
    log = MemoryLog()
    hard = replace(HARD, term=Epoch(term), doubtful=doubtful)
    found_group(log, hard, (A, B, C))
    if members is not None:
        log.keep_image(Image("founding", ORIGIN, 0, 0, 0, members.encode()), b"")
    return RaftCore(log, options, hard=hard, seed=seed, now=0), log


def mail(body: object, *, term: int = 1, sender: ReplicaId = B) -> Received:
    return Received(Envelope(CLUSTER, sender, A, Epoch(term), body))


def records(*bodies: bytes, term: int = 1, kind: Kind = Kind.DATA, commit: int = 0) -> Append:
    """All that a leader has, from the first record on."""
    theirs = MemoryLog()
    end = theirs.append_all(kind, Epoch(term), bodies)[-1]
    return Append(1, theirs.read(Position(0), 1 << 20), Position(min(commit, end)))


def flush(core: RaftCore, now: int) -> Output:
    return core.step(Flushed(core.ground.durable.token), now)


def doubt_of(core: RaftCore) -> int:
    out = core.step(mail(Heartbeat(1, Position(0))), 1)
    (doubt,) = [each.body for each in (*out.messages, *out.held) if isinstance(each.body, Doubtful)]
    return doubt.number


@pytest.mark.parametrize("missing", ["flush", "commit"])
def test_a_doubt_ends_only_once_its_record_is_committed_and_flushed_here(missing: str) -> None:
    core, log = new_core(doubtful=True)
    number = doubt_of(core)
    core.step(mail(records(b"one")), 2)
    end = log.end
    if missing == "flush":
        core.step(mail(Heartbeat(2, end)), 3)
        assert core.ground.progress.commit == end
    else:
        flush(core, 3)
    core.step(mail(Trusted(number, end)), 4)
    assert core.ground.doubtful
    flush(core, 5)
    core.step(mail(Heartbeat(3, end)), 5)
    core.step(mail(Trusted(number, end)), 6)
    assert not core.ground.doubtful


def test_each_life_has_a_doubt_of_its_own() -> None:
    numbers = {doubt_of(new_core(doubtful=True, seed=seed)[0]) for seed in range(5)}
    assert len(numbers) == 5


def test_the_only_voter_left_of_a_change_that_goes_on_doubts_like_any_other() -> None:
    core, _ = new_core(doubtful=True, members=Configuration((A,), outgoing=(A, B, C)))
    assert core.ground.doubtful
    core.step(Tick(), 60_000)
    assert core.ground.doubtful


def test_a_vote_request_of_a_former_term_takes_no_vote_of_this_one() -> None:
    core, _ = new_core(term=5)
    out = core.step(mail(VoteRequest(ORIGIN), term=4), 2_000)
    assert (out.messages, out.held) == ((), ())
    assert core.ground.hard.vote is None


def test_a_candidate_that_hears_the_leader_of_its_term_follows_and_acknowledges() -> None:
    core, log = new_core()
    now = 0
    while core.role is Role.FOLLOWER:
        now += 20
        core.step(Tick(), now)
    core.step(mail(VoteAnswer(granted=True, pre=True), term=2), now)
    flush(core, now)
    assert core.role is Role.CANDIDATE
    core.step(mail(records(b"one", term=2), term=2, sender=C), now)
    assert (core.role, core.leader) == (Role.FOLLOWER, C)
    assert [each.body for each in flush(core, now).messages] == [AppendAck(1, log.end, log.end)]


@pytest.mark.parametrize("reason", ["a learner", "a full disk", "a broken store", "a disk that does not answer"])
@pytest.mark.parametrize("told", [False, True])
def test_who_could_not_lead_does_not_stand_and_not_when_it_is_told_to(reason: str, told: bool) -> None:
    learner = Configuration((B, C), learners=(A,))
    core, _ = new_core(members=learner if reason == "a learner" else None)
    match reason:
        case "a full disk":
            core.step(DiskFull(full=True), 0)
        case "a broken store":
            core.step(StoreBroken(broken=True), 0)
        case "a disk that does not answer":
            core.step(mail(records(b"one")), 0)
    for now in range(0, 5_000, 100):
        core.step(Tick(), now)
    if told:
        core.step(mail(TimeoutNow()), 5_000)
    assert core.role is Role.FOLLOWER


def test_a_cut_brings_the_members_back_that_were_there_before_any_of_what_is_cut() -> None:
    core, log = new_core(options=replace(OPTIONS, owner_appends=True))
    change = [Configuration((A, B)).encode(), Configuration((A, C)).encode()]
    for number in (1, 2):
        core.step(mail(records(*change[:number], kind=Kind.MEMBERS)), number)
        flush(core, number)
    assert core.ground.members.current.voters == (A, C)
    out = core.step(mail(records(b"another", term=2), term=2, sender=C), 3)
    assert core.ground.members.current.voters == (A, B, C)
    assert MembersChanged(core.ground.members.current, Position(0)) in out.events
    assert log.epochs.last_epoch == 2


def test_what_an_image_covers_is_known_to_be_committed_after_a_restart() -> None:
    _, log = new_core()
    end = log.append(Kind.DATA, Epoch(1), b"one")
    point = log.epochs.point_at(end)
    log.keep_image(Image("later", point, log.seal_at(end), 0, 0, Configuration((A, B, C)).encode()), b"")
    hard = log.hard_state()
    assert hard is not None
    again = RaftCore(log, OPTIONS, hard=hard, seed=2, now=0)
    assert again.ground.progress.commit == end


def asking() -> tuple[RaftCore, int]:
    """A follower that has asked its leader about the read 7, and by which number."""
    core, _ = new_core()
    core.step(mail(Heartbeat(1, Position(0))), 1)
    (ask,) = [each.body for each in core.step(Read(7), 2).messages]
    assert isinstance(ask, ReadAsk)
    return core, ask.number


def test_a_read_that_the_leader_may_not_serve_is_refused_here() -> None:
    core, number = asking()
    assert core.step(mail(ReadGrant(number, None)), 3).answers == (Refused(7, Refusal.NOT_READY, B),)
    assert core.step(mail(ReadGrant(number, Position(0))), 4).answers == ()


def test_a_read_that_the_leader_does_not_answer_is_refused_in_time() -> None:
    core, number = asking()
    core.step(mail(Heartbeat(2, Position(0))), 900)
    assert core.step(Tick(), 1 + OPTIONS.election_ms).answers == ()
    assert core.step(Tick(), 2 + OPTIONS.election_ms).answers == (Refused(7, Refusal.TIMED_OUT, B),)
    assert core.step(mail(ReadGrant(number, Position(0))), 1_100).answers == ()


def test_a_read_that_was_asked_of_a_former_leader_is_refused_once() -> None:
    core, _ = asking()
    assert core.step(mail(Stale(), term=2, sender=C), 3).answers == (Refused(7, Refusal.NOT_LEADER, None),)
    assert core.step(mail(Stale(), term=3, sender=C), 4).answers == ()


def test_a_read_for_which_a_follower_that_takes_no_records_would_have_to_is_refused_in_time() -> None:
    core, number = asking()
    core.step(DiskFull(full=True), 3)
    assert core.step(mail(ReadGrant(number, Position(1))), 900).answers == ()
    core.step(mail(Heartbeat(2, Position(0))), 1_800)
    assert core.step(Tick(), 899 + OPTIONS.election_ms).answers == ()
    assert core.step(Tick(), 900 + OPTIONS.election_ms).answers == (Refused(7, Refusal.TIMED_OUT, B),)
    assert core.step(Tick(), 901 + OPTIONS.election_ms).answers == ()


def test_a_read_that_waits_for_records_of_a_former_leader_is_refused_once() -> None:
    core, number = asking()
    core.step(mail(ReadGrant(number, Position(1))), 3)
    assert core.step(mail(Stale(), term=2, sender=C), 4).answers == (Refused(7, Refusal.NOT_LEADER, None),)
    assert core.step(mail(Stale(), term=3, sender=C), 5).answers == ()


def test_reads_that_wait_for_the_leader_and_for_records_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_module, "READS_MAX", 2, raising=False)
    core, number = asking()
    core.step(mail(ReadGrant(number, Position(1))), 3)
    assert core.step(Read(8), 4).answers == ()
    assert core.step(Read(9), 5).answers == (Refused(9, Refusal.NOT_LEADER, B),)


def test_what_is_committed_stays_committed() -> None:
    core, log = new_core()
    core.step(mail(records(b"one", b"two")), 1)
    assert core.ground.commit(log.end)
    for position in (log.end, Position(0)):
        assert not core.ground.commit(position)
        assert core.ground.progress.commit == log.end


def test_what_was_applied_stays_applied_and_only_reads_that_need_more_go_on_waiting() -> None:
    core, log = new_core()
    first = log.append(Kind.DATA, Epoch(1), b"one")
    second = log.append(Kind.DATA, Epoch(1), b"two")
    core.ground.commit(second)
    for request, position in ((1, first), (2, second)):
        core.ground.grant_read(request, position)
    assert [answer.request for answer in core.step(Applied(first), 1).answers] == [1]
    assert [answer.request for answer in core.step(Applied(second), 1).answers] == [2]
    core.step(Applied(first), 1)
    core.ground.grant_read(3, second)
    assert [answer.request for answer in core.step(Tick(), 2).answers] == [3]
