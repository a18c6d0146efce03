"""What a slave asks its master for: 45 and 402.

Source: apache/rocketmq: broker/.../schedule/DelayOffsetSerializeWrapper.java,
remoting/.../protocol/body/MessageRequestModeSerializeWrapper.java
"""

from collections.abc import Mapping

from msgspec import field

from logherd.wire.bodies.base import Body, Int64
from logherd.wire.bodies.configs import DataVersion

__all__ = ["DelayProgress", "RequestModes"]


class DelayProgress(Body, frozen=True, kw_only=True, gc=False):
    """45: by delay level the queue offset up to which messages were delivered."""

    offsets: Mapping[int, Int64] = field(name="offsetTable", default_factory=dict)
    version: DataVersion = field(name="dataVersion", default_factory=DataVersion)


class RequestModes(Body, frozen=True, kw_only=True, gc=False):
    """402: by topic and group whether it is consumed by pull or by POP; always none here."""

    modes: Mapping[str, Mapping[str, str]] = field(name="messageRequestModeMap", default_factory=dict)
