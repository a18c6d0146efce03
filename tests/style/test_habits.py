"""Habits over the tree, and each rule on an example that breaks it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from style import habits
from style.tree import PACKAGES, ROOT, Module, modules, rooms, tracked_files

MODULE_RULES = [
    habits.name_faults, habits.task_faults, habits.blind_except_faults, habits.environment_faults, habits.log_faults,
]  # fmt: skip
Rule = Callable[[Module], list[str]]
TEXT_MAX = 4 << 20
NOT_OURS = {"requirements.lock", "tools/uv.lock", "LICENSE"}


@pytest.mark.parametrize("rule", MODULE_RULES)
def test_the_tree_keeps_the_rule(rule: Rule) -> None:
    assert [fault for module in modules() for fault in rule(module)] == []


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (habits.name_faults, "class QueueManager:\n    pass\n"),
        (habits.task_faults, "asyncio.create_task(f())\n"),
        (habits.task_faults, "loop.create_task(f())\n"),
        (habits.task_faults, "asyncio.ensure_future(f())\n"),
        (habits.blind_except_faults, "try:\n    f()\nexcept Exception:\n    pass\n"),
        (habits.blind_except_faults, "try:\n    f()\nexcept (ValueError, BaseException):\n    g()\n"),
        (habits.blind_except_faults, "try:\n    f()\nexcept:\n    g()\n"),
        (habits.environment_faults, "import os\nos.environ['A']\n"),
        (habits.environment_faults, "import os\nos.getenv('A')\n"),
        (habits.log_faults, "_log.info(f'took {n}')\n"),
        (habits.log_faults, "self._log.error('took ' + n)\n"),
    ],
)
def test_a_rule_notices_a_bad_example(rule: Rule, text: str) -> None:
    assert len(rule(Module("logherd.store.example", "broker/logherd/store/example.py", text))) == 1


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (habits.name_faults, "class Queue:\n    pass\n"),
        (habits.task_faults, "group.create_task(f(), name='f')\n"),
        (habits.blind_except_faults, "try:\n    f()\nexcept BaseException:\n    g()\n    raise\n"),
        (habits.blind_except_faults, "try:\n    f()\nexcept OSError:\n    pass\n"),
        (habits.log_faults, "_log.info('flushed', bytes=n)\n"),
    ],
)
def test_a_rule_leaves_a_good_example_alone(rule: Rule, text: str) -> None:
    assert rule(Module("logherd.store.example", "broker/logherd/store/example.py", text)) == []


def test_a_file_called_utils_is_noticed() -> None:
    assert len(habits.name_faults(Module("logherd.store.utils", "broker/logherd/store/utils.py", ""))) == 1


def test_every_room_says_what_belongs_in_it() -> None:
    assert [
        fault for room in rooms() for fault in habits.room_faults(room, (ROOT / room / "__init__.py").read_text())
    ] == []


def test_a_room_that_says_too_little_is_noticed() -> None:
    assert len(habits.room_faults("room", '"""The store."""\n')) == 1
    vague = '"""Keeps messages in files, with a log and an index over it.\n\nIt is fast, small and well tested."""\n'
    assert len(habits.room_faults("room", vague)) == 1


def test_every_folder_of_a_package_is_a_room() -> None:
    for package in PACKAGES.values():
        for folder in {path.parent for path in package.rglob("*.py")}:
            assert (folder / "__init__.py").exists(), folder


def test_unit_tests_do_not_sleep() -> None:
    paths = list((ROOT / "tests/unit").rglob("*.py"))
    assert [fault for path in paths for fault in habits.sleep_faults(str(path), path.read_text())] == []


@pytest.mark.parametrize("call", ["time.sleep(1)", "asyncio.sleep(0.1)", "sleep(n)"])
def test_a_sleep_is_noticed(call: str) -> None:
    assert len(habits.sleep_faults("test.py", f"{call}\n")) == 1
    assert habits.sleep_faults("test.py", "asyncio.sleep(0)\n") == []


def text_of(path: Path) -> str:
    try:
        return path.read_text() if path.stat().st_size < TEXT_MAX else ""
    except UnicodeDecodeError:  # golden bytes
        return ""


def test_nothing_is_left_behind() -> None:
    names = [(str(path.relative_to(ROOT)), path) for path in tracked_files()]
    faults = [
        fault for name, path in names if name not in NOT_OURS for fault in habits.leftover_faults(name, text_of(path))
    ]
    assert faults == []


@pytest.mark.parametrize("words", [habits.LEFTOVERS, habits.MACHINE_PATHS, habits.HOSTS, habits.INDEX_OPTIONS])
def test_leftovers_are_noticed(words: tuple[str, ...]) -> None:
    for word in words:
        assert list(habits.leftover_faults("a.py", f"x = 1\n# {word} here\n")) == [f"a.py:2: {word}"]
