"""Static mode's table of roles: its arithmetic at the ends, and what makes none."""

from dataclasses import replace

import pytest

from logherd.controller.values import BrokerId
from logherd.group.table import Promotion, Table, first_epoch, is_near, is_worn_out, next_epoch, next_table
from logherd.kit.errors import InvariantError
from logherd.model.names import Epoch
from logherd.replication.epochs import ORIGIN

B1, B2 = BrokerId(1), BrokerId(2)
STARTS_SHIFT = 24


def test_a_table_without_a_single_copy_is_none() -> None:
    """Not even the leader's own would be waited for."""
    with pytest.raises(InvariantError, match="as many can have a copy as must"):
        Table(number=1, leader=B1, copies=0)


def test_a_promotion_says_where_clients_reach_the_next_leader() -> None:
    order = Promotion(after=1, leader=B2, holds=ORIGIN, loss=True, address="b2:20911")
    assert next_table(Table(number=1, leader=B1, address="b1:10911"), order).address == "b2:20911"
    assert next_table(Table(number=1, leader=B1), replace(order, address="")).address == ""


def test_a_leader_may_have_started_so_often_since_a_replica_heard_of_it_and_not_once_more() -> None:
    seen = Epoch(first_epoch(3) + (5 << STARTS_SHIFT))
    ahead = Epoch(seen + (1 << 17 + STARTS_SHIFT))
    assert is_near(ahead, seen)
    assert not is_near(Epoch(ahead + (1 << STARTS_SHIFT)), seen)
    assert is_near(Epoch(first_epoch(4) + (1 << 17 + STARTS_SHIFT)), seen), "those of another table count for nothing"


def test_starts_in_a_later_table_wear_out_no_earlier_one() -> None:
    last = Epoch(first_epoch(4) - 1)
    assert (is_worn_out(3, last), is_worn_out(2, last)) == (True, False)
    assert next_epoch(2, last, "a") >> STARTS_SHIFT == (first_epoch(2) >> STARTS_SHIFT) + 1
    with pytest.raises(InvariantError, match="lasts for so many starts"):
        next_epoch(3, last, "a")
