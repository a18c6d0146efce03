"""The root of every error that LogHerd raises on purpose, and the check that stops a broken process.

`LogHerdError` families live one to a room. `InvariantError` says that the program itself is wrong: it is never caught
below `app`, because going on would write on top of a broken log.
"""

from typing import NoReturn

__all__ = ["InvariantError", "LogHerdError", "broken", "ensure"]


class LogHerdError(Exception):
    """Base of all errors that mean something to a caller; the message names the thing, the value and what is right."""


class InvariantError(Exception):
    """A rule that the code promises to itself does not hold. Not a LogHerdError: nobody may handle it."""


def ensure(condition: bool, rule: str, *values: object) -> None:
    """Stop when a numbered invariant is broken; unlike `assert` it is not removed by `python -O`.

    Raises: InvariantError with the rule and the values that broke it.
    """
    if not condition:
        broken(rule, *values)


def broken(rule: str, *values: object) -> NoReturn:
    """What `ensure` does when its condition does not hold, for who asks so often that a call counts.

    Raises: InvariantError with the rule and the values that broke it.
    """
    raise InvariantError(f"{rule}: {values!r}" if values else rule)
