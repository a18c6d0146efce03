"""From settings to the limits of a server."""

import json
from pathlib import Path

import pytest

from logherd.app import option_values
from logherd.app.broker import Broker
from logherd.app.option_values import net_limits
from logherd.settings.load import load_broker_options

MIB = 1 << 20


@pytest.mark.parametrize(("said", "granted", "total", "unread"), [
    ({}, 256 * MIB, 64 * MIB, MIB), ({}, 64_000 * MIB, 256 * MIB, 4 * MIB),
    ({"bufferedSize": "512MiB"}, 256 * MIB, 512 * MIB, 4 * MIB),
    ({"bufferedSize": "16MiB"}, 64_000 * MIB, 16 * MIB, MIB // 4),
])  # fmt: skip
def test_what_is_kept_for_clients_goes_by_the_memory_unless_the_settings_say_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: dict[str, str], granted: int, total: int, unread: int
) -> None:
    path = tmp_path / "broker.json"
    path.write_text(json.dumps({"brokerGroup": "g", "dataDir": str(tmp_path), "limits": said}))
    monkeypatch.setattr(option_values, "granted_memory", lambda: granted)
    flow = net_limits(load_broker_options(path).limits, connections=10).flow
    assert (flow.total_bytes_max, flow.unsent_bytes_soft) == (total, unread)


@pytest.mark.parametrize(("said", "unsent", "largest"), [
    ("1MiB", 4 * MIB + 131_072, "4MiB"), ("1MiB", MIB, "512KiB"), ("32MiB", 32 * MIB, "4MiB"),
])  # fmt: skip
async def test_a_client_may_always_leave_one_answer_with_the_largest_message_unread(
    tmp_path: Path, said: str, unsent: int, largest: str
) -> None:
    """Sent at once it fills what the system takes, and the rest lies here: nobody who reads slowly could get it."""
    path, anywhere = tmp_path / "broker.json", "127.0.0.1:0"
    path.write_text(json.dumps({
        "brokerGroup": "g", "dataDir": str(tmp_path / "data"), "listen": anywhere, "adminListen": anywhere,
        "limits": {"unsentSizePerConnection": said}, "nameService": {"listen": anywhere},
        "store": {"segmentSize": "8MiB", "messageSizeMax": largest, "indexSlots": 16, "indexEntries": 64},
    }))  # fmt: skip
    broker = await Broker.start(load_broker_options(path), on_failure=lambda: None)
    try:
        assert broker._server is not None
        assert broker._server._hub.limits.flow.unsent_bytes_max == unsent
        broker._relimit(broker._options)
        assert broker._server._hub.limits.flow.unsent_bytes_max == unsent
    finally:
        await broker.stop()
