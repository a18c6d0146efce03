"""Console blocks of a document: what they say is typed, what they say is printed, and whether it is so."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Step", "differences", "masked", "steps"]

SECONDS_MAX = 200
# What differs from run to run, and what stands for it on both sides of a comparison.
MASKS = (
    (re.compile(r"\b[0-9A-F]{32}\b"), "<id>"),
    (re.compile(r"\b(127\.0\.0\.1):\d+"), r"\1:<port>"),
    (re.compile(r"\bpid \d+"), "pid <pid>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+Z?"), "<time>"),
    (re.compile(r"  +"), "  "),  # a column is as wide as its widest cell, and ports differ in width
)


@dataclass(frozen=True)
class Step:
    """One command and its output as the document shows it."""

    command: str
    printed: str


def steps(document: str) -> Iterator[Step]:
    """All steps of all ```console blocks, in order."""
    for block in re.findall(r"^```console\n(.*?)^```$", document, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            yield Step(command, printed)


def masked(text: str) -> str:
    """The text with everything that differs from run to run replaced."""
    for pattern, stand_in in MASKS:
        text = pattern.sub(stand_in, text)
    return text.strip()


def differences(document: str, folder: Path, environment: Mapping[str, str]) -> list[str]:
    """Run all steps in `folder`, one after the other; what was printed otherwise than shown."""
    found = []
    for step in steps(document):
        done = subprocess.run(
            ["bash", "-c", step.command], cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS_MAX, check=False,
        )  # fmt: skip
        if masked(done.stdout) != masked(step.printed):
            found.append(f"$ {step.command}\nshown:\n{step.printed}\nprinted:\n{done.stdout}")
    return found
