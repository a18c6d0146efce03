"""What controllers say on their admin port, the operator reads."""

from typing import Any

import msgspec
import pytest

from logherd.service.controllers.documents import (
    BrokerShape,
    GroupPage,
    LeaderShape,
    MasterShape,
    MemberShape,
    PointShape,
    QuorumPage,
    RulesShape,
    TransferShape,
)
from logherd.service.replica_view import FollowerView, InSyncView, PositionsView, ReplicationView, RequestsView
from logherd_operator.observed.documents import group_of, quorum_of, report_of, seen_by_leader, unknown_group
from logherd_operator.observed.quorum import Member, Rules


def broker(broker_id: int, epoch: int, position: int, **fields: Any) -> BrokerShape:
    values: dict[str, Any] = {
        "broker_id": broker_id, "address": f"b{broker_id}:10911", "store_id": f"store-{broker_id}",
        "registration": broker_id, "alive": True, "learner": False, "exited": False,
        "end": PointShape(epoch=epoch, position=position), "heard_ms": 10,
    }  # fmt: skip
    return BrokerShape(**values | fields)


def page(**fields: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "position": 1, "confirmed": True, "live": True, "cluster": "shop", "name": "orders", "epoch": 7, "version": 3,
        "founded": True,
        "leader": MasterShape(broker_id=1, address="b1:10911", registration=1, serving=True),
        "in_sync": [1, 2], "eligible": [], "learners": [3], "committed": PointShape(epoch=7, position=900),
        "brokers": [broker(1, 7, 1000), broker(2, 7, 900), broker(3, 6, 950, learner=True, alive=None)],
        "rules": RulesShape(replicas=3, min_in_sync=2, preferred=None),
        "transfer": TransferShape(target=2, request_id="r"), "why": "well",
    }  # fmt: skip
    return dict(msgspec.json.decode(msgspec.json.encode(GroupPage(**values | fields))))


def test_a_group_page_is_read() -> None:
    group = group_of(page())
    assert group is not None
    assert (group.epoch, group.leader, group.serving, group.transfer, group.why) == (7, 1, True, 2, "well")
    assert group.rules == Rules(replicas=3, min_in_sync=2)
    assert [(each.broker_id, each.lag, each.learner, each.alive) for each in group.replicas] == [
        (1, 0, False, True), (2, 100, False, True), (3, 1000, True, None),
    ]  # fmt: skip


def test_a_group_without_a_leader_and_a_broker_that_only_claimed_its_id_are_read() -> None:
    group = group_of(page(leader=None, transfer=None, brokers=[broker(1, 7, 1), broker(2, 0, 0, registration=0)]))
    assert group is not None
    assert (group.leader, group.led, group.transfer) == (None, False, None)
    assert [each.broker_id for each in group.replicas] == [1]


@pytest.mark.parametrize("fields", [{"confirmed": False}, {"live": False}])
def test_what_is_not_the_leaders_confirmed_word_is_no_answer(fields: dict[str, bool]) -> None:
    assert group_of(page(**fields)) is None


@pytest.mark.parametrize("document", [{}, {"confirmed": True, "live": True}, {**page(), "rules": None}])
def test_a_document_that_cannot_be_read_is_no_answer(document: dict[str, Any]) -> None:
    assert group_of(document) is None
    assert quorum_of(document) is None
    assert report_of(document) is None


def test_a_quorum_page_is_read() -> None:
    shape = QuorumPage(
        node="c0", identity="c0.1", reset=0, last=PointShape(epoch=3, position=9),
        leader=LeaderShape(node="c0", address=None, admin=None), term=3,
        members=[
            MemberShape(
                node="c0", identity="c0.1", voter=True, connected=False, match=None, lag_bytes=None, heard_ms=None
            ),
            MemberShape(node="c1", identity="c1.1", voter=True, connected=True, match=4, lag_bytes=5, heard_ms=1),
        ],
    )  # fmt: skip
    quorum = quorum_of(msgspec.json.decode(msgspec.json.encode(shape)))
    assert quorum is not None
    assert (quorum.leader, quorum.term) == ("c0", 3)
    assert quorum.members[0].connected  # it answered
    assert quorum.members[1] == Member(node="c1", identity="c1.1", voter=True, connected=True, lag=5)


def test_a_brokers_status_is_read() -> None:
    report = report_of({
        "brokerId": 2, "role": "follower", "epoch": 7, "endPosition": 10, "committedPosition": 9, "address": "b2:1",
        "refuses": "the disk is full",
    })  # fmt: skip
    assert report is not None
    assert (report.fault, report.refuses) == ("", "the disk is full")
    assert (report.broker_id, report.end, report.committed, report.hot) == (2, 10, 9, {})


def told_by(broker_id: int, *, role: str = "leader", epoch: int = 7) -> dict[str, Any]:
    """A broker's status page, as far as it is about the group."""
    followers = [
        FollowerView(broker_id=2, connected=True, in_sync=True, flushed=0, lag_bytes=64, lag_ms=1),
        FollowerView(broker_id=3, connected=True, in_sync=False, flushed=None, lag_bytes=None, lag_ms=None),
    ]
    view = ReplicationView(
        mode="controller", role=role, serving=True, epoch=epoch, leader=None, lease_ms=1, followers=followers,
        in_sync=InSyncView(members=[1, 2], version=3, min_in_sync=2), pending=None, closed=None,
        positions=PositionsView(end=1, flushed=1, committed=1), requests=RequestsView(forwarded=0, held=0),
    )  # fmt: skip
    return {"brokerId": broker_id, "replication": msgspec.json.decode(msgspec.json.encode(view))}


def test_how_far_others_are_behind_is_the_leaders_word_and_not_that_of_older_heartbeats() -> None:
    """Of those the last one is that of broker 2, and the leader's, of half a second before, lacks what came since."""
    under_load = [broker(1, 7, 1 << 30), broker(2, 7, (1 << 30) + (8 << 20)), broker(3, 6, 950, learner=True)]
    group = group_of(page(brokers=under_load))
    assert group is not None
    assert [each.lag for each in group.replicas] == [8 << 20, 0, (1 << 30) + (8 << 20)]
    seen = seen_by_leader(group, [{"brokerId": 1}, told_by(2, role="follower"), told_by(1)])
    assert seen is not None
    assert [each.lag for each in seen.replicas] == [0, 64, (1 << 30) + (8 << 20)]


@pytest.mark.parametrize(
    "pages",
    [[], [{"brokerId": 1, "replication": None}], [told_by(1, epoch=6)], [told_by(1, role="follower")], [told_by(2)]],
)
def test_nobody_else_says_how_far_others_are_behind(pages: list[dict[str, Any]]) -> None:
    group = group_of(page())
    assert seen_by_leader(group, pages) == group
    assert seen_by_leader(None, pages) is None


def test_an_unknown_group_is_one_to_be_founded() -> None:
    assert not unknown_group(3, 2).founded
