"""`python -m logherd.settings broker|controller FILE [path.to.key=value ...]`: prints the checked options as JSON, or
what is wrong."""

import json
import sys
from pathlib import Path

from logherd.settings.errors import SettingsError
from logherd.settings.load import Kind, load_checked_values

EXIT_WRONG = 2


def main(arguments: list[str]) -> int:
    """Exit code 0 with JSON on standard output, or 2 with sentences on standard error."""
    try:
        kind: Kind = "controller" if arguments[0] == "controller" else "broker"
        values = load_checked_values(kind, Path(arguments[1]), arguments[2:])
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_WRONG
    json.dump(values, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
