"""A follower answers reads itself, in all three modes: never what is not committed, and nothing that may be old."""

from collections.abc import Callable

import pytest

from logherd.controller.values import BrokerId
from logherd.group.inputs import ReadWanted
from logherd.group.reading import ASK_AGAIN_MS, READ_MS, Reading
from logherd.group.table import Table
from logherd.group.voting_reads import VotedReads
from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch, Position
from logherd.raft.output import ReadReady, Refusal, Refused
from logherd.replication.epochs import Point
from logherd.replication.messages import ReadAsk, ReadGrant
from unit.group.ring import Replica, StaticRing, VotingRing
from unit.group.stage import Node, Stage

Group = Stage | StaticRing | VotingRing
Member = Node | Replica

_SYNCHRONOUS = Table(number=1, leader=BrokerId(1), address="b1:10911", synchronous=(BrokerId(2), BrokerId(3)), copies=3)


@pytest.fixture(params=[Stage, lambda: StaticRing(_SYNCHRONOUS), VotingRing], ids=["controller", "static", "raft"])
def group(request: pytest.FixtureRequest) -> Group:
    make: Callable[[], Group] = request.param
    return make()


def started(group: Group) -> tuple[Member, Member]:
    """A leader with a record that all have, and one who follows it."""
    leader: Member = group.run_until_served() if isinstance(group, Stage) else group.until_served()
    group.run(2_000)
    leader.append()
    group.run(200)
    follower = next(node for node in group.nodes.values() if node is not leader)
    assert follower.committed == leader.committed
    return leader, follower


def want(group: Group, node: Member) -> Position | None:
    """Somebody reads there, and asks again when the leader has had time to answer."""
    node.feed(ReadWanted())
    group.run(10)
    return node.core.readable(group.now)


def test_a_follower_reads_what_is_committed_once_its_leader_has_said_so(group: Group) -> None:
    leader, follower = started(group)
    assert follower.core.readable(group.now) is None
    assert want(group, follower) == leader.committed
    assert leader.core.readable(group.now) is None  # it needs nobody's leave


def test_what_is_not_committed_cannot_be_read(group: Group) -> None:
    leader, follower = started(group)
    committed = leader.committed
    for node in group.nodes.values():
        node.slow = node is not follower
    end = leader.append()
    group.run(20)
    assert follower.log.end == end
    assert want(group, follower) == committed


def showing(leader: Member, upto: Position, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its store shows no more for now, however much is committed."""
    monkeypatch.setattr(type(leader.log), "shown", property(lambda _: upto))


def test_what_the_leader_does_not_show_yet_cannot_be_read(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = started(group)
    before = leader.committed
    showing(leader, before, monkeypatch)
    leader.append()
    group.run(200)
    assert follower.committed > before
    assert want(group, follower) == before
    monkeypatch.undo()
    group.run(READ_MS)
    assert want(group, follower) == leader.committed


def test_before_a_leader_shows_its_barrier_it_gives_no_leave(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who led before may have told more than it shows."""
    leader, follower = started(group)
    showing(leader, Position(0), monkeypatch)
    group.run(READ_MS)
    assert want(group, follower) is None
    monkeypatch.undo()
    group.run(READ_MS)
    assert want(group, follower) is not None


def test_the_leaders_word_counts_for_a_while_only(group: Group) -> None:
    leader, follower = started(group)
    assert want(group, follower) is not None
    group.run(READ_MS)
    assert follower.core.readable(group.now) is None
    assert want(group, follower) == leader.committed


def test_who_is_cut_off_reads_nothing_any_more(group: Group) -> None:
    _, follower = started(group)
    assert want(group, follower) is not None
    group.isolate(follower)  # type: ignore[arg-type]
    for _ in range(READ_MS // 10):
        want(group, follower)
    assert follower.core.readable(group.now) is None
    group.heal()
    group.run(3_000)
    assert want(group, follower) is not None


def test_who_lacks_what_was_committed_when_it_asked_reads_nothing(group: Group) -> None:
    """In static mode nothing would be committed without it."""
    if isinstance(group, StaticRing):
        return
    leader, follower = started(group)
    follower.slow = True
    leader.append()
    group.run(20)
    while leader.committed != leader.log.end:
        group.run(10)  # in controller mode, until the slow one has left the set
    assert want(group, follower) is None
    follower.slow = False
    follower.flush()
    group.run(200)
    assert want(group, follower) == leader.committed


def test_a_leader_whose_lease_is_over_gives_no_leave() -> None:
    """Both are cut off, together: they hear each other, and neither knows what the others have agreed on since."""
    stage = Stage()
    leader, follower = started(stage)
    assert want(stage, follower) is not None
    third = next(node for node in stage.nodes.values() if node not in (leader, follower))
    assert isinstance(leader, Node)
    assert isinstance(follower, Node)
    stage.desk.deaf = {leader.id, follower.id}
    stage.cut = {(each.id, third.id) for each in (leader, follower)} | {(third.id, 1), (third.id, 2), (third.id, 3)}
    while leader.serves is not None:
        stage.run(10)
    stage.run(READ_MS)
    assert want(stage, follower) is None
    assert follower.core.leads is None


def test_the_leader_is_not_asked_for_every_read(group: Group) -> None:
    _, follower = started(group)
    asked: list[int] = []
    feed = follower.feed
    for at in range(ASK_AGAIN_MS):
        output = feed(ReadWanted())
        asked += [at for envelope in output.messages if isinstance(envelope.body, ReadAsk)]
        group.run(1)
    assert len(asked) == 1


def test_a_later_epoch_begins_without_leave(group: Group) -> None:
    leader, follower = started(group)
    assert want(group, follower) is not None
    leader.alive = False
    if isinstance(group, StaticRing):
        group.assign(Table(number=2, leader=BrokerId(follower.id), address="b2:10911", holds=_point_of(follower)))
    if isinstance(group, Stage):
        group.run_until_served()
    else:
        group.until_served()
    third = next(node for node in group.nodes.values() if node not in (leader, follower))
    after = third if follower.serves is not None else follower
    group.run(2 * READ_MS)
    assert after.core.readable(group.now) is None
    assert want(group, after) == after.committed


def test_who_has_what_its_leader_lacks_reads_nothing_also_while_nobody_has_accepted_that_loss() -> None:
    """Two were promoted by mistake, and the operator goes on with one of them: the other one keeps what it has."""
    ring = StaticRing(Table(number=1, leader=BrokerId(1), address="b1:10911"))
    old = ring.until_served()
    old.append()
    ring.run(500)
    ring.kill(old)
    named, other = ring.nodes[2], ring.nodes[3]
    ring.isolate(named)
    for node in (named, other):
        two = Table(number=2, leader=BrokerId(node.id), address="b:10911", holds=_point_of(node), forgiven=2)
        ring.assign(two, node)
    for node, count in ((named, 1), (other, 4)):
        ring.until_served(by=node.id)
        for _ in range(count):
            node.append()
        ring.run(100)
    ring.assign(Table(number=3, leader=BrokerId(2), address="b:10911", holds=_point_of(named), forgiven=2))
    ring.heal()
    ring.until_served(by=named.id)
    ring.run(6_000)
    assert other.committed >= named.committed, "its place alone says nothing against it"
    for _ in range(10):
        assert want(ring, other) is None


def _point_of(node: Member) -> Point:
    return node.log.epochs.point_at(node.committed)


# ---- the leader's word, in controller and static mode ---------------------------------------------------------------


def reading() -> tuple[int, Node, Reading]:
    """A follower's, that has asked nothing yet, and the time there."""
    _, follower = started(Stage())
    assert isinstance(follower, Node)
    return follower.core.ground.now, follower, Reading(follower.core.ground)


def test_of_two_words_the_one_that_was_asked_for_later_counts_whichever_comes_first() -> None:
    now, follower, leave = reading()
    committed = follower.committed
    leave.on_grant(ReadGrant(now, committed))
    leave.on_grant(ReadGrant(now - READ_MS // 2, Position(committed + 1)))
    assert leave.readable(now) == committed
    assert leave.readable(now + READ_MS - 1) == committed
    assert leave.readable(now + READ_MS) is None


def test_a_leader_that_gives_no_leave_takes_back_what_it_gave() -> None:
    now, follower, leave = reading()
    leave.on_grant(ReadGrant(now, follower.committed))
    leave.on_grant(ReadGrant(now, None))
    assert leave.readable(now) is None


def test_no_word_counts_that_nobody_can_have_asked_for_yet() -> None:
    now, follower, leave = reading()
    leave.on_grant(ReadGrant(now + 1, follower.committed))
    assert leave.readable(now) is None


def test_nothing_is_read_that_is_known_to_be_committed_and_not_shown_here_yet() -> None:
    stage = Stage()
    leader = stage.run_until_served()
    learner, end = stage.slow_learner(leader)
    ground, leave = learner.core.ground, Reading(learner.core.ground)
    assert (ground.commit, ground.told < end) == (end, True)
    leave.on_grant(ReadGrant(ground.now, end))
    assert leave.readable(ground.now) is None
    learner.flush()
    assert leave.readable(ground.now) == end


def test_nobody_is_asked_where_nobody_leads_or_the_log_is_another_one() -> None:
    now, follower, leave = reading()
    out = follower.core.ground.out
    leave.want(None)
    assert not out.messages
    leave.on_grant(ReadGrant(now, follower.committed))
    leave.end()
    leave.want(follower.core.identity)
    assert not out.messages
    assert leave.readable(now) is None


# ---- the leader's word, in raft mode --------------------------------------------------------------------------------


def test_a_few_questions_wait_for_an_answer_and_those_of_an_earlier_term_keep_nobody_from_asking() -> None:
    """A log that is behind answers none of them, perhaps for hours."""
    reads, few = VotedReads(Position(8)), READ_MS // ASK_AGAIN_MS
    asked = [bool(reads.want(number, Epoch(1), number * ASK_AGAIN_MS)) for number in range(2 * few)]
    assert asked == [True] * few + [False] * few
    now = 2 * few * ASK_AGAIN_MS
    assert reads.want(100, Epoch(2), now)
    reads.on_answer(Refused(0, Refusal.TIMED_OUT, None))
    assert reads.want(101, Epoch(1), now + ASK_AGAIN_MS)


def test_an_answer_counts_from_when_its_own_question_was_asked() -> None:
    """Though others have been asked since: the leader may have lost its majority in between."""
    reads = VotedReads(Position(8))
    reads.want(1, Epoch(1), 0)
    reads.want(2, Epoch(1), READ_MS - 10)
    assert reads.waits
    reads.on_answer(ReadReady(1, Position(8)))
    assert (reads.readable(Epoch(1), READ_MS - 1), reads.readable(Epoch(1), READ_MS)) == (8, None)
    reads.on_answer(ReadReady(2, Position(8)))
    assert reads.readable(Epoch(1), READ_MS) == 8
    assert not reads.waits


def test_what_the_shell_was_not_told_of_is_not_read_in_raft_mode_either() -> None:
    reads = VotedReads(Position(8))
    reads.want(1, Epoch(1), 0)
    reads.on_answer(ReadReady(1, Position(9)))
    assert reads.readable(Epoch(1), 1) is None
    reads.shown(Position(9))
    assert reads.readable(Epoch(1), 1) == 9


def test_leave_that_was_given_in_a_term_ends_with_it() -> None:
    reads = VotedReads(Position(8))
    reads.want(1, Epoch(1), 0)
    reads.on_answer(ReadReady(1, Position(8)))
    assert reads.readable(Epoch(1), 1) == 8
    assert reads.readable(Epoch(2), 1) is None


def test_what_the_shell_was_told_to_be_committed_is_never_taken_back() -> None:
    reads = VotedReads(Position(8))
    reads.shown(Position(8))
    with pytest.raises(InvariantError, match="what is committed stays so"):
        reads.shown(Position(7))
