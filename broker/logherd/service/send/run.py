"""Ordinary sends that arrived together: what is the same for all of them is looked at once.

Only what raises no question is stored here. Whatever the checks of `SendHandler` would refuse or treat in another way
ends the run before anything of it was done, and is then that handler's.
"""

from collections.abc import Sequence
from itertools import islice

from logherd.kit.clock import Clock
from logherd.service.errors import RequestError
from logherd.service.ports import Run, Session
from logherd.service.send.answers import SendAnswers
from logherd.service.send.counting import PutCounter
from logherd.service.send.flags import CHECKED_FLAGS
from logherd.service.send.options import SendOptions
from logherd.service.send.properties import Stamper
from logherd.service.send.targets import Targets
from logherd.store import MessageStore, RunMessage
from logherd.wire.frame import Frame
from logherd.wire.send_frame import SendFrame

__all__ = ["SendRuns"]


class SendRuns:
    """The `RunHandler` for sends."""

    def __init__(
        self, store: MessageStore, targets: Targets, *,
        clock: Clock, counter: PutCounter, stamper: Stamper, answers: SendAnswers, options: SendOptions,
    ) -> None:  # fmt: skip
        self._store = store
        self._targets = targets
        self._now_ms = clock.now_ms
        self._count_put = counter.count_put
        self._stamper = stamper
        self._answers = answers
        self._body_bytes_max = options.body_bytes_max
        self._unwritten_bytes_max = options.unwritten_bytes_max

    def handle(self, frames: Sequence[Frame], at: int, session: Session) -> Run | None:
        """Store messages to one topic from `at` on.

        Durable: when the log is committed up to the run's position; the answers must not leave before.
        """
        store = self._store
        if store.unwritten_bytes > self._unwritten_bytes_max:
            return None
        messages, facts = self._gather(frames, at)
        if not messages:
            return None
        start = store.end_position
        placed = store.append_run(messages, session.remote_host, self._now_ms())
        if not placed:
            return None
        end = store.end_position
        count = len(placed)
        self._count_put(messages[0][0].topic, count, end - start, count)
        return Run(end, self._answers.of_run(placed, facts))

    def _gather(self, frames: Sequence[Frame], at: int) -> tuple[list[RunMessage], list[tuple[int, bytes, int]]]:
        """What to store, and (queue id, unique key, opaque) of each, up to the first message that is no ordinary one of
        the same topic."""
        messages, facts = list[RunMessage](), list[tuple[int, bytes, int]]()
        first = frames[at]
        if type(first) is not SendFrame:
            return messages, facts
        topic = first.header.topic
        target = self._targets.get(topic)
        if target is None or target.config.order or target.retry_group is not None:
            return messages, facts
        stamp, queues, body_bytes_max = self._stamper.stamp, target.queues, self._body_bytes_max
        for frame in islice(frames, at, None):
            if type(frame) is not SendFrame:
                break
            header, body = frame.header, frame.body
            queue, sys_flag = queues.get(header.queue_id), header.sys_flag
            if (
                queue is None or header.batch or sys_flag & CHECKED_FLAGS or frame.flag
                or len(body) > body_bytes_max or header.topic != topic
            ):  # fmt: skip
                break
            try:
                encoded, key, plain = stamp(header.properties or "")
            except RequestError:
                break
            messages.append((
                queue, body, encoded, key if plain else None, header.born_timestamp, header.flag, sys_flag,
                header.reconsume_times or 0,
            ))  # fmt: skip
            facts.append((queue.queue_id, key, frame.opaque))
        return messages, facts
