"""Request-reply with the unmodified Java client 5.2.0 (later ones cannot do it, see java-5.2.0/pom.xml)."""

from pathlib import Path

import pytest

from compat.conftest import needs
from compat.driver import Driver
from compat.server import Server
from compat.toolchain import HERE, compile_java

pytestmark = [pytest.mark.compat, pytest.mark.timeout(120)]
REPLY = HERE / "java-5.2.0"


def test_request_is_answered_by_the_consumers_reply(server: Server, topic: str, workspace: Path) -> None:
    classes = needs(lambda: compile_java(REPLY / "src" / "main" / "java", pom=REPLY / "pom.xml"))
    with Driver(classes, workspace / "reply", main="dev.logherd.compat.ReplyDriver") as driver:
        driver.call("start", nameServer=server.name_server, topic=topic)
        for i in range(10):
            answer = driver.call("request", text=f"question {i}", timeoutMs=30_000)
            assert answer == f"re: question {i}"
