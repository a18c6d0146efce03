"""A real server in a process of its own that answers every request with its own body. Prints its port.

Arguments: seconds for the first frame, seconds for a begun frame.
"""

import asyncio
import logging
import sys
from dataclasses import replace

import uvloop

from logherd.net.limits import NetLimits
from logherd.net.server import Server
from logherd.net.session import NetSession
from logherd.telemetry.log import configure
from logherd.wire.frame import Flag, Frame


class Echo:
    def on_open(self, session: NetSession) -> None: ...

    def on_close(self, session: NetSession) -> None: ...

    def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
        for frame in frames:
            if not frame.flag & Flag.ONEWAY:
                session.send_answer(frame, Frame(0, frame.opaque, flag=Flag.RESPONSE, body=frame.body))


async def main() -> None:
    limits = NetLimits()
    patience = replace(
        limits.patience, first_frame_seconds=float(sys.argv[1]), frame_seconds=float(sys.argv[2]), sweep_seconds=0.1
    )
    server = Server(Echo(), replace(limits, patience=patience))
    _, port = await server.listen("127.0.0.1", 0)
    print(port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(2)


if __name__ == "__main__":
    configure(sys.stderr, level=logging.WARNING)
    uvloop.run(main())
