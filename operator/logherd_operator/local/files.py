"""The configuration files of all places, from the BrokerGroup and the addresses: what the operator renders for pods,
for processes of one machine. Nothing here writes.
"""

import hashlib
import json
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from logherd_operator.local.addresses import PLACES_MAX, Addresses
from logherd_operator.local.state import GroupState, PlaceState
from logherd_operator.observed.quorum import controller_name
from logherd_operator.observed.slots import Component
from logherd_operator.resources.broker_config import (
    BrokerPlace,
    GuardianPlace,
    ReplicaPlace,
    hot_settings,
    render_broker_config,
    without_hot_settings,
)
from logherd_operator.resources.controller_config import ControllerPlace, Member, render_controller_config
from logherd_operator.spec.group import BrokerGroup

__all__ = ["STOP_SECONDS", "Files", "name_servers"]

STOP_SECONDS = 20
"""From a stop to the kill of a process that does not end, by its guardian."""
_LEARNT_ELSEWHERE = ("replicas", "minInSync", "learner", "static")
"""Of a broker's replication: matters at its first start only. The controllers, or the brokers, know better then."""


def name_servers(group: BrokerGroup, addresses: Addresses, controllers: int) -> tuple[str, ...]:
    """Where clients ask for routes."""
    if group.spec.name_service.mode == "External":
        return tuple(group.spec.name_service.addresses)
    return tuple(addresses.controller(n).names for n in range(controllers))


class Files:
    """Of one group on one machine. `controllers`: how many there are. `state`: what is known of its brokers now."""

    def __init__(
        self, group: BrokerGroup, addresses: Addresses, folder: Path, *, controllers: int,
        state: Callable[[], GroupState] | None = None,
    ) -> None:  # fmt: skip
        self._group = group
        self._state = state
        self._addresses = addresses
        self._folder = folder.resolve()
        self._controllers = controllers

    def render(self, place: PlaceState) -> dict[str, Any]:
        """The configuration of a place as it should be now."""
        if place.component == "broker":
            return self._broker(place.ordinal, learner=place.learner)
        return self._controller(place.ordinal)

    def hot(self) -> dict[str, str]:
        """What running brokers shall have in force and can take."""
        return hot_settings(self._group)

    def revision(self, component: Component) -> str:
        """Names what a place of this kind is started from: it changes when a restart is needed, and only then."""
        document = (
            without_hot_settings(self._broker(0, learner=False)) if component == "broker" else self._controller(0)
        )
        replication = document.get("replication", {})
        for key in _LEARNT_ELSEWHERE:
            replication.pop(key, None)
        if "raft" in replication:
            replication["raft"].pop("founders")
        text = json.dumps([document, _version()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def _broker(self, ordinal: int, *, learner: bool) -> dict[str, Any]:
        own = self._addresses.broker(ordinal)
        everywhere = [self._addresses.broker(n) for n in range(PLACES_MAX)]
        controllers = [self._addresses.controller(n) for n in range(self._controllers)]
        state = self._state() if self._state is not None else None
        replica = ReplicaPlace(
            controllers=tuple(each.listen for each in controllers),
            name_servers=tuple(each.names for each in controllers),
            peer_listen=own.peer,
            peers={n + 1: each.peer for n, each in enumerate(everywhere)},
            learner=learner,
            founders=state.began.founders if state is not None else None,
            brokers=state.brokers if state is not None else None,
        )
        guardian = GuardianPlace(
            relay_listen=own.relay, relays=tuple(each.relay for each in everywhere), stop_seconds=STOP_SECONDS
        )
        place = BrokerPlace(
            broker_id=ordinal + 1, listen=own.listen, admin_listen=own.admin, replica=replica, guardian=guardian,
            data_dir=str(self._folder / f"broker-{ordinal + 1}"), admin_token_file=str(self._folder / "admin-token"),
        )  # fmt: skip
        return render_broker_config(self._group, place)

    def _controller(self, ordinal: int) -> dict[str, Any]:
        own = self._addresses.controller(ordinal)
        members = []
        for n in range(self._controllers):
            each = self._addresses.controller(n)
            members.append(Member(name=controller_name(n), peer=each.peer, address=each.listen, admin=each.admin))
        place = ControllerPlace(
            name=controller_name(ordinal), members=tuple(members), listen=own.listen, peer_listen=own.peer,
            admin_listen=own.admin, name_service_listen=own.names, data_dir=str(self._folder / f"controller-{ordinal}"),
            admin_token_file=str(self._folder / "admin-token"),
            guardian=GuardianPlace(relay_listen="", relays=(), stop_seconds=STOP_SECONDS),
        )  # fmt: skip
        return render_controller_config(self._group, place)


def _version() -> str:
    """A new version of the program is a reason to restart, one after the other."""
    try:
        return version("logherd")
    except PackageNotFoundError:
        return ""
