"""Work that several test processes need the results of, done once: whoever comes first does it, others wait for it."""

import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["once"]


def once(folder: Path, name: str, work: Callable[[], Any]) -> Any:
    """The result of `work`, as JSON gives it back. `folder` is shared by the processes and fresh for each test run."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"{name}.json"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            fresh = folder / f"{name}.new"
            fresh.write_text(json.dumps(work()))
            fresh.rename(kept)
        return json.loads(kept.read_text())
