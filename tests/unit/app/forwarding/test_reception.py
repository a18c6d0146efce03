"""What a leader does for other brokers is done under its lease."""

import asyncio
from pathlib import Path

import pytest

from logherd.net.session import NetSession
from logherd.service.forwarding.roles import Leading, Nobody, Role
from logherd.service.ports import Session
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Frame
from unit.app.forwarding.rig import eventually, group_of, send_frame


async def test_a_lease_that_is_over_is_noticed_before_anything_of_another_broker_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        client = await other.connect()
        assert (await client.call(send_frame(b"0"), seconds=5)).code == 0
        monkeypatch.setattr(leader.leadership, "confirm", lambda: leader.leadership.set(Nobody()))
        sending = asyncio.ensure_future(client.call(send_frame(b"1"), seconds=5))
        await eventually(lambda: leader.leadership.current == Nobody())
        leader.leadership.set(Leading(group.epoch))
        link = await leader.connect()
        opening = {"cluster": "C", "group": "g", "epoch": str(group.epoch), "brokerId": "8", "instance": "i"}
        opened = await link.call(Frame(RequestCode.FORWARDING_OPEN, 0, ext=opening), seconds=5)
        assert (opened.code, opened.ext["logherdRefused"]) == (27010, "not-leader")
        group.elect(other)
        assert (await sending).code == 0
        assert (leader.bodies(), other.bodies()) == ({b"0": 1}, {b"1": 1})
        await link.close()
        await client.close()


async def test_requests_that_came_together_are_all_done_under_one_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is over between the looks at the first and at the second."""
    async with group_of(2, tmp_path) as group:
        leader, other = group.nodes
        group.elect(leader)
        client = await other.connect()
        assert (await client.call(send_frame(b"0"), seconds=5)).code == 0
        port = leader.broker._forwarding._reception._port
        looks, done, on_behalf = 0, list[tuple[int, Role]](), port.on_behalf

        def confirm() -> None:
            nonlocal looks
            looks += 1
            if looks == 2:
                leader.leadership.set(Nobody())

        def carry_out(link: NetSession, requests: list[tuple[Frame, Session]]) -> None:
            done.append((len(requests), leader.leadership.current))
            on_behalf(link, requests)

        monkeypatch.setattr(leader.leadership, "confirm", confirm)
        monkeypatch.setattr(port, "on_behalf", carry_out)
        sends = [asyncio.ensure_future(client.call(send_frame(b"%d" % number), seconds=5)) for number in (1, 2)]
        await sends[0]
        assert [role for count, role in done if count] == [Leading(group.epoch)]
        await asyncio.gather(*sends)
        await client.close()
