"""A child for tests of the guardian: answers lines on the lent socket, and does what it is told on its command line.

`python guarded_child.py NOTES [KEY=VALUE ...]` appends one JSON line about itself to NOTES at each start. Keys:
ready_after (seconds), ready_when (a file, once it exists), lease_ms (renewed while it runs), stray (leave subprocesses
behind), deaf (ignore SIGTERM).
A line "die N" makes it exit with N; any other is answered with "child PID " before it.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from selectors import EVENT_READ, DefaultSelector

from logherd_guardian.child import Identity, LeasePage, clock_ms, incarnation, inherited_sockets


def main() -> None:
    settings = dict(part.split("=", 1) for part in sys.argv[2:])
    descriptors = sorted(os.listdir("/proc/self/fd"), key=int)
    lent, page = inherited_sockets(), LeasePage.inherited()
    assert page is not None
    if "deaf" in settings:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    strays = []
    if "stray" in settings:
        # One in the process group, one that left it, and one that left it twice over.
        strays.append(subprocess.Popen(["sleep", "1000"]).pid)
        strays.append(subprocess.Popen(["sleep", "1001"], start_new_session=True).pid)
        subprocess.run(["setsid", "sh", "-c", "sleep 1002 & echo $! > $0.orphan", sys.argv[1]], check=True)
        with open(sys.argv[1] + ".orphan") as file:
            strays.append(int(file.read()))
    note = {
        "pid": os.getpid(), "incarnation": incarnation(), "descriptors": descriptors, "strays": strays,
        "session": os.getsid(0),
    }  # fmt: skip
    page.identify(Identity(cluster="cluster", group="group", broker_id=3, store_id="store"))
    with open(sys.argv[1], "a") as notes:
        notes.write(json.dumps(note) + "\n")
    serve(lent["remoting"], page, settings)


def serve(listener: socket.socket, page: LeasePage, settings: dict[str, str]) -> None:
    selector, ready = DefaultSelector(), False
    ready_at = time.monotonic() + float(settings.get("ready_after", "0"))
    ready_when, lease_ms = settings.get("ready_when", "/"), int(settings.get("lease_ms", "0"))
    while True:
        if not ready and time.monotonic() >= ready_at and os.path.exists(ready_when):
            ready = True
            selector.register(listener, EVENT_READ)
            page.registered()
            page.ready()
        if lease_ms:
            page.lease(1, clock_ms() + lease_ms)
        for key, _ in selector.select(0.02):
            if key.fileobj is listener:
                try:
                    connection, _ = listener.accept()
                except BlockingIOError:
                    continue
                selector.register(connection, EVENT_READ)
                continue
            assert isinstance(key.fileobj, socket.socket)
            answer(selector, key.fileobj)


def answer(selector: DefaultSelector, connection: socket.socket) -> None:
    try:
        line = connection.recv(4096)
        if line.startswith(b"die"):
            os._exit(int(line.split()[1]))
        if line:
            connection.sendall(b"child %d " % os.getpid() + line)
            return
    except ConnectionError:
        pass
    selector.unregister(connection)
    connection.close()


if __name__ == "__main__":
    main()
