"""What a keeper says to people: each thing once, and again when it is another."""

from collections.abc import Callable, Collection, Iterable

from logherd_operator.local.reasons import alike, timeless
from logherd_operator.plan.outcome import Block

__all__ = ["Telling"]


class Telling:
    """`say` takes sentences."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self._told: dict[str, str] = {}
        self._unserved_at: float | None = None

    def tell(self, about: str, sentences: Iterable[str]) -> None:
        """Say something, but not the same again."""
        for each in sentences:
            if self._told.get(about) != each:
                self._told[about] = each
                self.say(each)

    def tell_done(self, actions: Iterable[tuple[str, str]]) -> None:
        """What was done in this look, and about what. Done in each look until it shows, it is said once; done again
        after a look without it, it is another time."""
        told = [(f"action:{about}", sentence) for about, sentence in actions]
        self._forget("action:", {about for about, _ in told})
        for about, sentence in told:
            self.tell(about, [sentence])

    def tell_held(self, blocked: Iterable[Block]) -> None:
        """What is not done, and what would let it go on: once, whatever clock runs in it."""
        for each in blocked:
            about, sentence = _held(each)
            if about not in self._told:
                self.tell(about, [sentence])

    def forget_held(self, blocked: Iterable[Block]) -> None:
        """What is held back no more would be news again."""
        self._forget("held:", {_held(each)[0] for each in blocked})

    def tell_why(self, why: str, now: float, *, patience: float) -> None:
        """That nobody serves and why, once it lasts for so many seconds; again when it is for another reason, and when
        it is over."""
        if not why:
            self._unserved_at = None
            if self._told.pop("why", None) is not None:
                self.say("messages are taken now")
            return
        self._unserved_at = now if self._unserved_at is None else self._unserved_at
        if now - self._unserved_at >= patience and not alike(why, self._told.get("why", "")):
            self.tell("why", [why])

    def _forget(self, kind: str, still: Collection[str]) -> None:
        for about in [about for about in self._told if about.startswith(kind) and about not in still]:
            del self._told[about]


def _held(block: Block) -> tuple[str, str]:
    sentence = f"held: {block.message}; it takes: {block.unblocks}"
    return timeless(sentence), sentence
