"""Commands that scripts about broker groups without controllers have in common (script.static, script.voting).

wait 500 | write b1 5 | cut b1 [b2] | heal | kill b2 | start b2 | drain b1 | full b2 | exhausted b2 | sick b1 |
well b1 | slow b2 | flush b2 | state
"""

from collections.abc import Callable
from dataclasses import fields

from logherd.group.inputs import Drain, Health
from logherd.group.output import Event
from unit.group.ring import Replica, Ring

__all__ = ["Acts", "play_with"]


def play_with(text: str, acts: "Acts") -> str:
    """The script as it comes out now."""
    result: list[str] = []
    for line in text.splitlines():
        if line.startswith("> "):
            result.append(line)
            result.extend("    " + shown for shown in acts.run(line[2:].split()))
        elif line.startswith("#") or not line.strip():
            result.append(line)
    return "\n".join(result) + "\n"


class Acts:
    """One script's group."""

    def __init__(self) -> None:
        self.ring = Ring()
        self.lines: list[str] = []
        self._told: dict[int, int] = {}

    def commands(self) -> dict[str, Callable[..., None]]:
        """By name; each shows something in `lines`, or nothing."""
        return {
            "wait": self._wait, "write": self._write, "cut": self._cut, "heal": lambda: self.ring.heal(),
            "kill": lambda name: self.ring.kill(self.node(name)),
            "start": lambda name: self.ring.restart(self.node(name)),
            "drain": lambda name: self.node(name).feed(Drain()), "slow": self._slow, "flush": self._flush,
            "full": lambda name: self.node(name).feed(Health(space=False)),
            "exhausted": lambda name: self.node(name).feed(Health(space=False, room=False)),
            "sick": lambda name: self.node(name).feed(Health(healthy=False)),
            "well": lambda name: self.node(name).feed(Health()), "state": self._state,
        }  # fmt: skip

    def run(self, words: list[str]) -> list[str]:
        """Carry out one command; what it showed."""
        self.lines = []
        name, *rest = words
        self.commands()[name](*rest)
        self.tell()
        return self.lines

    def node(self, name: str) -> Replica:
        return self.ring.nodes[int(name[1:])]

    def tell(self) -> None:
        """Show the events that were not shown yet."""
        for node in self.ring.nodes.values():
            for event in node.events[self._told.get(node.id, 0) :]:
                self.lines.append(f"{self.ring.now} ms: b{node.id} {self.say(event)}")
            self._told[node.id] = len(node.events)

    def say(self, event: Event) -> str:
        parts = [f"{each.name} {getattr(event, each.name)}" for each in fields(event)]
        return f"{type(event).__name__}: {', '.join(parts)}"

    def _wait(self, ms: str) -> None:
        for _ in range(int(ms)):
            self.ring.run(1)
            self.tell()

    def _write(self, name: str, count: str = "1") -> None:
        node = self.node(name)
        closed = node.core.closed(self.ring.now)
        if closed is not None:
            self.lines.append(f"refused: {closed.value}")
            return
        for _ in range(int(count)):
            node.append()

    def _cut(self, name: str, *others: str) -> None:
        self.ring.isolate(self.node(name), *map(self.node, others))

    def _slow(self, name: str) -> None:
        self.node(name).slow = True

    def _flush(self, name: str) -> None:
        self.node(name).slow = False
        self.node(name).flush()

    def _state(self) -> None:
        for node in self.ring.nodes.values():
            role = "serves" if node.serves is not None else "leads" if node.core.leads is not None else "follows"
            what = role if node.alive else "is dead"
            self.lines.append(f"b{node.id} {what}, ends at {node.log.end}, committed to {node.committed}")
