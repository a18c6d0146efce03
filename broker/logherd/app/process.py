"""One broker process."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from logherd.app.broker import Broker
from logherd.app.classic.follower import ClassicFollower
from logherd.app.foreground import Server, run_server
from logherd.app.group.healing_process import Healing, can_heal, must_heal
from logherd.app.guarded.lent import Lent
from logherd.settings.options import BrokerOptions
from logherd.store import StoreDamaged, StoreFull
from logherd.store.damage_note import note_damage
from logherd.store.files_os import OsFiles

__all__ = ["run"]


def run(options: BrokerOptions, *, ready_file: Path | None) -> int:
    """Run a broker until SIGTERM or SIGINT. Blocks. The result is the exit code, see `run_server`."""

    def start(lent: Lent, failed: Callable[[], None]) -> Awaitable[Server]:
        if options.replication.classic_ha.master is not None:
            return ClassicFollower.start(options, on_failure=failed, lent=lent)
        return _start(options, lent, failed)

    return run_server("broker", start, options.log, ready_file=ready_file)


async def _start(options: BrokerOptions, lent: Lent, failed: Callable[[], None]) -> Server:
    """The broker; or, if its store is damaged and there are replicas to fetch from, what heals it."""
    if must_heal(options):
        return await Healing.start(options, on_failure=failed)
    try:
        return await Broker.start(options, on_failure=failed, lent=lent)
    except StoreDamaged as error:
        if not can_heal(options):
            raise
        with suppress(StoreFull):  # it is healed now; if that comes to nothing, the next process meets it, too
            note_damage(OsFiles(), options.data_dir, error)
    return await Healing.start(options, on_failure=failed)
