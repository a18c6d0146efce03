"""Whom the choice falls on, and who is waited for: the pure functions, from states that the office seldom sees."""

from collections.abc import Iterable, Mapping

import pytest
from msgspec.structs import replace

from logherd.controller.choosing import SeenOf, absent_members, best_of, choose, founders, outrun_loses, unfit
from logherd.controller.reports import Report, Seen
from logherd.controller.values import BrokerId, Group, Registration, Replica, Rules, SyncSet, Tenure, Transfer
from logherd.controller.verdicts import Refusal
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN, Point
from unit.controller.desk import KEY, point


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(each) for each in brokers)


def replica(broker: int, *, learner: bool = False, exited: bool = False) -> Replica:
    return Replica(
        broker_id=BrokerId(broker), store_id=f"s{broker}", incarnation=f"s{broker}.1", learner=learner, exited=exited,
        registration=Registration(broker),
    )  # fmt: skip


def led_by(broker: int, *, ended: bool = False) -> Tenure:
    return Tenure(
        broker_id=BrokerId(broker), store_id=f"s{broker}", incarnation=f"s{broker}.1",
        registration=Registration(broker), epoch=Epoch(4), ended=ended,
    )  # fmt: skip


def group(
    *replicas: Replica, members: Iterable[int] = (1, 2, 3), tenure: Tenure | None = None, target: int | None = None,
    preferred: int | None = None,
) -> Group:  # fmt: skip
    """Brokers 1, 2 and 3 if nobody is named."""
    return Group(
        key=KEY, replicas=replicas or tuple(map(replica, (1, 2, 3))), sync=SyncSet(members=ids(*members)),
        tenure=tenure, founded=True, epoch=Epoch(4), registrations=9,
        rules=Rules(replicas=3, min_in_sync=2, preferred=None if preferred is None else BrokerId(preferred)),
        transfer=None if target is None else Transfer(target=BrokerId(target), request="r"),
    )  # fmt: skip


def reporting(ends: Mapping[int, int], *, full: Iterable[int] = (), filled: Iterable[int] = ()) -> SeenOf:
    """Who reports, with the position at which its log ends; a disk may be `full`, or `filled` to the last byte."""

    def seen_of(each: Replica) -> Seen | None:
        if each.broker_id not in ends:
            return None
        report = Report(
            group=KEY, broker_id=each.broker_id, registration=each.registration, address="",
            end=point(4, ends[each.broker_id]), space=each.broker_id not in {*full, *filled},
            barrier=each.broker_id not in filled,
        )  # fmt: skip
        return Seen(report, 0)

    return seen_of


def chosen(state: Group, seen_of: SeenOf) -> int | None:
    found = choose(state, seen_of)
    return found.broker_id if found is not None else None


def test_who_led_last_is_no_candidate_while_its_leadership_stands_however_long_its_log() -> None:
    """It could have renewed its lease, and did not: its network or its disk are no better in the next epoch."""
    assert chosen(group(tenure=led_by(1)), reporting({1: 900, 2: 100, 3: 500})) == 3
    assert chosen(group(tenure=led_by(1)), reporting({1: 900})) is None


def test_who_led_last_may_begin_another_leadership_when_nobody_else_can() -> None:
    ended = group(tenure=led_by(1, ended=True))
    assert chosen(ended, reporting({1: 900, 2: 100})) == 2
    assert chosen(ended, reporting({1: 900})) == 1
    assert chosen(group(), reporting({1: 900})) == 1


def test_a_planned_target_that_cannot_lead_does_not_keep_others_from_it() -> None:
    state = group(tenure=led_by(1), target=2)
    assert chosen(state, reporting({2: 100, 3: 500})) == 2
    assert chosen(state, reporting({2: 100, 3: 500}, full=[2])) == 3
    assert chosen(state, reporting({3: 500})) == 3


def test_h4_who_has_space_is_preferred_however_short_its_log() -> None:
    """Each of them holds everything that is committed."""
    assert chosen(group(), reporting({1: 900, 2: 100, 3: 500}, full=[1, 3])) == 2
    assert chosen(group(tenure=led_by(1)), reporting({1: 900, 2: 100, 3: 500}, full=[3])) == 2
    assert chosen(group(tenure=led_by(1, ended=True)), reporting({1: 900, 2: 100, 3: 500}, full=[2, 3])) == 1
    eligible = replace(group(), sync=SyncSet(members=ids(1, 2), eligible=ids(3)))
    assert chosen(eligible, reporting({1: 900, 2: 100, 3: 50}, full=[1, 2])) == 3


def test_h4_where_nobody_has_space_the_longest_log_leads_all_the_same() -> None:
    """Consumers have to drain the backlog, and without a leader no snapshot lets retention delete."""
    assert chosen(group(), reporting({1: 900, 2: 100, 3: 500}, full=[1, 2, 3])) == 1
    assert chosen(group(tenure=led_by(1)), reporting({2: 100, 3: 500}, full=[2, 3])) == 3
    assert chosen(group(target=2), reporting({1: 900, 2: 100, 3: 500}, full=[1, 2, 3])) == 2
    assert chosen(group(tenure=led_by(1, ended=True)), reporting({1: 900}, full=[1])) == 1


def test_h4_whose_disk_cannot_take_a_barrier_never_leads() -> None:
    assert chosen(group(), reporting({1: 900, 2: 100, 3: 500}, full=[2], filled=[1, 3])) == 2
    assert chosen(group(), reporting({1: 900, 2: 100}, filled=[1, 2])) is None
    assert unfit(replica(1), reporting({1: 5}, filled=[1])(replica(1))) is Refusal.NOT_FIT
    assert unfit(replica(1), reporting({1: 5}, full=[1])(replica(1))) is None


def test_of_the_doubted_the_longest_log_leads_whoever_has_space() -> None:
    """A shorter one may lack what was acknowledged."""
    doubted = replace(group(), sync=SyncSet(members=(), doubted=ids(1, 2)))
    assert chosen(doubted, reporting({1: 900, 2: 100}, full=[1])) == 1
    assert chosen(doubted, reporting({1: 900, 2: 100}, full=[1, 2])) == 1
    assert chosen(doubted, reporting({1: 900, 2: 100}, filled=[2])) is None


def test_of_equal_logs_the_preferred_broker_wins_whatever_its_id() -> None:
    for preferred in (1, 2, 3):
        found = best_of(group(preferred=preferred), ids(1, 2, 3), reporting({1: 5, 2: 5, 3: 5}))
        assert found is not None
        assert found.broker_id == preferred


def test_r10_a_log_of_a_later_epoch_counts_for_more_than_a_longer_one() -> None:
    """What stands behind the last barrier that both have was never committed; what stands behind a later one may be."""
    ends = {1: point(3, 900), 2: point(4, 100)}

    def seen_of(each: Replica) -> Seen | None:
        end = ends.get(each.broker_id)
        report = Report(group=KEY, broker_id=each.broker_id, registration=each.registration, address="")
        return None if end is None else Seen(replace(report, end=end), 0)

    assert chosen(group(), seen_of) == 2
    doubted = replace(group(), sync=SyncSet(members=(), doubted=ids(1, 2)))
    assert chosen(doubted, seen_of) == 2


@pytest.mark.parametrize(
    ("each", "reason"),
    [
        (None, Refusal.UNKNOWN_REPLICA),
        (replace(replica(1), registration=Registration(0)), Refusal.UNKNOWN_REPLICA),
        (replica(1, learner=True), Refusal.LEARNER),
        (replica(1, exited=True), Refusal.NOT_ALIVE),
        (replica(1), None),
    ],
    ids=["nobody", "claimed", "learner", "exited", "fit"],
)
def test_what_keeps_a_replica_that_reports_from_leading_is_named(each: Replica | None, reason: Refusal | None) -> None:
    assert unfit(each, reporting({1: 5})(replica(1))) is reason


ENDS = (point(1, 100), point(2, 300), point(4, 600))
"""Then come records of epoch 5 up to 900, of which 890 is known to be committed."""


@pytest.mark.parametrize(
    ("committed", "ends", "lost"),
    [
        (ORIGIN, ENDS, False),
        (point(1, 40), ENDS, False),
        (point(1, 100), ENDS, False),
        (point(2, 100), ENDS, True),
        (point(2, 90), ENDS, True),
        (point(1, 101), ENDS, True),
        (point(2, 300), ENDS, False),
        (point(3, 250), ENDS, True),
        (point(3, 400), ENDS, True),
        (point(4, 400), ENDS, False),
        (point(1, 895), ENDS, True),
        (point(1, 40), (ORIGIN,), True),
        (ORIGIN, (ORIGIN,), False),
        (point(1, 895), (), True),
        (point(1, 450), (), False),
    ],
)
def test_what_the_longest_log_has_of_another_leadership_is_lost_to_whom_knows_it_committed(
    committed: Point, ends: tuple[Point, ...], *, lost: bool
) -> None:
    """Brokers of an earlier release tell of no ends; what they know to be committed says a little."""
    own = Report(
        group=KEY, broker_id=BrokerId(1), registration=Registration(1), address="", end=point(5, 900),
        committed=point(5, 890), epoch_ends=ends,
    )  # fmt: skip
    others = {
        BrokerId(1): own, BrokerId(2): replace(own, epoch_ends=()),
        BrokerId(3): replace(own, end=point(4, 950), committed=committed, epoch_ends=()),
    }  # fmt: skip
    found = outrun_loses(group(), replica(1), lambda each: Seen(others[each.broker_id], 0))
    assert found == ([3] if lost else [])


def test_only_members_that_may_yet_report_are_waited_for() -> None:
    state = group(replica(1), replica(2), replica(3, exited=True), tenure=led_by(1))
    assert absent_members(state, reporting({})) == [2]
    assert absent_members(state, reporting({2: 5})) == []
    assert absent_members(replace(state, tenure=None), reporting({2: 5})) == [1]


def test_a_group_is_founded_by_those_who_report_and_are_no_learners() -> None:
    state = group(replica(1), replica(2, learner=True), replica(3, exited=True), replica(4), members=())
    assert founders(state, reporting({1: 5, 2: 5, 3: 5})) == [1]
