"""Who belongs to a group is asked of the controller that leads, whichever was named."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from logherd.app.group.enrolled import ask_enrolled
from logherd.controller.values import GroupKey
from logherd.net.server import Server
from logherd.net.session import NetSession
from logherd.service.controllers.asking import Enrolled
from logherd.service.ports import Reply, Request
from logherd.settings.options import Endpoint
from logherd.wire.bodies import encode_body
from logherd.wire.bodies.brokers import ElectMasterAnswer
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Frame
from logherd.wire.headers.controller import MasterResponse
from logherd.wire.headers.leases import LeaderHint

GROUP = GroupKey("C", "orders")
NOWHERE = Endpoint(host="127.0.0.1", port=1)
ROWS = Enrolled(frozenset({1, 2, 3}), 7)  # type: ignore[arg-type]


@dataclass
class Controller:
    """Leads if it names nobody."""

    names: str | None = ""
    asked: int = 0

    def on_open(self, session: NetSession) -> None:
        pass

    def on_close(self, session: NetSession) -> None:
        pass

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        for frame in frames:
            assert frame.code == RequestCode.CONTROLLER_ELECT_MASTER
            assert frame.ext["designateElect"] == "false"
            self.asked += 1
            session.reply(Request(frame, None, 0), self.answer())

    def answer(self) -> Reply:
        if self.names != "":
            return Reply(ResponseCode.CONTROLLER_NOT_LEADER, LeaderHint(leader_address=self.names))
        rows = {each: f"b{each}:1" for each in ROWS.brokers}
        body = ElectMasterAnswer(members=(1,), cluster="C", broker_name="orders", addresses=rows)
        header = MasterResponse(master_epoch=ROWS.epoch)
        return Reply(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, header, encode_body(body), "nobody was elected yet")


@asynccontextmanager
async def listening(*controllers: Controller) -> AsyncIterator[list[Endpoint]]:
    servers, found = [Server(each) for each in controllers], []
    for server in servers:
        host, port = await server.listen("127.0.0.1", 0)
        found.append(Endpoint(host=host, port=port))
    try:
        yield found
    finally:
        for server in servers:
            await server.stop(0)


async def test_the_leader_is_found_past_the_dead_and_by_name() -> None:
    one, leader = Controller(names=None), Controller()
    async with listening(one, leader) as (other, leading):
        one.names = str(leading)
        assert await ask_enrolled([NOWHERE, other], GROUP) == ROWS
        assert await ask_enrolled([leading], GROUP) == ROWS
        assert await ask_enrolled([leading], GroupKey("other", "orders")) is None
    assert (one.asked, leader.asked) == (1, 3)


async def test_while_none_leads_or_answers_nothing_is_known() -> None:
    one, other = Controller(names=None), Controller()
    async with listening(one, other) as (first, second):
        assert await ask_enrolled([first, NOWHERE], GROUP) is None
        one.names, other.names = str(second), str(first)  # each names the other one
        assert await ask_enrolled([first, second], GROUP) is None
    assert (one.asked, other.asked) == (2, 1)
    assert await ask_enrolled([], GROUP) is None
