"""What the RocketMQ brokers of a group say of themselves, asked over the remoting protocol."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from logherd.client.errors import ClientError
from logherd.client.peers import Peers
from logherd.net.errors import NetError
from logherd.service.identity import LEADER_ID, BrokerIdentity
from logherd.service.properties_text import parse_properties_text
from logherd.wire.bodies import decode_body
from logherd.wire.bodies.routes import MemberGroupAnswer
from logherd.wire.codes import RequestCode
from logherd.wire.errors import BodyError
from logherd.wire.frame import Frame
from logherd.wire.headers import encode_header
from logherd.wire.headers.names import MemberGroupHeader

__all__ = ["SEGMENT_SETTING", "JavaSettings", "SlaveInquiry", "ask_settings"]

SEGMENT_SETTING = "mappedFileSizeCommitLog"
_PORT_MAX = 65_535


class JavaSettings(NamedTuple):
    """What `26 GET_BROKER_CONFIG` tells, as far as it matters here."""

    cluster: str
    group: str
    role: str
    segment_bytes: int
    ha_port: int
    controlled: bool
    """Its log is replicated by a controller or by DLedger: it does not speak the classic protocol."""


async def ask_settings(peers: Peers, address: str) -> JavaSettings:
    """The settings of the broker at host:port. Raises: ClientError, NetError; ValueError if it is no RocketMQ."""
    answer = await peers.ask(address, Frame(RequestCode.GET_BROKER_CONFIG, 0))
    values = parse_properties_text(answer.body.decode(errors="replace"))
    missing = [name for name in ("brokerName", "brokerRole", SEGMENT_SETTING, "haListenPort") if name not in values]
    if missing:
        raise ValueError(f"{address} does not tell {', '.join(missing)}: it is no RocketMQ broker")
    port = int(values["haListenPort"])
    if not 0 < port <= _PORT_MAX:
        raise ValueError(f"{address} has haListenPort={port}, where nobody can listen")
    return JavaSettings(
        values.get("brokerClusterName", ""), values["brokerName"], values["brokerRole"], int(values[SEGMENT_SETTING]),
        port,
        "true" in (values.get("enableControllerMode"), values.get("enableDLegerCommitLog")),
    )  # fmt: skip


class SlaveInquiry:
    """Asks the group's slaves how long their files are. `names` gives the addresses of name services."""

    def __init__(
        self, peers: Peers, identity: BrokerIdentity, names: Callable[[], Sequence[str]], segment_bytes: int
    ) -> None:
        self._peers = peers
        self._identity = identity
        self._names = names
        self._segment_bytes = segment_bytes
        self.waits_for = ""
        """What kept the latest answer from being known."""

    async def ask(self, connected: int) -> str | None:
        """None: all of them have files like ours, and there are as many as are connected; "": not known yet; else whose
        are different."""
        addresses = await self._slaves()
        for address in addresses:
            try:
                told = await ask_settings(self._peers, address)
            except (ClientError, NetError, BodyError, ValueError) as error:
                self.waits_for = f"slave {address} does not tell the length of its files: {error}"
                return ""  # it stops or starts; it is asked again as long as it is connected
            if told.segment_bytes != self._segment_bytes:
                return (
                    f"slave {address} has {SEGMENT_SETTING}={told.segment_bytes}, the log's files here have "
                    f"{self._segment_bytes} bytes: set it to that, and let it begin with an empty store"
                )
        # One that was told its master's address may come before it is registered, and then it is none of these.
        if len(addresses) >= connected:
            return None
        self.waits_for = f"{connected} slaves have reported, the name service knows {len(addresses)} of the group"
        return ""

    async def _slaves(self) -> list[str]:
        """Of the first name service that answers with some."""
        identity = self._identity
        header = encode_header(MemberGroupHeader(cluster_name=identity.cluster, broker_name=identity.name))
        for names in self._names():
            try:
                answer = await self._peers.ask(names, Frame(RequestCode.GET_BROKER_MEMBER_GROUP, 0, ext=header))
                members = decode_body(MemberGroupAnswer, answer.body).group.addresses
            except (ClientError, NetError, BodyError, ValueError):
                continue  # the next may answer
            slaves = [address for number, address in members.items() if number != LEADER_ID]
            if slaves:
                return slaves
        return []
