"""What the guardian may take of what the system grants it."""

import os
import subprocess
import sys

import pytest

_FILLS_ITS_PLACES = """
import os, resource, sys
from logherd_guardian import entry
from logherd_guardian.options import Lent, Options

soft = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, soft))
lent = tuple(Lent(name, "127.0.0.1", 0) for name in ("remoting", "names"))
shell = entry._assembled(Options(lent=lent, command=("x",)))
[places] = {door._allowance.left for door in shell._doors.values()}
held = [os.pipe() for _ in range(places)]  # as many as so many relays
page = shell._new_page()
print(places)
"""


@pytest.mark.parametrize(("granted", "places"), [(1_024, 256), (512, 227), (128, 35), (56, 0)])
def test_connections_that_are_passed_on_leave_descriptors_for_the_next_child(granted: int, places: int) -> None:
    command = [sys.executable, "-c", _FILLS_ITS_PLACES, str(granted)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.returncode) == (f"{places}\n", 0), ended.stderr
    assert ("passes on at most" in ended.stderr) == (places < 256)
