"""Promotions in static mode as the controllers record them: each number once, and none twice."""

from hypothesis import given
from hypothesis import strategies as st

from logherd.controller.commands import Promote
from logherd.controller.machine import Machine
from logherd.controller.values import BrokerId, Roles
from logherd.controller.verdicts import Promoted, Refusal
from unit.controller.desk import KEY

B2, B3 = BrokerId(2), BrokerId(3)


def test_a_promotion_is_recorded_once_and_may_be_said_again() -> None:
    machine, order = Machine(), Promote(group=KEY, after=1, broker_id=B2, table="t")
    assert machine.apply(order).events == (Promoted(KEY, B2, 2),)
    again = machine.apply(order)
    assert (again.refusal, again.events) == (None, ())
    assert machine.roles(KEY) == Roles(group=KEY, number=2, broker_id=B2, table="t")


def test_of_two_after_one_table_the_second_is_refused_and_hears_who_leads() -> None:
    machine = Machine()
    machine.apply(Promote(group=KEY, after=1, broker_id=B2, table="t"))
    other = machine.apply(Promote(group=KEY, after=1, broker_id=B3, table="t"))
    assert other.refusal is Refusal.FENCED_EPOCH
    assert other.detail == "broker 2 leads by table 2, the promotion was to follow 1"
    differing = machine.apply(Promote(group=KEY, after=1, broker_id=B2, table="u"))
    assert differing.refusal is Refusal.FENCED_EPOCH, "the same broker, with other followers"


def test_a_table_that_was_made_while_nobody_recorded_may_be_followed() -> None:
    machine = Machine()
    machine.apply(Promote(group=KEY, after=1, broker_id=B2, table="t"))
    assert machine.apply(Promote(group=KEY, after=5, broker_id=B3, table="t")).refusal is None
    assert machine.apply(Promote(group=KEY, after=3, broker_id=B2, table="t")).refusal is Refusal.FENCED_EPOCH


def test_an_image_has_the_record_and_one_without_any_is_as_before() -> None:
    machine = Machine()
    assert machine.save() == b'\x01{"groups":[],"settings":{}}'
    machine.apply(Promote(group=KEY, after=1, broker_id=B2, table="t"))
    loaded = Machine.load(machine.save())
    assert loaded.roles(KEY) == machine.roles(KEY)
    assert loaded.save() == machine.save()
    assert list(loaded) == [], "nobody is elected in such a group"


_orders = st.builds(
    Promote,
    group=st.just(KEY),
    after=st.integers(1, 6),
    broker_id=st.sampled_from((B2, B3)),
    table=st.sampled_from("tu"),
)


@given(st.lists(_orders, max_size=12))
def test_whatever_is_asked_for_each_number_is_one_promotion_and_numbers_rise(orders: list[Promote]) -> None:
    machine, recorded = Machine(), []
    for order in orders:
        verdict = machine.apply(order)
        roles = machine.roles(KEY)
        if verdict.refusal is None:
            assert roles == Roles(group=KEY, number=order.after + 1, broker_id=order.broker_id, table=order.table)
        if roles is not None and (not recorded or recorded[-1] != roles):
            recorded.append(roles)
    numbers = [roles.number for roles in recorded]
    assert numbers == sorted(set(numbers))
