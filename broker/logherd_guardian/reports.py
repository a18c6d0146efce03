"""Carries out what `reporter` decides: one inquiry per controller at a time."""

import selectors

from logherd_guardian.clock import clock_ms
from logherd_guardian.frames import Answer, Exit
from logherd_guardian.inquiry import INQUIRY_MS, Inquiry
from logherd_guardian.reporter import Reporter
from logherd_guardian.resolver import Resolver
from logherd_guardian.sayings import say

__all__ = ["Reports"]


class Reports:
    """Never waits: an answer arrives through the selector, or the time for it is over at a tick."""

    def __init__(self, controllers: tuple[str, ...], selector: selectors.BaseSelector, resolver: Resolver) -> None:
        self._reporter = Reporter(controllers)
        self._selector = selector
        self._resolver = resolver
        self._inquiries: list[Inquiry] = []

    @property
    def is_done(self) -> bool:
        return self._reporter.is_done

    def add(self, exited: Exit, now: int) -> None:
        """Begin to report, at once."""
        self._reporter.add(exited)
        self._ask(now)

    def superseded(self, now: int) -> None:
        """The next child is registered: ask at once about what was before it. What is under way may be the answer."""
        self._reporter.superseded(now)
        self._ask(now)

    def tick(self, now: int) -> None:
        for inquiry in list(self._inquiries):
            if not self._resolver.has(inquiry.ask.address, inquiry.address):  # a pod that is gone answers nothing
                inquiry.close()
                self._inquiries.remove(inquiry)
                self._reporter.withdrawn(inquiry.ask)
            elif now - inquiry.since >= INQUIRY_MS:
                inquiry.close()
                self._done(inquiry, None)
        self._ask(now)

    def _ask(self, now: int) -> None:
        for ask in self._reporter.due(now):
            address = self._resolver.find(ask.address, now)
            if address is None:  # its name has none yet
                self._reporter.unanswered(ask, now)
                continue
            try:
                self._inquiries.append(Inquiry(self._selector, ask, address, now, self._done))
            except OSError:
                self._resolver.shun(ask.address, address)
                self._reporter.unanswered(ask, now)

    def _done(self, inquiry: Inquiry, answer: Answer | None) -> None:
        now = clock_ms()
        self._inquiries.remove(inquiry)
        if answer is None:
            self._resolver.shun(inquiry.ask.address, inquiry.address)
            self._reporter.unanswered(inquiry.ask, now)
            return
        verdict = self._reporter.answered(inquiry.ask, answer, now)
        if verdict is not None:
            say(verdict)
            self._withdraw()
        self._ask(now)

    def _withdraw(self) -> None:
        """Questions about what is decided: whoever was asked may be asked again."""
        for inquiry in self._inquiries:
            inquiry.close()
            self._reporter.withdrawn(inquiry.ask)
        self._inquiries = []
