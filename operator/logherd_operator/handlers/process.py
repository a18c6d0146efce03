"""`logherd operator run`: take the lease, then watch and work until told to stop or the lease is lost."""

import asyncio
import logging
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import kopf

from logherd_operator.clients.admin import Admins, opened_admins
from logherd_operator.clients.api import Api
from logherd_operator.clients.lease import Lease, LeasePlace
from logherd_operator.clients.session import ClusterAccess, load_access, opened
from logherd_operator.handlers.audit import Audit, AuditPace, WatchStale
from logherd_operator.handlers.desk import Desk
from logherd_operator.handlers.health import Pages, serving
from logherd_operator.handlers.reconcile import Means, Options, Reconciler
from logherd_operator.handlers.watching import Watches, registry_of
from logherd_operator.resources.site import Ports
from logherd_operator.spec.errors import OperatorError

__all__ = ["LeaseLost", "RunOptions", "hold", "run_operator", "work"]

_log = logging.getLogger("logherd.operator")


class LeaseLost(OperatorError):
    """Another operator may act now, so this one must not: the process ends and begins anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """`namespaces` empty: all. `lease` None: nobody else acts, by the word of whoever started it."""

    options: Options
    lease: LeasePlace | None
    namespaces: Sequence[str]
    health_port: int
    audit: AuditPace | None = None


async def run_operator(run: RunOptions) -> None:
    """Until a signal. Raises: LeaseLost, WatchStale; ClusterError without credentials; OSError if the health port is
    taken.
    """
    stop = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        # kopf handles them once it watches, and of others the kernel spares the first process of a container.
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    access = await load_access()
    async with opened_admins(Ports.ADMIN) as admins:
        await work(run, access, admins, stop)


async def work(run: RunOptions, access: ClusterAccess, admins: Admins, stop: asyncio.Event) -> None:
    """See `run_operator`; until `stop` is set."""
    watches = Watches()
    async with opened(access) as transport:
        api = Api(transport)
        lease = Lease(api, run.lease, time.monotonic) if run.lease is not None else None
        means = Means(known=watches, api=api, admins=admins, now=time.time, ticks=time.monotonic)
        desk = Desk(work=Reconciler(means, run.options).reconcile, clock=time.monotonic)
        audit = Audit(api, watches, run.namespaces, run.audit)
        async with serving(Pages(desk, api, lambda: lease is None or lease.held), run.health_port):
            try:
                if lease is None or await _acquired(lease, stop):
                    await _lead(run, desk, audit, watches, access, lease, stop)
            finally:
                if lease is not None:
                    await lease.release()


async def _acquired(lease: Lease, stop: asyncio.Event) -> bool:
    """Wait until it is ours; False if we are to stop, also while the API server does not answer."""
    _log.info("waiting for the lease")
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(_sought(lease)), group.create_task(stop.wait())
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()
    if stop.is_set():
        return False
    _log.info("this operator acts")
    return True


async def _sought(lease: Lease) -> None:
    while True:
        if await lease.seek():
            return
        await asyncio.sleep(lease.pace.retry)


async def _lead(
    run: RunOptions,
    desk: Desk,
    audit: Audit,
    watches: Watches,
    access: ClusterAccess,
    lease: Lease | None,
    stop: asyncio.Event,
) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            served = group.create_task(_watch(run, desk, watches, access, stop))
            others = [group.create_task(desk.run()), group.create_task(audit.run())]
            if lease is not None:
                others.append(group.create_task(hold(lease)))
            await served
            for each in others:
                each.cancel()
    except* LeaseLost as lost:
        raise LeaseLost("the lease could not be renewed in time") from lost
    except* WatchStale as stale:
        raise WatchStale(str(stale.exceptions[0])) from stale


async def hold(lease: Lease) -> None:
    """Renew. Raises: LeaseLost as soon as it may be another's."""
    while True:
        await asyncio.sleep(min(lease.pace.retry, max(0.0, lease.left)))
        # An API server that hangs answers later than another operator may act.
        with suppress(TimeoutError):
            async with asyncio.timeout(lease.left):
                await lease.seek()
        if not lease.held:
            raise LeaseLost("the lease could not be renewed in time")


async def _watch(run: RunOptions, desk: Desk, watches: Watches, access: ClusterAccess, stop: asyncio.Event) -> None:
    await kopf.operator(
        registry=registry_of(watches, desk.wake, access), standalone=True, clusterwide=not run.namespaces,
        namespaces=list(run.namespaces), stop_flag=stop,
        # Not drawn by kopf: it would look up the user's name, and a container's user has none.
        identity=run.options.reporter,  # type: ignore[arg-type]
    )  # fmt: skip
