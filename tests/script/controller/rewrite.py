"""Write every transcript anew, with the output as it comes out now: `python -m script.controller.rewrite`."""

from pathlib import Path

from script.controller.stage import play

if __name__ == "__main__":
    for path in sorted(Path(__file__).parent.glob("*.txt")):
        before = path.read_text()
        after = play(before)
        if after != before:
            path.write_text(after)
            print(f"rewritten: {path.name}")
