"""How a group stands that no controllers lead, from the pages of its brokers."""

from typing import Any

import pytest

from logherd_operator.observed.brokers import group_of_brokers
from logherd_operator.observed.quorum import Group, Table

Document = dict[str, Any]


def follower(number: int, **fields: Any) -> Document:
    return {"brokerId": number, "connected": True, "inSync": True, "flushed": 90, "lagBytes": 0} | fields


def page(number: int, *, mode: str = "raft", **fields: Any) -> Document:
    """Of a broker that follows; `fields` are of its replication."""
    replication: Document = {
        "mode": mode, "serving": False, "epoch": 4, "followers": [], "pending": None,
        "inSync": {"members": [1, 2, 3], "version": 7, "minInSync": 2}, "positions": {"end": 100},
    }  # fmt: skip
    return {
        "brokerId": number, "storeId": f"store-{number}", "address": f"h:{number}", "replication": replication | fields,
    }  # fmt: skip


def leading(number: int = 1, followers: tuple[Document, ...] = (), **fields: Any) -> Document:
    return page(number, serving=True, followers=[*(followers or (follower(2), follower(3)))], **fields)


def roles(number: int, *, table: int = 1, eligible: bool = False, **fields: Any) -> Document:
    told = {"brokerId": number, "table": table, "leader": 1, "synchronous": [2], "copies": 2, "eligible": eligible}
    return told | fields


def voting(*pages: Document, founded: bool = True) -> Group:
    found = group_of_brokers("raft", pages, founded=founded, replicas=3)
    assert found is not None
    return found


def static(pages: tuple[Document, ...], tables: tuple[Document, ...]) -> Group:
    found = group_of_brokers("static", pages, tables, founded=True, replicas=3)
    assert found is not None
    return found


def test_who_serves_in_the_latest_epoch_leads_and_says_who_belongs_to_the_group() -> None:
    followers = (follower(2), follower(3, connected=False, inSync=False, lagBytes=None))
    members = {"members": [1, 2], "version": 7, "minInSync": 2}
    found = voting(leading(3, epoch=3), leading(1, followers, inSync=members), page(2))
    assert (found.leader, found.epoch, found.led, found.in_sync) == (1, 4, True, (1, 2))
    assert (found.rules.min_in_sync, found.eligible) == (2, ())
    assert [(each.broker_id, each.alive, each.learner, each.lag) for each in found.replicas] == [
        (1, True, False, 0), (2, True, False, 0), (3, False, False, 100),
    ]  # fmt: skip
    assert found.replica(2) is not None
    assert found.replica(2).store_id == "store-2"  # type: ignore[union-attr]


def test_a_leader_that_does_not_serve_counts_for_nothing_and_who_voted_may_hold_what_no_other_has() -> None:
    found = voting(page(1, role="leader"), page(2, positions={"end": 90}))
    assert (found.leader, found.led, found.in_sync, found.eligible) == (None, False, (), (1, 2, 3))
    assert [(each.broker_id, each.lag) for each in found.replicas] == [(1, 0), (2, 10)]
    assert found.why == "no broker serves as leader; brokers 1, 2 answer"
    assert voting(page(2)).why == "no broker serves as leader; broker 2 answers"


def test_a_follower_without_a_vote_is_known_by_the_list_of_those_who_vote() -> None:
    newcomer = follower(4, inSync=False, lagBytes=50)
    found = voting(leading(1, (follower(2), follower(3), newcomer), pending={"members": [1, 2, 3, 4]}), page(2))
    assert found.replica(4).learner  # type: ignore[union-attr]
    assert not found.replica(3).learner  # type: ignore[union-attr]
    assert found.own is not None
    assert (found.own.changing, found.own.keeping_up, found.own.table) == (True, (), None)
    earlier = {"members": [1, 2, 3], "version": 6, "minInSync": 2}
    found = voting(leading(1, (follower(2), newcomer)), page(2, inSync=earlier))
    assert not found.replica(4).learner, "nobody tells"  # type: ignore[union-attr]


def test_a_group_is_founded_once_somebody_knows_who_votes() -> None:
    nobody = {"members": [], "version": 0, "minInSync": 0}
    fresh = [page(number, inSync=nobody, epoch=0) for number in (1, 2)]
    found = voting(*fresh, founded=False)
    assert (found.founded, found.led) == (False, False)
    assert found.why.startswith("2 of 3 brokers answer; the group is founded when all have spoken")
    assert voting(*fresh, founded=True).founded
    assert voting(*fresh, page(3), founded=False).founded


@pytest.mark.parametrize("broken", [{}, {"brokerId": 1}, page(1, mode="static"), page(1, inSync=None)])
def test_what_cannot_be_read_has_not_answered(broken: Document) -> None:
    assert group_of_brokers("raft", [broken], founded=True, replicas=3) is None
    assert voting(broken, leading(2)).leader == 2


def test_a_table_of_roles_says_who_is_awaited_and_the_others_only_keep_up() -> None:
    followers = (follower(2), follower(3, inSync=False, lagBytes=1000), follower(4, inSync=False, lagBytes=1 << 30))
    members = {"members": [1, 2], "version": 1, "minInSync": 2}
    tables = (roles(1, eligible=True), roles(2, eligible=True), roles(3))
    found = static((leading(1, followers, mode="static", inSync=members),), tables)
    assert found.own is not None
    assert found.own.table == Table(number=1, leader=1, synchronous=(2,), copies=2, promotable=(1, 2))
    assert found.own.keeping_up == (3,)
    assert [found.settled(number) for number in (1, 2, 3, 4)] == [True, True, True, False]
    assert [each.broker_id for each in found.replicas if each.learner] == [3, 4]


def test_who_does_not_know_the_latest_table_cannot_say_that_its_promotion_loses_nothing() -> None:
    tables = (roles(1, eligible=True), roles(3, table=2, leader=2, synchronous=[3], eligible=True))
    found = static((page(1, mode="static"), page(3, mode="static")), tables)
    assert found.own is not None
    assert found.own.table == Table(number=2, leader=2, synchronous=(3,), copies=2, promotable=(3,))
    assert found.why == "broker 2 leads by table 2, in epoch 4, and does not serve; brokers 1, 3 answer"


def test_a_leader_that_waits_for_whom_its_table_names_is_not_said_to_serve_and_nothing_else() -> None:
    followers = (follower(2, inSync=False),)
    members = {"members": [1], "version": 1, "minInSync": 2}
    found = static((leading(1, followers, mode="static", inSync=members),), (roles(1), roles(2)))
    assert found.why == "broker 1 leads, and writes wait: 1 of at least 2 replicas are in sync"
    members = {"members": [1, 2], "version": 1, "minInSync": 2}
    found = static((leading(1, (follower(2),), mode="static", inSync=members),), (roles(1), roles(2)))
    assert found.why == "broker 1 leads and serves"
