"""What happens to a guardian's child, and what is to be done about it: the vocabulary of `machine`. Plain values."""

from logherd_guardian.frames import Exit
from logherd_guardian.page import Page
from logherd_guardian.values import Value

__all__ = [
    "Action", "Asked", "Event", "Exited", "Kill", "Leave", "Part", "Parted", "Report", "Reported", "Say", "Spawn",
    "SpawnFailed", "Spawned", "Superseded", "Take", "Tick",
]  # fmt: skip


class Event(Value):
    """Something that happened."""


class Tick(Event):
    """Time has passed; `page` is what the child says now, None without a child or before it said anything."""

    __slots__ = ("page",)

    def __init__(self, page: Page | None = None) -> None:
        self.page = page


class Spawned(Event):
    """The child runs, under this incarnation."""

    __slots__ = ("incarnation",)

    def __init__(self, incarnation: str) -> None:
        self.incarnation = incarnation


class SpawnFailed(Event):
    """There is no child: the system refused to make one."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


class Exited(Event):
    """`waitpid` has returned the child: `status` is its exit code, or minus the signal; `page` is its last."""

    __slots__ = ("page", "status")

    def __init__(self, status: int, page: Page | None = None) -> None:
        self.status = status
        self.page = page


class Asked(Event):
    """A signal has come for the guardian. `stop` if it is one that means: end."""

    __slots__ = ("number", "stop")

    def __init__(self, number: int, *, stop: bool) -> None:
        self.number = number
        self.stop = stop


class Reported(Event):
    """No exit waits to be reported any more."""


class Parted(Event):
    """No connection is passed on any more."""


class Action(Value):
    """Something to do, in the order in which it is given."""


class Spawn(Action):
    """Draw an incarnation, make a page, start the child; answer with Spawned or SpawnFailed."""


class Kill(Action):
    """Send a signal to the child."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Take(Action):
    """Take new connections for a peer, or leave them to the child and let those that were taken end."""

    __slots__ = ("on",)

    def __init__(self, *, on: bool) -> None:
        self.on = on


class Part(Action):
    """Refuse who comes from now on, and let those that were passed on end soon; answer with Parted."""


class Report(Action):
    """Tell the controllers. Only ever after Exited."""

    __slots__ = ("exit",)

    def __init__(self, exited: Exit) -> None:
        self.exit = exited


class Superseded(Action):
    """The next process of this broker is registered: earlier exits will soon be of no interest."""


class Say(Action):
    """One line for whoever reads stderr."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class Leave(Action):
    """The guardian's own end."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code
