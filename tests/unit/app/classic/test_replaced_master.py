"""Another process answers at the master's address."""

import asyncio
from pathlib import Path

import pytest

from logherd.app.classic import following
from logherd.app.classic.side_files import SideFiles
from logherd.net.session import NetSession
from logherd.store.files_os import OsFiles
from logherd.wire.frame import Frame
from unit.app.classic.test_following import FakeMaster, has_all, running_follower, running_master, until
from unit.app.classic.test_promotion import config


def test_h8_metadata_counts_only_of_the_master_whose_log_was_followed_meanwhile(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another one takes its address in the middle of the questions, with nothing of what this one had."""

    class Replaced(FakeMaster):
        by: dict[str, str] | None = None

        def on_frames(self, session: NetSession, frames: list[Frame]) -> None:
            if self.by is not None and any(frame.code == 21 for frame in frames):
                self.files, self.by = self.by, None
                self.settings["brokerName"] = "other"
                for wire in self.wires:
                    wire.close()
            super().on_frames(session, frames)

    async def run() -> None:
        async with running_master(Replaced()) as master:
            master.grow(3)
            async with running_follower(tmp_path, master) as follower:
                await until(lambda: follower.progress.metadata_ms > 0)
                assert isinstance(master, Replaced)
                master.by = config("T", offset=0)
                await until(lambda: master.by is None)
                taken = follower.progress.metadata_ms
                await until(lambda: "not taken" in caplog.text or follower.progress.metadata_ms != taken)
                pulled = SideFiles(OsFiles(), tmp_path / "store").pulled()
                assert pulled is not None
                assert pulled.files == config("T")

    asyncio.run(run())


def test_that_a_master_has_less_is_told_once_however_its_log_grows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status tells the latest numbers."""
    monkeypatch.setattr(following, "_RETRY_SECONDS", 0.01)

    async def run() -> None:
        async with running_master() as master:
            master.grow(30)
            async with running_follower(tmp_path, master) as follower:
                await until(lambda: has_all(follower, master))
        caplog.clear()
        async with running_master() as other, running_follower(tmp_path, other) as follower:
            for _ in range(20):
                other.grow(1)
                await until(lambda: f"ends at {len(other.log)}, this one" in follower.progress.reason)

    asyncio.run(run())
    assert caplog.text.count("following a master") == 1
