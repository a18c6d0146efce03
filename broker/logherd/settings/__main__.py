"""`python -m logherd.settings broker|controller FILE [path.to.key=value ...]`: prints the checked options as JSON, or
what is wrong. `--keep` reads `[[KIND, FILE], ...]`, checks all of these files and keeps what they come to (`kept.py`).
`--change KIND` reads `{"options": {...}, "wanted": {...}}` and prints the options with what is wanted.
"""

import json
import sys
from pathlib import Path

from logherd.settings.checked import check_change
from logherd.settings.errors import SettingsError
from logherd.settings.kept import keep_checked, recall_checked
from logherd.settings.load import Kind, load_checked_values

EXIT_WRONG = 2


def main(arguments: list[str]) -> int:
    """Exit code 0 with JSON on standard output, or 2 with sentences on standard error."""
    try:
        if arguments[0] == "--keep":
            text = sys.stdin.read()
            for kind, file in json.loads(text or "[]"):
                _keep(_kind(kind), Path(file))
        elif arguments[0] == "--change":
            asked = json.load(sys.stdin)
            json.dump(check_change(_kind(arguments[1]), asked["options"], asked["wanted"]), sys.stdout)
        else:
            json.dump(load_checked_values(_kind(arguments[0]), Path(arguments[1]), arguments[2:]), sys.stdout)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_WRONG
    return 0


def _kind(text: str) -> Kind:
    return "controller" if text == "controller" else "broker"


def _keep(kind: Kind, path: Path) -> None:
    if recall_checked(kind, path, ()) is not None:
        return  # as when a group starts again
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""  # the check says what is wrong with it
    keep_checked(kind, path, (), text, load_checked_values(kind, path, ()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
