"""Plays a script about one broker group: commands stay, what the replicas say comes out as it is now.

group 3 | wait 500 | write b1 5 | cut b1 | hear b1 | heal | kill b2 | start b2 | switch b3 | drain b1 | full b2 |
exhausted b2 | sick b1 | well b1 | slow b2 | flush b2 | state
"""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from logherd.controller.commands import PlanTransfer
from logherd.controller.values import BrokerId
from logherd.group.inputs import Drain, Health
from logherd.group.output import Event
from unit.group.stage import KEY, Node, Stage

__all__ = ["SCRIPTS", "play"]

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


def play(text: str) -> str:
    """The script as it comes out now."""
    play = _Play()
    result: list[str] = []
    for line in text.splitlines():
        if line.startswith("> "):
            result.append(line)
            result.extend("    " + shown for shown in play.run(line[2:].split()))
        elif line.startswith("#") or not line.strip():
            result.append(line)
    return "\n".join(result) + "\n"


class _Play:
    def __init__(self) -> None:
        self._stage = Stage()
        self._told: dict[int, int] = {}
        self._lines: list[str] = []

    def run(self, words: list[str]) -> list[str]:
        self._lines = []
        name, *rest = words
        commands: dict[str, Callable[..., None]] = {
            "group": self._group, "wait": self._wait, "write": self._write, "cut": self._cut, "heal": self._heal,
            "kill": self._kill, "start": self._start, "switch": self._switch, "drain": self._drain,
            "full": self._full, "exhausted": self._exhausted, "sick": self._sick, "well": self._well,
            "slow": self._slow, "flush": self._flush, "state": self._state,
        }  # fmt: skip
        commands[name](*rest)
        self._tell()
        return self._lines

    def _node(self, name: str) -> Node:
        return self._stage.nodes[int(name[1:])]

    def _tell(self) -> None:
        for node in self._stage.nodes.values():
            known = self._told.get(id(node), 0)
            for event in node.events[known:]:
                self._lines.append(f"{self._stage.now} ms: b{node.id} {_say(event)}")
            self._told[id(node)] = len(node.events)

    def _group(self, replicas: str) -> None:
        self._stage = Stage(int(replicas))

    def _wait(self, ms: str) -> None:
        for _ in range(int(ms)):
            self._stage.run(1)
            self._tell()

    def _write(self, name: str, count: str = "1") -> None:
        node = self._node(name)
        closed = node.core.closed(self._stage.now)
        if closed is not None:
            self._lines.append(f"refused: {closed.value}")
            return
        for _ in range(int(count)):
            node.append()

    def _cut(self, name: str) -> None:
        self._stage.isolate(self._node(name))

    def _heal(self) -> None:
        self._stage.heal()

    def _kill(self, name: str) -> None:
        self._stage.kill(self._node(name))

    def _start(self, name: str) -> None:
        self._stage.restart(self._node(name))

    def _switch(self, name: str) -> None:
        stage, target = self._stage, self._node(name)
        command = PlanTransfer(
            group=KEY, expected_epoch=stage.desk.group.epoch, broker_id=BrokerId(target.id),
            registration=stage.registration(target), request=f"to {name}",
        )  # fmt: skip
        stage.desk.submit(command, stage.now)

    def _drain(self, name: str) -> None:
        self._node(name).feed(Drain())

    def _full(self, name: str) -> None:
        self._node(name).feed(Health(space=False))

    def _exhausted(self, name: str) -> None:
        self._node(name).feed(Health(space=False, room=False))

    def _sick(self, name: str) -> None:
        self._node(name).feed(Health(healthy=False))

    def _well(self, name: str) -> None:
        self._node(name).feed(Health())

    def _slow(self, name: str) -> None:
        self._node(name).slow = True

    def _flush(self, name: str) -> None:
        self._node(name).slow = False
        self._node(name).flush()

    def _state(self) -> None:
        group = self._stage.desk.group
        members = " ".join(f"b{each}" for each in group.sync.members)
        self._lines.append(f"epoch {group.epoch}, in sync {members}, version {group.sync.version}")
        for node in self._stage.nodes.values():
            role = "serves" if node.serves is not None else "leads" if node.core.leading else "follows"
            what = role if node.alive else "is dead"
            self._lines.append(f"b{node.id} {what}, ends at {node.log.end}, committed to {node.committed}")


def _say(event: Event) -> str:
    parts = [f"{each.name} {getattr(event, each.name)}" for each in fields(event)]
    return f"{type(event).__name__}: {', '.join(parts)}"
