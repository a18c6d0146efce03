"""A broker process that follows a RocketMQ master: the log, the admin port, and no port for clients."""

import os
import shutil
from collections.abc import Callable

from logherd.app.admin_http import AdminHttp
from logherd.app.admin_routes import Page, Routes
from logherd.app.binding import CannotListen
from logherd.app.classic.following import Following
from logherd.app.clock import SystemClock
from logherd.app.engine import BrokerFailed
from logherd.app.guarded.lent import Lent
from logherd.app.metrics.broker import read_log
from logherd.app.metrics.parts import read_build
from logherd.app.metrics.text import scrape_of
from logherd.settings.options import BrokerOptions, Endpoint
from logherd.telemetry.log import Log
from logherd.telemetry.metrics import Readings

__all__ = ["ClassicFollower"]

_STOP_SECONDS = 5.0

_log = Log("logherd.classic")


class ClassicFollower:
    """A running follower. Made by `start`; belongs to the loop on which it was started."""

    def __init__(self, options: BrokerOptions, on_failure: Callable[[], None]) -> None:
        self._options = options
        self._on_failure = on_failure
        self._failure: BrokerFailed | None = None
        self._clock = SystemClock()
        self._started_ms = self._clock.now_ms()
        self._following = Following(options, self._clock, on_failure=self.fail)
        pages: dict[str, Page] = {"/status": self._status, "/health": self._health, "/ready": self._ready}
        self._admin = AdminHttp(Routes(pages, scrape=scrape_of(self._collect)))
        self._bound: dict[str, str] = {}

    @staticmethod
    async def start(options: BrokerOptions, *, on_failure: Callable[[], None], lent: Lent) -> "ClassicFollower":
        """Open what is there and begin to follow; the master may be away.

        Raises: CannotListen, FollowerFileError, StoreError, OSError; nothing is left open or running then.
        """
        lent.take_nothing_else()
        follower = ClassicFollower(options, on_failure)
        admin = options.admin_listen
        try:
            port = await follower._admin.start(admin.host, admin.port)
        except OSError as error:
            raise CannotListen(f"adminListen {admin}: {error.strerror}") from error
        try:
            follower._following.start()
        except BaseException:
            await follower.abandon()
            raise
        follower._bound["admin"] = str(Endpoint(host=admin.host, port=port))
        return follower

    def addresses(self) -> dict[str, str]:
        """What was bound: admin."""
        return dict(self._bound)

    def check(self) -> None:
        """Raises: BrokerFailed if the store has failed."""
        if self._failure is not None:
            raise self._failure

    def fail(self, error: BaseException) -> None:
        """Nothing may be written any more."""
        if self._failure is None:
            self._failure = BrokerFailed(f"{type(error).__name__}: {error}")
            self._on_failure()

    async def stop(self) -> None:
        """Follow no more, flush, close the store. Raises: BrokerFailed."""
        self._admin.close()
        await self._following.close(orderly=True, seconds=_STOP_SECONDS)
        self.check()

    async def abandon(self) -> None:
        """Let go of everything without writing."""
        self._admin.close()
        await self._following.close(orderly=False, seconds=_STOP_SECONDS)

    # ---- pages

    def _status(self) -> tuple[int, object]:
        options, log, progress = self._options, self._following.log, self._following.progress
        return 200, {
            "group": options.broker_group,
            "cluster": options.cluster_name,
            "brokerId": options.broker_id,
            "role": "classicFollower",
            "master": str(options.replication.classic_ha.master),
            "pid": os.getpid(),
            "ready": self._following.follows,
            "endPosition": log.store.end_position if log is not None else 0,
            "committedPosition": log.store.committed_position if log is not None else 0,
            "startedAt": self._started_ms,
            "following": progress,
        }

    def _collect(self) -> Readings:
        readings, log = Readings(), self._following.log
        read_build(readings, ready=self._following.follows, healthy=self._failure is None)
        if log is not None:
            disk_total = shutil.disk_usage(self._options.data_dir).total
            read_log(readings, log.store, log.flush_seconds, disk_total=disk_total)
        return readings

    def _health(self) -> tuple[int, object]:
        healthy = self._failure is None
        return (200 if healthy else 503), {"healthy": healthy}

    def _ready(self) -> tuple[int, object]:
        """Ready is who follows."""
        ready = self._following.follows
        return (200 if ready else 503), {"ready": ready}
