"""From settings to the limits of a server."""

import json
from pathlib import Path

import pytest

from logherd.app import option_values
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
