"""The configuration files of all pods, by pod: each finds its own by its name, so nobody has to work anything out."""

from typing import Any

from logherd_operator.observed.quorum import controller_name
from logherd_operator.resources.broker_config import BrokerPlace, GuardianPlace, ReplicaPlace, render_broker_config
from logherd_operator.resources.controller_config import ControllerPlace, Member, render_controller_config
from logherd_operator.resources.site import PLACES_MAX, Ports, Shape, Site

__all__ = ["ADMIN_TOKEN_FILE", "DATA_DIR", "RUN_DIR", "broker_files", "controller_files"]

DATA_DIR = "/var/lib/logherd"
RUN_DIR = "/run/logherd"
ADMIN_TOKEN_FILE = "/etc/logherd-admin/token"  # noqa: S105 -- where it is, not what it is
_ANY = "0.0.0.0"  # noqa: S104 -- in a pod, behind its NetworkPolicy
_LEAVE_SECONDS = 10
"""So much of the pod's grace is left when the guardian gives its process up."""


def broker_files(site: Site, shape: Shape) -> dict[str, dict[str, Any]]:
    """Of all brokers that the group may ever have: scaling changes no file of those that run."""
    spec = site.group.spec
    hosts = [site.inner_host("broker", n) for n in range(PLACES_MAX)]
    controllers = site.controller_hosts()
    files = {}
    for ordinal in range(PLACES_MAX):
        replica = ReplicaPlace(
            controllers=tuple(f"{host}:{Ports.CONTROLLER}" for host in controllers),
            name_servers=tuple(f"{host}:{Ports.NAMES}" for host in controllers),
            peer_listen=f"{_ANY}:{Ports.REPLICA}",
            peers={n + 1: f"{host}:{Ports.REPLICA}" for n, host in enumerate(hosts)},
            leader_address=f"{site.leader_host()}:{Ports.CLIENT}",
            learner=shape.first_learner is not None and ordinal >= shape.first_learner,
            founders=shape.founders,
            brokers=shape.members or shape.brokers,
        )
        place = BrokerPlace(
            broker_id=ordinal + 1,
            listen=f"{_ANY}:{Ports.CLIENT}",
            advertised=f"{site.broker_host(ordinal)}:{Ports.CLIENT}",
            admin_listen=f"{_ANY}:{Ports.ADMIN}",
            data_dir=f"{DATA_DIR}/store",
            admin_token_file=ADMIN_TOKEN_FILE,
            replica=replica,
            guardian=GuardianPlace(
                relay_listen=f"{_ANY}:{Ports.RELAY}",
                relays=tuple(f"{host}:{Ports.RELAY}" for host in hosts[: spec.replicas]),
                stop_seconds=spec.termination_grace_period_seconds - _LEAVE_SECONDS,
                state_file=f"{RUN_DIR}/page",
            ),
            log={"format": "json"},
        )
        files[f"{site.pod('broker', ordinal)}.json"] = render_broker_config(site.group, place)
    return files


def controller_files(site: Site) -> dict[str, dict[str, Any]]:
    """Of the group's own controllers; none if another group's are used."""
    embedded = site.group.spec.controllers.embedded
    if embedded is None:
        return {}
    hosts = site.controller_hosts()
    members = tuple(
        Member(
            name=controller_name(n), peer=f"{host}:{Ports.CONTROLLER_PEER}", address=f"{host}:{Ports.CONTROLLER}",
            admin=f"{host}:{Ports.ADMIN}",
        )
        for n, host in enumerate(hosts)
    )  # fmt: skip
    return {
        f"{site.pod('controller', n)}.json": render_controller_config(
            site.group,
            ControllerPlace(
                name=member.name, members=members, listen=f"{_ANY}:{Ports.CONTROLLER}",
                peer_listen=f"{_ANY}:{Ports.CONTROLLER_PEER}", admin_listen=f"{_ANY}:{Ports.ADMIN}",
                name_service_listen=f"{_ANY}:{Ports.NAMES}", data_dir=f"{DATA_DIR}/log",
                admin_token_file=ADMIN_TOKEN_FILE,
                guardian=GuardianPlace(relay_listen="", relays=(), stop_seconds=20),
            ),
        )
        for n, member in enumerate(members)
    }  # fmt: skip
