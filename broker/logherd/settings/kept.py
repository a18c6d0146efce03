"""The checked form of a configuration file, kept beside it as FILE.checked, so that the next life of a process need not
check it again: checking takes longer than the rest of a start.

It is believed only for exactly the text, the overrides, the working directory and the program that were checked. Where
it cannot be written, as beside a file that Kubernetes mounts, each start checks.
"""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["keep_checked", "recall_checked"]


def recall_checked(kind: str, path: Path, overrides: Sequence[str]) -> bytes | None:
    """The options as JSON, if what would be checked now was checked before; else None."""
    try:
        kept = json.loads(_beside(path).read_bytes())
        if kept["of"] == _subject(kind, path, overrides):
            return json.dumps(kept["options"]).encode()
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def keep_checked(kind: str, path: Path, overrides: Sequence[str], text: str, options: object) -> None:
    """Keep what `text`, the content of the file when it was checked, came to; nothing if that cannot be written."""
    subject = {**_subject(kind, path, overrides), "text": text}
    fresh = path.with_name(f"{path.name}.checked.{os.getpid()}")
    try:
        fresh.write_text(json.dumps({"of": subject, "options": options}))
        fresh.replace(_beside(path))
    except OSError:
        with suppress(OSError):  # a full disk lets it be made, and every start would leave one
            fresh.unlink()


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".checked")


def _subject(kind: str, path: Path, overrides: Sequence[str]) -> dict[str, object]:
    """What a check depends on. Raises: OSError, ValueError."""
    program = max(each.stat().st_mtime_ns for each in Path(__file__).parent.glob("*.py"))
    return {
        "kind": kind, "text": path.read_text(encoding="utf-8"), "overrides": list(overrides), "cwd": str(Path.cwd()),
        "program": program,
    }  # fmt: skip
