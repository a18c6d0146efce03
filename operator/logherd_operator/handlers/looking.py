"""One look at a group: what the watches have brought, and what controllers and brokers say now."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from logherd_operator.clients.admin import Admins
from logherd_operator.clients.api import Api, Reply
from logherd_operator.cluster.look import orders_of, platform_of, slots_of
from logherd_operator.handlers.known import Key, Known, lender_in
from logherd_operator.handlers.memory import Memory
from logherd_operator.observed.brokers import group_of_brokers
from logherd_operator.observed.documents import group_of, quorum_of, report_of, seen_by_leader, unknown_group
from logherd_operator.observed.observed import Lender, Observed
from logherd_operator.observed.quorum import Group, Quorum
from logherd_operator.observed.slots import Report, Slot
from logherd_operator.resources.broker_config import hot_settings
from logherd_operator.resources.pinning import roll_hash, roll_hash_in
from logherd_operator.resources.site import Site
from logherd_operator.spec.errors import SpecError
from logherd_operator.status.document import read_since

__all__ = ["Eyes", "Sight"]

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What was seen. `group` is the object whose status is replaced; `versions`: of the StatefulSets, by name."""

    key: Key
    group: Document
    site: Site
    observed: Observed
    versions: Mapping[str, str]
    claims: Sequence[Document]

    @property
    def status(self) -> Document:
        """What stands in the object."""
        return self.group.get("status") or {}


class Eyes:
    """Looks at groups. Raises from `look`: NotSettled; SpecError for a group that uses the controllers of one that has
    none; Unreachable if a pod has to be read anew and cannot be."""

    def __init__(self, known: Known, api: Api, admins: Admins) -> None:
        self._known = known
        self._api = api
        self._admins = admins

    async def look(self, key: Key, group: Document, site: Site, memory: Memory) -> Sight:
        """What is so now. What nobody could tell is None in it."""
        lender = self._lender(key, site)
        embedded = site.group.spec.controllers.embedded is not None
        brokers = self._known.workload(key, site.workload("broker"))
        controllers = self._known.workload(key, site.workload("controller")) if embedded else None
        platform = replace(platform_of(brokers, controllers), broker_template_old=_is_old(brokers, site))
        pods = await self._fresh(key, self._known.pods(key), memory)
        claims = self._known.claims(key)
        budgets = self._known.budgets(key.namespace)
        places = slots_of(site.workload("broker"), pods, claims)
        (told, quorum), pages = await asyncio.gather(
            self._ask_controllers(site, memory), self._ask_brokers(site, places)
        )
        if site.group.spec.by_controllers:
            told = seen_by_leader(told, pages.values())
        else:
            told = await self._told_by_brokers(site, pages)
        reports = _reports(places, pages, memory)
        observed = Observed(
            platform=platform, brokers=slots_of(site.workload("broker"), pods, claims, reports, budgets),
            controllers=slots_of(site.workload("controller"), pods, claims, None, budgets) if embedded else (),
            group=told, quorum=quorum, lender=lender, orders=orders_of(group["metadata"]), hot=hot_settings(site.group),
            since=read_since(group.get("status") or {}),
        )  # fmt: skip
        versions = {
            each["metadata"]["name"]: each["metadata"]["resourceVersion"]
            for each in (brokers, controllers)
            if each is not None
        }
        return Sight(key=key, group=group, site=site, observed=observed, versions=versions, claims=claims)

    def _lender(self, key: Key, site: Site) -> Lender | None:
        ref = site.group.spec.controllers.ref
        if ref is None:
            return None
        lender = lender_in(self._known.group(Key(key.namespace, ref.name)))
        if lender.uses and site.group.spec.by_controllers:
            said = f"the group {ref.name} has no controllers of its own, because it uses those of {lender.uses}"
            raise SpecError(f"spec.controllers.ref.name: {said}; name a group that has")
        return lender

    async def _fresh(self, key: Key, pods: Sequence[Document], memory: Memory) -> list[Document]:
        """The pods, but those that were told to stop are read anew until the watch has caught up."""
        found: list[Document] = []
        for pod in pods:
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            if memory.taken.get(name) != uid or pod["metadata"].get("deletionTimestamp"):
                found.append(pod)
                continue
            read = await self._api.find(f"/api/v1/namespaces/{key.namespace}/pods/{name}")
            if read is not None:
                found.append(read)
        shown = {each["metadata"]["name"]: each["metadata"] for each in pods}
        for name, uid in list(memory.taken.items()):
            if name not in shown or shown[name]["uid"] != uid or shown[name].get("deletionTimestamp"):
                del memory.taken[name]
        return found

    # ---- controllers ----

    async def _ask_controllers(self, site: Site, memory: Memory) -> tuple[Group | None, Quorum | None]:
        """What the leading controller says, which alone counts."""
        hosts = site.controller_hosts()
        led = await self._quorum_at(hosts, memory.leading % len(hosts))
        if led is None:
            others = [n for n in range(len(hosts)) if n != memory.leading % len(hosts)]
            answers = await asyncio.gather(*(self._quorum_at(hosts, n) for n in others))
            led = next((each for each in answers if each is not None), None)
        if led is None:
            return None, None
        memory.leading, quorum = led
        if not site.group.spec.by_controllers:
            return None, quorum
        path = f"/groups/{site.cluster}/{site.name}"
        reply = await self._admins.ask(hosts[memory.leading], path)
        return _group_in(reply, site), quorum

    async def _quorum_at(self, hosts: Sequence[str], ordinal: int) -> tuple[int, Quorum] | None:
        """The leading controller's view, asked at a controller that may know who leads; with the leader's ordinal."""
        seen = _quorum_in(await self._admins.ask(hosts[ordinal], "/quorum"))
        leader = _ordinal(seen)
        if seen is None or leader is None or leader >= len(hosts):
            return None
        if leader == ordinal:
            return ordinal, seen
        own = _quorum_in(await self._admins.ask(hosts[leader], "/quorum"))
        return (leader, own) if own is not None and _ordinal(own) == leader else None

    # ---- brokers ----

    async def _ask_brokers(self, site: Site, places: Sequence[Slot]) -> dict[int, Document]:
        """The status pages of those that answer, by ordinal."""
        standing = [each.ordinal for each in places if each.instance is not None]
        return await self._pages(site, standing, "/status")

    async def _pages(self, site: Site, ordinals: Sequence[int], path: str) -> dict[int, Document]:
        answers = await asyncio.gather(*(self._admins.ask(site.inner_host("broker", each), path) for each in ordinals))
        found = zip(ordinals, answers, strict=True)
        return {n: reply.document for n, reply in found if reply is not None and reply.status == 200}

    async def _told_by_brokers(self, site: Site, pages: Mapping[int, Document]) -> Group | None:
        """A group that leads itself, as its brokers have it. One that has had no leader is not told from one whose
        brokers have all lost their disks: both wait, and nothing is taken away."""
        mode, roles = site.group.spec.replication.mode, dict[int, Document]()
        if mode == "Static":
            roles = await self._pages(site, [*pages], "/replica/roles")
        replicas = site.group.spec.replicas
        return group_of_brokers(mode.lower(), pages.values(), roles.values(), founded=False, replicas=replicas)


def _is_old(brokers: Document | None, site: Site) -> bool:
    """Is the StatefulSet known to be of another spec, be it that it is not to be changed now?"""
    rolled = "" if brokers is None else roll_hash_in(brokers["spec"]["template"])
    return bool(rolled) and rolled != roll_hash(site, "broker")


def _reports(places: Sequence[Slot], pages: Mapping[int, Document], memory: Memory) -> dict[int, Report]:
    standing = {each.ordinal: each.instance.uid for each in places if each.instance is not None}
    memory.refused = {uid: names for uid, names in memory.refused.items() if uid in standing.values()}
    found: dict[int, Report] = {}
    for ordinal, page in pages.items():
        report = report_of(page)
        if report is not None:
            found[ordinal] = replace(report, rejected=memory.refused.get(standing[ordinal], ()))
    return found


def _quorum_in(reply: Reply | None) -> Quorum | None:
    return quorum_of(reply.document) if reply is not None and reply.status < 300 else None


def _ordinal(quorum: Quorum | None) -> int | None:
    node = quorum.leader if quorum is not None else None
    digits = (node or "").removeprefix("c")
    return int(digits) if node != digits and digits.isdigit() else None


def _group_in(reply: Reply | None, site: Site) -> Group | None:
    if reply is None:
        return None
    if reply.status == 404 and reply.document.get("confirmed"):
        return unknown_group(site.group.spec.replicas, site.group.spec.min_in_sync)
    return group_of(reply.document) if reply.status < 300 else None
