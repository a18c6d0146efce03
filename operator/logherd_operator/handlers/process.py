"""`logherd operator run`: take the lease, then watch and work until told to stop or the lease is lost."""

import asyncio
import logging
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
    access = await load_access()
    async with opened_admins(Ports.ADMIN) as admins:
        await work(run, access, admins)


async def work(run: RunOptions, access: ClusterAccess, admins: Admins, stop: asyncio.Event | None = None) -> None:
    """See `run_operator`; until `stop` is set, too."""
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


async def _acquired(lease: Lease, stop: asyncio.Event | None) -> bool:
    """Wait until it is ours; False if it is not and we are to stop."""
    _log.info("waiting for the lease")
    while not await lease.seek():
        try:
            await asyncio.wait_for(asyncio.Event().wait() if stop is None else stop.wait(), lease.pace.retry)
        except TimeoutError:
            continue
        return False
    _log.info("this operator acts")
    return True


async def _lead(
    run: RunOptions,
    desk: Desk,
    audit: Audit,
    watches: Watches,
    access: ClusterAccess,
    lease: Lease | None,
    stop: asyncio.Event | None,
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


async def _watch(
    run: RunOptions, desk: Desk, watches: Watches, access: ClusterAccess, stop: asyncio.Event | None
) -> None:
    await kopf.operator(
        registry=registry_of(watches, desk.wake, access), standalone=True, clusterwide=not run.namespaces,
        namespaces=list(run.namespaces), stop_flag=stop,
        # Not drawn by kopf: it would look up the user's name, and a container's user has none.
        identity=run.options.reporter,  # type: ignore[arg-type]
    )  # fmt: skip
