"""What the guardian may take of what the system grants it."""

import os
import socket
import subprocess
import sys

import pytest

from logherd_guardian import entry
from logherd_guardian.options import Lent

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
page = shell._page.renew()
print(places)
"""

_IS_TOLD_EARLY = """
import os, signal, sys
from logherd_guardian import entry

ours, is_init = os.getpid(), sys.argv[1] == "init"
if is_init:
    os.getpid = lambda: 1
else:  # as whoever becomes the guardian by `exec` leaves it, or whoever starts it
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
assembled = entry._assembled

def slowly(options):
    os.kill(ours, signal.SIGTERM)
    return assembled(options)

entry._assembled = slowly
sys.exit(entry.run(["--listen", "127.0.0.1:0", "--", "sleep", "600"]))
"""


@pytest.mark.parametrize(("host", "alone"), [("", 0), ("::", 1)])
def test_without_a_host_both_versions_of_ip_are_taken_and_at_any_address_of_version_6_that_alone(
    host: str, alone: int
) -> None:
    with entry._bound(Lent("remoting", host, 0)) as made:
        assert made.family == socket.AF_INET6
        assert made.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == alone


@pytest.mark.parametrize("starts", ["init", "held"])
def test_a_stop_that_comes_while_it_starts_is_heard(starts: str) -> None:
    """The kernel drops what the first process of a container does not handle. Its pod would get no other word before
    its time is over."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _IS_TOLD_EARLY, starts]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=20, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "listening" in ended.stderr
    assert "child started" not in ended.stderr


@pytest.mark.parametrize(("granted", "places"), [(1_024, 256), (512, 227), (128, 35), (56, 0)])
def test_connections_that_are_passed_on_leave_descriptors_for_the_next_child(granted: int, places: int) -> None:
    command = [sys.executable, "-c", _FILLS_ITS_PLACES, str(granted)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.returncode) == (f"{places}\n", 0), ended.stderr
    assert ("passes on at most" in ended.stderr) == (places < 256)
