"""What a follower asks a RocketMQ master for over the remoting protocol: what it is, how far its log goes, and the
metadata that is not in its log.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/slave/SlaveSynchronize.java
"""

import asyncio
from typing import NamedTuple

from logherd.app.classic.inquiry import SEGMENT_SETTING, JavaSettings, ask_settings
from logherd.client.peers import Peers
from logherd.kit.errors import LogHerdError
from logherd.service.metadata.rocketmq import GROUPS, OFFSETS, TOPICS, check_config
from logherd.wire.bodies import decode_body
from logherd.wire.bodies.routes import KVTable
from logherd.wire.codes import RequestCode
from logherd.wire.frame import Frame

__all__ = ["DELAY", "Extent", "Master", "MasterUnfit"]

DELAY = "delayOffset.json"
_ASKED = {
    TOPICS: RequestCode.GET_ALL_TOPIC_CONFIG,
    GROUPS: RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    OFFSETS: RequestCode.GET_ALL_CONSUMER_OFFSET,
    DELAY: RequestCode.GET_ALL_DELAY_OFFSET,
}


_POSITION_MAX = (1 << 63) - 1


class MasterUnfit(LogHerdError):
    """This master cannot be followed from here, for a reason that a person has to look at."""


class Extent(NamedTuple):
    """Positions between which a master has its log."""

    begin: int
    end: int


class Master:
    """The broker at host:port. Every call raises ClientError, NetError; ValueError if it is no RocketMQ."""

    def __init__(self, peers: Peers, address: str) -> None:
        self._peers = peers
        self.address = address

    async def settings(self, *, cluster: str, group: str, segment_bytes: int) -> JavaSettings:
        """Its settings, if it is one that can be followed. Raises: MasterUnfit."""
        told = await ask_settings(self._peers, self.address)
        fault = ""
        if (told.cluster, told.group) != (cluster, group):
            fault = f"is a broker of {told.cluster}/{told.group}, not of {cluster}/{group}"
        elif told.role == "SLAVE":
            fault = "is a slave itself"
        elif told.controlled:
            fault = "is led by a controller or by DLedger, and does not speak the classic HA protocol"
        elif told.segment_bytes != segment_bytes:
            fault = f"has {SEGMENT_SETTING}={told.segment_bytes}: store.segmentSize is {segment_bytes}, set it to that"
        if fault:
            raise MasterUnfit(f"the master {self.address} {fault}")
        return told

    async def extent(self) -> Extent:
        """How far its log goes."""
        answer = await self._peers.ask(self.address, Frame(RequestCode.GET_BROKER_RUNTIME_INFO, 0))
        table = decode_body(KVTable, answer.body).table
        missing = [name for name in ("commitLogMinOffset", "commitLogMaxOffset") if name not in table]
        if missing:
            raise ValueError(f"{self.address} does not tell {', '.join(missing)}")
        begin, end = max(int(table["commitLogMinOffset"]), 0), int(table["commitLogMaxOffset"])  # -1: it has none yet
        if not begin <= end <= _POSITION_MAX:
            raise ValueError(f"{self.address} has its log from {begin} to {end}, which no log has")
        return Extent(begin, end)

    async def config(self) -> dict[str, str]:
        """By file name what RocketMQ keeps beside its log. Raises: AdoptionError for what could not be adopted."""
        found = {}
        for name, code in _ASKED.items():
            answer = await self._peers.ask(self.address, Frame(code, 0))
            if not answer.body:
                raise ValueError(f"{self.address} answers {code} with nothing, as if it had no {name}")
            found[name] = bytes(answer.body).decode()
        # Many offsets take seconds, in which a slave would say nothing to its master.
        await asyncio.to_thread(check_config, {name: text.encode() for name, text in found.items() if name != DELAY})
        return found
