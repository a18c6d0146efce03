"""Orders to the brokers of a group without controllers, as an operator gives them, and the settings that allow them."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from system.guarded_group import GuardedReplica

__all__ = ["admins", "replica_command", "token_file"]


def token_file(directory: Path) -> Path:
    """A secret, as `adminTokenFile` names it."""
    path = directory / "token"
    path.write_text("secret\n")
    path.chmod(0o600)
    return path


def admins(brokers: Sequence[GuardedReplica]) -> list[str]:
    """The option --admin for each of them."""
    return [each for broker in brokers for each in ("--admin", f"{broker.host}:{broker.admin_port}")]


def replica_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`logherd replica`, its answer as JSON."""
    command = [sys.executable, "-m", "logherd", "replica", *arguments, "-o", "json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
