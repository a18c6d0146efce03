"""Write every script anew, with the output as it comes out now: `PYTHONPATH=broker:tests python -m script.rewrite`."""

from pathlib import Path

from script import play as raft
from script.controller import stage as controller
from script.group import stage as group
from script.static import stage as static
from script.voting import stage as voting

if __name__ == "__main__":
    stages = (
        ("raft", raft.play), ("controller", controller.play), ("group", group.play), ("static", static.play),
        ("voting", voting.play),
    )  # fmt: skip
    for folder, play in stages:
        for path in sorted((Path(__file__).parent / folder).glob("*.txt")):
            before = path.read_text()
            after = play(before)
            if after != before:
                path.write_text(after)
                print(f"rewritten: {folder}/{path.name}")
