"""Runs command lines in this process."""

import pytest

from logherd.cli.umbrella import run_umbrella

__all__ = ["Terminal"]


class Terminal:
    """What command lines print and say is there afterwards."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.printed = ""
        self.said = ""

    def run(self, *arguments: str) -> int:
        code = run_umbrella(arguments)
        self.printed, self.said = self._capsys.readouterr()
        return code

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.printed.splitlines()]
