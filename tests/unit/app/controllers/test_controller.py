"""A whole controller, alone in its quorum."""

import asyncio
import json
from pathlib import Path

from logherd.app.binding import bind
from logherd.app.controllers.controller import Controller
from logherd.settings.load import load_controller_options
from logherd.settings.options import ControllerOptions, Endpoint


def options_of(root: Path, **said: object) -> ControllerOptions:
    with bind(Endpoint("127.0.0.1", 0), "peerListen") as taken:
        peer = f"127.0.0.1:{taken.getsockname()[1]}"
    anywhere, config = "127.0.0.1:0", root / "c-0.json"
    config.write_text(json.dumps({
        "nodeName": "c-0", "controllers": [{"name": "c-0", "peer": peer, "address": "127.0.0.1:1"}],
        "listen": anywhere, "peerListen": peer, "adminListen": anywhere, "dataDir": str(root / "data"),
        "nameService": {"listen": anywhere}, "election": {"timeoutMs": 300, "spreadMs": 300, "heartbeatMs": 50}, **said,
    }))  # fmt: skip
    return load_controller_options(config)


async def test_h13_its_name_service_knows_the_groups_once_the_quorum_has_said_what_is_decided(tmp_path: Path) -> None:
    controller = await Controller.start(options_of(tmp_path), on_failure=lambda: None)
    try:
        async with asyncio.timeout(30):
            while not controller._decisions.known_groups._whole:
                await asyncio.sleep(0)
        controller.check()
    finally:
        await controller.stop()


async def test_its_name_service_knows_how_long_leases_are_and_lets_clients_be_silent(tmp_path: Path) -> None:
    options = options_of(tmp_path, leaseMs=20_000)
    controller = await Controller.start(options, on_failure=lambda: None)
    try:
        names = controller._names
        assert names is not None
        assert names.routes._succession_ms == 60_000
        for _ in range(2):
            assert names.server._hub.limits.patience.first_frame_seconds == 120
            controller._relimit(options)
    finally:
        await controller.stop()
