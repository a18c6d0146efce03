"""Write every script anew, with the output as it comes out now: `python -m script.rewrite`."""

from script.play import SCRIPTS, play

if __name__ == "__main__":
    for path in SCRIPTS:
        before = path.read_text()
        after = play(before)
        if after != before:
            path.write_text(after)
            print(f"rewritten: {path.name}")
