"""A process with a broker's command line and admin port. FAKE_BROKER says how it misbehaves."""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

MODE = os.environ.get("FAKE_BROKER", "")
CONFIG: dict[str, Any] = json.loads(Path(sys.argv[sys.argv.index("--config") + 1]).read_text())
READY_FILE = Path(sys.argv[sys.argv.index("--ready-file") + 1])


class Pages(BaseHTTPRequestHandler):
    """/ready and /status as the contract says."""

    def do_GET(self) -> None:
        ready = MODE != "never-ready"
        status = {
            "group": CONFIG["brokerGroup"], "epoch": 3, "brokerId": 0, "role": "leader", "address": CONFIG["listen"],
            "pid": os.getpid(), "ready": ready, "endPosition": 120, "committedPosition": 100,
            "nameServer": CONFIG["nameService"].get("listen", "far:1"),
        }  # fmt: skip
        self.send_response(200 if ready or self.path == "/status" else 503)
        self.end_headers()
        self.wfile.write(json.dumps(status).encode())

    def log_message(self, *args: object) -> None:
        """Say nothing."""


if MODE == "dies":
    sys.stderr.write("the store is damaged: say why\n")
    sys.exit(3)
if MODE == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
host, _, port = CONFIG["adminListen"].rpartition(":")
server = HTTPServer((host, int(port)), Pages)
name_server = CONFIG["nameService"].get("listen", "far:1")
told = {
    "address": CONFIG["listen"],
    "admin": f"{host}:{server.server_port}",
    "nameServer": name_server,
    "pid": os.getpid(),
}
fresh = READY_FILE.with_suffix(".fresh")
fresh.write_text(json.dumps(told))
fresh.rename(READY_FILE)
server.serve_forever()
