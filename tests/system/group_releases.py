"""Two releases side by side: an upgrade one process after the other, and the way back, under faults (P28).

The other release is a checkout of it: what runs is its `broker` folder, with the interpreter and packages of this one.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from system.broker_groups import BROKERS
from system.controllers import NODES
from system.group_rounds import Round, Shape
from system.nodes import NodeProcess

__all__ = ["release_plan", "release_shapes"]

_FIRST = frozenset({BROKERS[0], *NODES[:2]})
"""These and the rest change sides, so that each release leads, follows and is filled from the other."""
_SOMEBODY = ("kill leader", "wipe follower")
_PARTS = ("to the other release", "halfway back", "the other half instead", "back")


def release_plan() -> list[str]:
    """Every change, and after each of them somebody who has to be replaced, and filled anew, by somebody else."""
    plan = []
    for part in _PARTS:
        plan += [part, *_SOMEBODY]
    return [*plan, "power cut of all brokers", _PARTS[0], "rolling restart", "kill all brokers"]


def release_shapes(other: Path) -> Mapping[str, Shape]:
    """`other`: a checkout."""

    def turn(is_other: Callable[[str], bool], *, killed: bool = False) -> Shape:
        return lambda r: _turn(r, lambda name: other if is_other(name) else None, killed=killed)

    return {
        _PARTS[0]: turn(lambda _: True),
        _PARTS[1]: turn(lambda name: name in _FIRST),
        _PARTS[2]: turn(lambda name: name not in _FIRST, killed=True),
        _PARTS[3]: turn(lambda _: False),
    }


def _turn(r: Round, release_of: Callable[[str], Path | None], *, killed: bool) -> None:
    """As docs/operations.md has it: controllers, followers, last the leader; after each all are in sync again."""
    changed = 0
    for name in (*NODES, *r.followers, r.leader):
        node: NodeProcess = r.controllers.nodes[name] if name in NODES else r.group.nodes[name]
        under = r.bench.clocks[name].under_release(release_of(name))
        if node.under == under:
            continue
        if killed:
            node.kill()
        else:
            assert node.stop() == 0, node.condition()
        node.under = under
        node.start()
        _prove_release(node, release_of(name))
        r.controllers.agree(seconds=180)
        r.group.agree()
        r.goes_on()
        changed += 1
    assert changed, "everybody was of that release before: this shows nothing"


def _prove_release(node: NodeProcess, checkout: Path | None) -> None:
    """By what it was started with, and what the kernel has of it: nothing that it says itself tells two releases apart
    that are one version yet."""
    environment = Path(f"/proc/{node.pid}/environ").read_bytes().split(b"\0")
    (path,) = (each.decode() for each in environment if each.startswith(b"PYTHONPATH="))
    assert checkout is None or str(checkout / "broker") in path, path
