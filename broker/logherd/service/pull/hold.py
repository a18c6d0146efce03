"""Pulls that found nothing and wait: by queue, with a deadline, woken by commits.

Invariants:
  1. A waiter is answered at most once, and none that is `done` is read for again.
  2. A waiter stands in `_by_queue` exactly while it is not done, and has exactly one entry in `_due` that is not stale.

Source: apache/rocketmq: broker/src/main/java/org/apache/rocketmq/broker/longpolling/PullRequestHoldService.java
"""

from collections.abc import Callable, Collection, Iterable
from heapq import heappop, heappush

from logherd.service.ports import Reply, Request, Session
from logherd.store import QueueLog

__all__ = ["Hold", "Waiter"]


class Waiter:
    """One parked pull. `offset` moves on over messages that its filter does not want, so none is looked at twice.

    `tag_codes`: hashes of the tags that the pull itself names, in whatever takes the least room; None if it names none.
    """

    __slots__ = ("deadline_ms", "done", "group", "messages_max", "offset", "queue", "request", "session", "tag_codes")

    def __init__(
        self, request: Request, session: Session, queue: QueueLog, offset: int, *,
        group: str, messages_max: int, tag_codes: Collection[int] | None, deadline_ms: int,
    ) -> None:  # fmt: skip
        self.request = request
        self.session = session
        self.queue = queue
        self.offset = offset
        self.group = group
        self.messages_max = messages_max
        self.tag_codes = tag_codes
        self.deadline_ms = deadline_ms
        self.done = False


Retry = Callable[[Waiter, bool], Reply | None]
"""Read again for a waiter; None means it goes on waiting, which it may not when the second argument is true."""


class Hold:
    """All parked pulls of a broker. Owned by the loop thread; nothing blocks."""

    def __init__(self, *, recheck_ms: int, parked_max: int, session_max: int) -> None:
        self._recheck_ms = recheck_ms
        self._parked_max = parked_max
        self._session_max = session_max
        self._by_queue: dict[QueueLog, dict[int, Waiter]] = {}
        self._by_session: dict[int, set[int]] = {}
        self._waiters: dict[int, Waiter] = {}
        self._due: list[tuple[int, int]] = []
        self._number = 0
        self.leaving = False
        """Whether `leave` was called: nothing is parked any more."""

    def __len__(self) -> int:
        return len(self._waiters)

    def limit(self, *, parked_max: int, session_max: int) -> None:
        """From the next pull on no more than this wait, of all and of each connection."""
        self._parked_max = parked_max
        self._session_max = session_max

    def refusal(self, session_id: int) -> str | None:
        """Why no further pull of this connection may be parked; None if it may."""
        if len(self._waiters) >= self._parked_max:
            return f"{len(self._waiters)} pulls are waiting here, no more can wait"
        own = len(self._by_session.get(session_id, ()))
        if own >= self._session_max:
            return f"{own} pulls of this connection are waiting here, no more can wait"
        return None

    def park(self, waiter: Waiter, now_ms: int) -> None:
        """Keep a pull until `wake`, `tick` or `session_closed` lets it go."""
        self._number += 1
        number = self._number
        self._waiters[number] = waiter
        self._by_queue.setdefault(waiter.queue, {})[number] = waiter
        self._by_session.setdefault(waiter.session.id, set()).add(number)
        heappush(self._due, (min(waiter.deadline_ms, now_ms + self._recheck_ms), number))

    def wake(self, queues: Iterable[QueueLog], retry: Retry) -> None:
        """Messages were committed to these queues."""
        for queue in queues:
            waiters = self._by_queue.get(queue)
            if waiters:
                for number, waiter in tuple(waiters.items()):
                    self._try(number, waiter, retry, last=False)

    def tick(self, now_ms: int, retry: Retry) -> None:
        """Answer pulls at their deadline, and look again at those that waited long. Call it every 100 ms or so."""
        due = self._due
        while due and due[0][0] <= now_ms:
            number = heappop(due)[1]
            waiter = self._waiters.get(number)
            if waiter is None:
                continue
            self._try(number, waiter, retry, last=now_ms >= waiter.deadline_ms)
            if not waiter.done:
                heappush(due, (min(waiter.deadline_ms, now_ms + self._recheck_ms), number))

    def session_closed(self, session_id: int, last_word: Callable[[Waiter], Reply]) -> None:
        """The client is gone. A broker that had sent its pulls on keeps count of them until they are answered."""
        self._release(tuple(self._by_session.get(session_id, ())), last_word)

    def release_all(self, last_word: Callable[[Waiter], Reply]) -> None:
        """Answer everybody now."""
        self._release(tuple(self._waiters), last_word)

    def leave(self, last_word: Reply) -> None:
        """This broker stops: answer everybody."""
        self.leaving = True
        self.release_all(lambda _: last_word)

    def _release(self, numbers: Iterable[int], last_word: Callable[[Waiter], Reply]) -> None:
        for number in numbers:
            waiter = self._waiters[number]
            self._remove(number, waiter)
            waiter.session.reply(waiter.request, last_word(waiter))

    def _try(self, number: int, waiter: Waiter, retry: Retry, *, last: bool) -> None:
        if waiter.session.closed:
            self._remove(number, waiter)
            return
        reply = retry(waiter, last)
        if reply is not None:
            self._remove(number, waiter)
            waiter.session.reply(waiter.request, reply)

    def _remove(self, number: int, waiter: Waiter) -> None:
        waiter.done = True
        del self._waiters[number]
        queue = self._by_queue[waiter.queue]
        del queue[number]
        if not queue:
            del self._by_queue[waiter.queue]
        session = self._by_session[waiter.session.id]
        session.discard(number)
        if not session:
            del self._by_session[waiter.session.id]
