"""What only RocketMQ slaves ask a master for, beside topics, groups and offsets: requests 45 and 402.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/slave/SlaveSynchronize.java
"""

from logherd.service.ports import Answer, Handler, Reply, Request, Session
from logherd.wire.bodies import encode_body
from logherd.wire.bodies.slaves import DelayProgress, RequestModes
from logherd.wire.codes import RequestCode

__all__ = ["SlaveAdmin"]


class SlaveAdmin:
    """`delay_progress` is what a RocketMQ broker kept of its delay levels when its store was adopted, None if none."""

    def __init__(self, delay_progress: bytes | None) -> None:
        self._delay_progress = delay_progress or encode_body(DelayProgress())

    def handlers(self) -> dict[RequestCode, Handler]:
        return {
            RequestCode.GET_ALL_DELAY_OFFSET: self.delay_progress,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self.request_modes,
        }

    def delay_progress(self, _request: Request, _session: Session) -> Answer:
        """45. Delayed delivery is not supported, so nothing has moved since."""
        return Reply(body=self._delay_progress)

    def request_modes(self, _request: Request, _session: Session) -> Answer:
        """402: nobody consumes by POP."""
        return Reply(body=encode_body(RequestModes()))
