"""Plays a script: commands stay, their output is what comes out now."""

from pathlib import Path

from script.theatre import Theatre

__all__ = ["SCRIPTS", "play"]

SCRIPTS = sorted(Path(__file__).parent.glob("raft/*.txt"))


def play(text: str) -> str:
    """The script as it comes out now."""
    theatre = Theatre()
    result: list[str] = []
    for line in text.splitlines():
        if line.startswith("> "):
            result.append(line)
            result.extend("    " + shown for shown in theatre.run(line[2:]))
        elif line.startswith("#") or not line.strip():
            result.append(line)
    return "\n".join(result) + "\n"
