"""Three controllers as real processes, each in a namespace of its own, and how to ask them."""

import http.client
import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from system.fake_brokers import CLUSTER
from system.netns import Network
from system.nodes import NodeProcess, python_command

__all__ = [
    "ADMIN_PORT",
    "CLIENTS",
    "CLIENT_PORT",
    "NODES",
    "PEER_PORT",
    "connect_from",
    "controller",
    "member_of",
    "names_by_address",
    "status_of",
]

NODES = ("c1", "c2", "c3")
CLIENTS = "clients"
CLIENT_PORT, PEER_PORT, ADMIN_PORT, NAMES_PORT = 9878, 9879, 8088, 9876


def member_of(network: Network, name: str, place: str) -> dict[str, object]:
    """A controller as all others know it: its name, and the node of the network where it is."""
    address = network.address(place)
    return {"name": name, "peer": f"{address}:{PEER_PORT}", "address": f"{address}:{CLIENT_PORT}"}


def config_of(network: Network, node: str, directory: Path, **settings: object) -> dict[str, object]:
    """What `logherd controller --config` reads, with the defaults for everything that decides how it behaves."""
    members = [member_of(network, name, name) for name in NODES]
    own = network.address(node)
    return {
        "clusterName": CLUSTER,
        "nodeName": node,
        "controllers": members,
        "listen": f"{own}:{CLIENT_PORT}",
        "peerListen": f"{own}:{PEER_PORT}",
        "adminListen": f"{own}:{ADMIN_PORT}",
        "nameService": {"listen": f"{own}:{NAMES_PORT}"},
        "dataDir": str(directory / "data"),
        "log": {"format": "json"},
        **settings,
    }


def controller(network: Network, node: str, directory: Path, **settings: object) -> NodeProcess:
    """A controller, not started yet. `settings` replace those of its configuration."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "controller.json"
    path.write_text(json.dumps(config_of(network, node, directory, **settings)))
    return NodeProcess(network, node, directory, python_command("-m", "logherd", "controller", "--config", str(path)))


def admin_page(network: Network, node: str, path: str, *, seconds: float = 2.0) -> dict[str, Any]:
    """A page of a controller's admin port, asked from inside its own namespace. Raises OSError."""
    address = network.address(node)
    asked = http.client.HTTPConnection(address, ADMIN_PORT, timeout=seconds)
    asked.sock = network.doorway(node).connect(address, ADMIN_PORT, seconds=seconds)
    try:
        asked.request("GET", path)
        document = json.loads(asked.getresponse().read())
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        asked.close()
    if not isinstance(document, dict):
        raise TypeError(f"{path} is {document!r}")
    return document


def status_of(network: Network) -> Callable[[str, float], Mapping[str, Any]]:
    """What a controller says of itself, in the words of `nodes`."""

    def ask(node: str, seconds: float) -> Mapping[str, Any]:
        document = admin_page(network, node, "/status", seconds=seconds)
        leader = document["leader"]
        # A leader is ready when it has taken office: then it serves.
        leads = document["role"] == "leader" and document["ready"]
        return document | {"leader": leader and leader["node"], "leads": leads}

    return ask


def connect_from(network: Network, source: str = CLIENTS) -> Callable[[str, float], socket.socket]:
    """Connections of clients to a controller by its name."""

    def connect(node: str, seconds: float) -> socket.socket:
        return network.doorway(source).connect(network.address(node), CLIENT_PORT, seconds=seconds)

    return connect


def names_by_address(network: Network) -> dict[str, str]:
    """Redirects name addresses."""
    return {f"{network.address(node)}:{CLIENT_PORT}": node for node in NODES}
