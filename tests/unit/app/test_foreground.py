"""How a process ends: by a signal, by a failure, and by a failure that another process deals with."""

import asyncio
import gc
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from logherd.app.foreground import EXIT_STARTS_AGAIN, ServerFailed, _main
from logherd.app.guarded.lent import Lent

EXEC = -1


class Again(ServerFailed):
    starts_again = True


@dataclass
class Failing:
    """A server that has to be started again, as is found when it is asked, or when it stops."""

    at_once: bool
    happened: list[str] = field(default_factory=list)

    def addresses(self) -> dict[str, str]:
        return {"address": "a:1"}

    def check(self) -> None:
        if self.at_once:
            raise Again("its log is damaged")

    def fail(self, error: BaseException) -> None:
        raise error

    async def stop(self) -> None:
        raise Again("its log is damaged")

    async def abandon(self) -> None:
        self.happened.append("abandoned")


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def code_of(server: Failing, *, signalled: bool) -> int:
    """What the process does: its exit code, or EXEC."""

    async def start(_lent: Lent, on_failure: Callable[[], None]) -> Failing:
        if signalled:
            signal.raise_signal(signal.SIGTERM)
        else:
            on_failure()
        return server

    code = asyncio.run(_main("broker", start, None))
    assert server.happened == ["abandoned"]
    return code


@pytest.mark.parametrize("at_once", [True, False])
def test_who_was_told_to_stop_does_not_become_the_next_process(at_once: bool) -> None:
    assert code_of(Failing(at_once), signalled=True) == EXIT_STARTS_AGAIN


def test_who_fails_by_itself_becomes_the_process_that_deals_with_it() -> None:
    assert code_of(Failing(at_once=True), signalled=False) == EXEC
