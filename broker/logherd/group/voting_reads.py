"""`raft` mode: a follower's leave to read, by the core's ReadIndex.

The leader's word is up to where it shows what is committed, confirmed by a majority that was asked after the question
had come; see reading.py for what it is worth.
"""

from collections.abc import Sequence

from logherd.group.reading import ASK_AGAIN_MS, READ_MS, Granted
from logherd.kit.errors import broken
from logherd.model.names import Epoch, Position
from logherd.raft import inputs as raft_inputs
from logherd.raft import output as raft_output

__all__ = ["VotedReads"]

_WAITING_MAX = READ_MS // ASK_AGAIN_MS
"""Of one term: an answer that comes after so many further questions is worth nothing."""


class VotedReads:
    """Questions by their request number, each with the term in which it was asked, and the newest answer.

    Invariant: nothing above `told` is readable, nor above what the leader shows.
    """

    def __init__(self, told: Position) -> None:
        self.told = told
        """Up to where the shell was told, in earlier steps, that the log is committed."""
        self._asked: dict[int, tuple[Epoch, int]] = {}
        self._asked_at: int | None = None
        self._granted: tuple[Epoch, Granted] | None = None

    def want(self, request: int, term: Epoch, now: int) -> Sequence[raft_inputs.Input]:
        """Somebody reads: ask, unless that was done a moment ago, or several questions wait for an answer.

        A log that is behind answers none before it has caught up, and by then the answers are too old to count.
        """
        if self._asked_at is not None and now - self._asked_at < ASK_AGAIN_MS:
            return ()
        if sum(asked_in == term for asked_in, _ in self._asked.values()) >= _WAITING_MAX:
            return ()
        self._asked_at, self._asked[request] = now, (term, now)
        return (raft_inputs.Applied(self.told), raft_inputs.Read(request))

    @property
    def waits(self) -> bool:
        """Whether a question has no answer yet."""
        return bool(self._asked)

    def shown(self, position: Position) -> None:
        """The shell has been told of this commit."""
        if position < self.told:
            broken("what is committed stays so", position, self.told)
        self.told = position

    def on_answer(self, answer: raft_output.Answer) -> None:
        """The core's answer to a request, which may be no question of ours."""
        asked = self._asked.pop(answer.request, None)
        if asked is not None and isinstance(answer, raft_output.ReadReady):
            self._granted = (asked[0], Granted(answer.position, asked[1]))

    def readable(self, term: Epoch, now: int) -> Position | None:
        """Up to where reads may be answered here, by a follower in this term."""
        if self._granted is None:
            return None
        given_in, granted = self._granted
        return granted.position if given_in == term and granted.counts(now, self.told) else None
