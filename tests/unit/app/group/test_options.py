"""Whatever the settings allow, a replica starts with."""

from pathlib import Path

import pytest

from logherd.app.group.timing import group_options
from logherd.settings.load import load_broker_options
from unit.settings.test_replication import REPLICA, write


@pytest.mark.parametrize("heartbeat", ["100ms", "500ms", "10s"])
@pytest.mark.parametrize("lag", ["400ms", "1500ms", "7s", "60s"])
def test_every_allowed_time_fits_the_machine(tmp_path: Path, heartbeat: str, lag: str) -> None:
    overrides = [f"replication.heartbeat={heartbeat}", f"replication.lagTimeout={lag}"]
    options = group_options(load_broker_options(write(tmp_path, REPLICA), overrides).replication)
    assert options.lag_ms < options.alone_ms <= options.alone_ms_max
    assert options.urgent_ms <= options.beat_ms
