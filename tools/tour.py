"""`make tour`: start a group, send and receive with the official Java client, show what happened, clean up."""

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from compat.toolchain import compile_java, find_tool  # noqa: E402 -- the path has to be there first

COUNT = 5
LOGHERD = str(Path(sys.executable).with_name("logherd"))
EXAMPLE = ROOT / "examples/java"


def show(title: str) -> None:
    print(f"\n== {title}", flush=True)


def logherd(*arguments: str, folder: Path, capture: bool = False) -> str:
    """Run the command, print it, and return what it said if `capture`."""
    print(f"$ logherd {shlex.join(arguments)}", flush=True)
    done = subprocess.run([LOGHERD, *arguments], cwd=folder, check=True, text=True, capture_output=capture)
    return done.stdout if capture else ""


def run_client(classes: str, name_server: str) -> int:
    """Send and receive with the stock client; returns its exit code."""
    quiet = ["-Drocketmq.client.logUseSlf4j=false", f"-Drocketmq.client.logRoot={tempfile.gettempdir()}/logherd-tour"]
    command = [find_tool("java"), "-XX:TieredStopAtLevel=1", *quiet, "-cp", classes, "Hello", name_server, str(COUNT)]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode


def main() -> int:
    print("Fetching and compiling the stock client (RocketMQ 5.3.3); the first time takes a while.", flush=True)
    classes = compile_java(EXAMPLE, pom=EXAMPLE / "pom.xml")
    folder = Path(tempfile.mkdtemp(prefix="logherd-tour-"))
    try:
        shutil.copy(ROOT / "examples/group.yaml", folder)
        show("a group of three brokers, on free ports of this machine")
        free = ["--name-service-port", "0", "--broker-port", "0", "--admin-port", "0"]
        logherd("up", "-f", "group.yaml", "--detach", *free, folder=folder)
        status = json.loads(logherd("status", "-o", "json", folder=folder, capture=True))
        show(f"the unmodified Java client sends {COUNT} messages and receives them")
        code = run_client(classes, status["nameServer"])
        show("what the group says")
        logherd("topic", "show", "hello", "--name-server", status["nameServer"], folder=folder)
        logherd("status", folder=folder)
    finally:
        if (folder / ".logherd").exists():
            logherd("down", folder=folder)
        shutil.rmtree(folder)
    print(f"\n{'All messages came back.' if code == 0 else 'Messages are missing.'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
