"""Rules about single files: names, tasks, exceptions, the environment, logging, sleeps, leftovers."""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePath

from style.tree import Module

__all__ = [
    "blind_except_faults", "environment_faults", "leftover_faults", "log_faults", "name_faults", "room_faults",
    "sleep_faults", "task_faults",
]  # fmt: skip

BANNED_FILES = {"utils", "util", "common", "helpers", "helper", "misc", "manager", "managers", "base_classes"}
BANNED_CLASS_ENDINGS = ("Manager", "Helper", "Utils", "Util")
TASK_ROOM = "logherd.aiokit"
BLIND_ROOMS = ("logherd.app", "logherd.aiokit", "logherd_operator.handlers.desk")
ENVIRONMENT_ROOMS = (
    "logherd.settings", "logherd.cli", "logherd_guardian.entry", "logherd_guardian.child", "logherd_spark.source",
)  # fmt: skip
LIMIT_WORDS = re.compile(r"\b(no|not|never|nothing|only|neither)\b", re.IGNORECASE)
LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical"}

# Split, so that this file does not hold what it forbids.
LEFTOVERS = ("TO" + "DO", "FIX" + "ME", "XX" + "X:")
MACHINE_PATHS = ("/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/")
HOSTS = ("py" + "pi.org", "pythonhosted" + ".org", "repo1.ma" + "ven", "repo.ma" + "ven", "proxy.go" + "lang",
         "registry.np" + "mjs", "deb.deb" + "ian")  # fmt: skip
INDEX_OPTIONS = ("--index" + "-url", "--extra-index" + "-url", "--find" + "-links")


def _in(module: Module, rooms: tuple[str, ...]) -> bool:
    return any(module.name == room or module.name.startswith(room + ".") for room in rooms)


def name_faults(module: Module) -> list[str]:
    """A file or class is named by the noun that it holds."""
    faults = [f"{module.path}: name the noun"] if PurePath(module.path).stem in BANNED_FILES else []
    return faults + [
        f"{module.path}:{node.lineno}: {node.name}: name the noun"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and node.name.endswith(BANNED_CLASS_ENDINGS)
    ]


def task_faults(module: Module) -> list[str]:
    """Tasks are made by a task group or by aiokit, so that each has a name, an owner and an end."""
    if _in(module, (TASK_ROOM,)):
        return []
    faults = []
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        owner, _, method = called.rpartition(".")
        if method == "ensure_future" or (method == "create_task" and not re.search(r"group|tg$", owner)):
            faults.append(f"{module.path}:{node.lineno}: {called}: use a TaskGroup or logherd.aiokit")
    return faults


def blind_except_faults(module: Module) -> list[str]:
    """Only the top of the house may catch what it does not know."""
    if _in(module, BLIND_ROOMS):
        return []
    faults = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler):
            caught = "" if node.type is None else ast.unparse(node.type)
            blind = caught == "" or re.search(r"\b(Base)?Exception\b", caught)
            if blind and not isinstance(node.body[-1], ast.Raise):
                faults.append(f"{module.path}:{node.lineno}: except {caught}: name what you expect")
    return faults


def environment_faults(module: Module) -> list[str]:
    """The environment is read where a process begins: settings, cli, the guardian's two sides, Spark's source."""
    if _in(module, ENVIRONMENT_ROOMS):
        return []
    return [
        f"{module.path}:{node.lineno}: os.{node.attr}: take it as an argument"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv"}
    ]


def log_faults(module: Module) -> list[str]:
    """A log line is a fixed message and fields; data inside the message cannot be searched for."""
    return [
        f"{module.path}:{node.lineno}: a message that is put together: use fields"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in LOG_METHODS
        and re.search(r"log", ast.unparse(node.func.value), re.IGNORECASE)
        and node.args
        and isinstance(node.args[0], ast.JoinedStr | ast.BinOp)
    ]


def room_faults(path: str, text: str) -> list[str]:
    """A room's first words say what belongs in it and what it must not know."""
    docstring = ast.get_docstring(ast.parse(text)) or ""
    paragraphs = [paragraph for paragraph in docstring.split("\n\n") if paragraph.strip()]
    if len(paragraphs) < 2 or len(docstring) < 80:
        return [f"{path}: say in a paragraph what belongs here, and in another what it must not know"]
    if not any(LIMIT_WORDS.search(paragraph) for paragraph in paragraphs[1:]):
        return [f"{path}: say what this room must not know or do"]
    return []


def sleep_faults(path: str, text: str) -> list[str]:
    """A test that sleeps hopes; `asyncio.sleep(0)` only lets others run."""
    return [
        f"{path}:{node.lineno}: {ast.unparse(node)}: wait for what you mean"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"time.sleep", "asyncio.sleep", "sleep"}
        and not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    ]


def leftover_faults(path: str, text: str) -> Iterator[str]:
    """Nothing is left behind: notes to oneself, paths of one machine, hosts of a registry."""
    for number, line in enumerate(text.splitlines(), 1):
        for word in (*LEFTOVERS, *MACHINE_PATHS, *HOSTS, *INDEX_OPTIONS):
            if word in line:
                yield f"{path}:{number}: {word}"
