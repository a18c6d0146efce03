"""Design 4: a leader hears whether clients arrive at it by the address that follows the leader."""

from hypothesis import given
from hypothesis import strategies as st

from logherd.controller.leases import LeaseTerms
from logherd.controller.reports import Granted
from logherd.controller.values import GroupKey
from logherd.model.names import Epoch
from unit.controller.desk import KEY, Desk

TERMS = LeaseTerms(lease_ms=3_000)


def led() -> Desk:
    desk = Desk(terms=TERMS)
    desk.found(1, 2, 3, master=1)
    return desk


def finds(desk: Desk, broker: int = 1) -> bool:
    """What a leader hears with its lease."""
    answer = desk.beat(2, 3, broker)
    assert isinstance(answer, Granted)
    return answer.endpoint


def test_the_leader_hears_it_for_one_lease_and_then_it_must_be_said_again() -> None:
    desk = led()
    assert not finds(desk)
    desk.office.endpoint_leads(KEY, desk.group.epoch, desk.now)
    for _ in range(29):
        desk.now += 100
        assert finds(desk)
    desk.now += 100
    assert not finds(desk)
    desk.office.endpoint_leads(KEY, desk.group.epoch, desk.now)
    assert finds(desk)


def test_what_was_said_of_the_epoch_before_is_not_said_to_the_next_leader() -> None:
    desk = led()
    desk.office.endpoint_leads(KEY, desk.group.epoch, desk.now)
    desk.release(1, exited=True)
    desk.wait(50, 2, 3)
    assert desk.group.epoch == 2
    assert desk.group.master is not None
    assert not finds(desk, desk.group.master.broker_id)


def test_the_next_leading_controller_knows_nothing_until_it_is_told() -> None:
    desk = led()
    desk.office.endpoint_leads(KEY, desk.group.epoch, desk.now)
    desk.reopen()
    assert not finds(desk)


def test_of_a_group_that_is_not_known_nothing_is_kept() -> None:
    desk = led()
    desk.office.endpoint_leads(GroupKey("c", "nobody"), Epoch(1), desk.now)
    assert desk.office._endpoints == {}


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("say"), st.integers(0, 4)), st.tuples(st.just("wait"), st.integers(1, 900)),
            st.tuples(st.just("elect"), st.just(0)), st.tuples(st.just("reopen"), st.just(0)),
        ),
        max_size=40,
    )
)  # fmt: skip
def test_whatever_happens_it_is_heard_exactly_of_the_own_epoch_and_while_it_is_fresh(
    steps: list[tuple[str, int]],
) -> None:
    desk = led()
    said: tuple[int, int] | None = None
    for step, number in steps:
        if step == "say":
            desk.office.endpoint_leads(KEY, Epoch(number), desk.now)
            said = (number, desk.now)
        elif step == "wait":
            desk.now += number
        elif step == "reopen":
            desk.reopen()
            said = None
        elif (master := desk.group.master) is not None:
            desk.release(int(master.broker_id), exited=False)
        answer = desk.beat(1, 2, 3)
        for broker in (1, 2, 3):
            answer = desk.beat(broker)
            if isinstance(answer, Granted):
                fresh = said is not None and desk.now - said[1] < TERMS.lease_ms
                assert answer.endpoint == (fresh and said is not None and said[0] == answer.view.epoch)
        for command in desk.office.decide(desk.now):
            desk.submit(command)
