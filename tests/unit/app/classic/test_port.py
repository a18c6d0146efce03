"""The slaves' port: whom it takes, and what it says of the others."""

import pytest

from logherd.app.classic.port import ClassicPort
from unit.app.classic.test_slaves_known import Registered
from unit.classic.logs import MemoryLog


def test_the_end_tells_how_many_refused_slaves_were_not_named(caplog: pytest.LogCaptureFixture) -> None:
    port = ClassicPort(MemoryLog, Registered(1), now_ms=lambda: 0)
    for number in range(25):
        port.complaints.warning("slave refused", remote=f"h:{number}", reason="too many are connected")
    port.close()
    port.close()
    told = [record.__dict__["fields"] for record in caplog.records]
    assert told[10:] == [{"reason": "too many are connected", "left_out": 15, "seconds": 0}]
