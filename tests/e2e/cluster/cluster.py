"""A Kubernetes of two nodes on this machine, each in namespaces of its own; the first one runs the control plane."""

import os
import shutil
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from compat.processes import until
from e2e.cluster.audit import Asked, asked_by, write_policy
from e2e.cluster.containers import container_process
from e2e.cluster.images import Image, write_archive
from e2e.cluster.kube import Kube, eventually
from e2e.cluster.machine import CGROUPS, Machine, Service, run
from e2e.cluster.papers import Papers, containerd_file, corefile, kubelet_file, network_file, proxy_file

__all__ = ["Cluster"]

_API = "10.201.0.1"
_NODES = {"node1": ("10.201.0.1", "10.244.1.0/24"), "node2": ("10.201.0.2", "10.244.2.0/24")}
_DOOR = ("10.201.0.5", "10.201.0.6")
"""The link between this machine and the first node: ours, and the node's."""
_VOLUME = "2Gi"
VOLUMES = "local"


class Cluster:
    """Use as a context manager. `images` are there on both nodes from the start."""

    def __init__(self, programs: dict[str, Path], images: Sequence[Image], home: Path) -> None:
        self._programs = programs
        self._images = images
        self._home = home
        self._door = f"lhe2e{os.getpid() % 1_000_000}"
        self.machines: dict[str, Machine] = {}
        self._volumes = 0
        self._starts: list[tuple[float, float]] = []
        """When the API server was started again, and when it was ready."""

    def __enter__(self) -> "Cluster":
        _remove_dead_groups()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End it; nothing is left but the logs in its home, those of the pods that were there last, too."""
        for machine in self.machines.values():
            machine.stop()
        self.machines.clear()
        # The link goes with the namespace it leads to, when the kernel comes to it.
        until(lambda: not Path("/sys/class/net", self._door).exists(), seconds=120, what="the end of the link")
        for name in _NODES:
            # Links lead from there into folders that are about to go.
            with suppress(OSError, shutil.Error):
                shutil.copytree(self._home / name / "own" / "var-log" / "pods", self._home / name / "pods")
            shutil.rmtree(self._home / name / "own", ignore_errors=True)
            shutil.rmtree(self._home / name / "volumes", ignore_errors=True)
        shutil.rmtree(self._home / "etcd", ignore_errors=True)

    def _start(self) -> None:
        self.papers = Papers(self._home / "papers", _API)
        self.kube = Kube(_API, self.papers["ca.crt"])
        for name in _NODES:
            self.machines[name] = Machine(name, self._home / name)
        self._connect()
        self._control_plane()
        for name in _NODES:
            self._containers(name)
        self.load(self._images)
        eventually(lambda: self.kube.get("/readyz"), "the API server is ready", words=self._words("api"))
        for name in _NODES:
            self._node(name)
        self._names()
        for name in _NODES:
            eventually(lambda name=name: self.node_ready(name), f"{name} is ready", words=self._words("kubelet", name))
        self._class()

    def _words(self, service: str, machine: str = "node1") -> "Words":
        return Words(self.machines[machine], service)

    # Network

    def _connect(self) -> None:
        first, second = self.machines["node1"], self.machines["node2"]
        run("ip", "link", "add", self._door, "type", "veth", "peer", "name", "door", "netns", str(first.pid))
        run("ip", "address", "add", f"{_DOOR[0]}/30", "dev", self._door)
        run("ip", "link", "set", self._door, "up")
        for range_ in ("10.201.0.0/30", "10.244.0.0/16", "10.96.0.0/16"):
            run("ip", "route", "add", range_, "via", _DOOR[1], "onlink", "dev", self._door)
        first.run("ip", "address", "add", f"{_DOOR[1]}/30", "dev", "door")
        first.run("ip", "link", "set", "door", "up")
        # A process of the node reaches a Service only if there is a route, whatever becomes of the address then.
        first.run("ip", "route", "add", "10.96.0.0/16", "via", _DOOR[0])
        # From outside of its namespace of processes: in there the other machine's first process has no number.
        run(
            "nsenter", f"--target={first.pid}", "--net", "--", "ip", "link", "add", "cable", "type", "veth", "peer",
            "name", "cable", "netns", str(second.pid),
        )  # fmt: skip
        for name, (address, _) in _NODES.items():
            self.machines[name].run("ip", "address", "add", f"{address}/30", "dev", "cable")
        first.run("ip", "link", "set", "cable", "up")
        self.join()
        first.run("ip", "route", "add", _NODES["node2"][1], "via", _NODES["node2"][0])

    def cut(self) -> None:
        """The second node loses its network."""
        self.machines["node2"].run("ip", "link", "set", "cable", "down")

    def join(self) -> None:
        """It has it again."""
        second = self.machines["node2"]
        second.run("ip", "link", "set", "cable", "up")
        second.run("ip", "route", "replace", "default", "via", _NODES["node1"][0])

    # Control plane

    def _control_plane(self) -> None:
        first, papers = self.machines["node1"], self.papers
        program = {name: str(path) for name, path in self._programs.items()}
        first.start(
            "etcd", program["etcd"], f"--data-dir={self._home / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn",
            "--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=http://127.0.0.1:2380",
        )  # fmt: skip
        first.start(
            "api", program["kube-apiserver"], "--etcd-servers=http://127.0.0.1:2379", "--bind-address=0.0.0.0",
            f"--advertise-address={_API}", "--secure-port=6443", f"--tls-cert-file={papers['server.crt']}",
            f"--tls-private-key-file={papers['server.key']}", f"--client-ca-file={papers['ca.crt']}",
            f"--token-auth-file={papers['tokens.csv']}", "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16", f"--service-account-key-file={papers['accounts.key']}",
            f"--service-account-signing-key-file={papers['accounts.key']}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            "--kubelet-preferred-address-types=InternalIP", "--allow-privileged=true", "--profiling=false",
            f"--audit-log-path={self._home / 'audit.log'}", f"--audit-policy-file={write_policy(self._home)}",
            "--audit-log-maxsize=200",
        )  # fmt: skip
        first.start(
            "controllers", program["kube-controller-manager"], f"--kubeconfig={papers.kubeconfig}",
            f"--service-account-private-key-file={papers['accounts.key']}", f"--root-ca-file={papers['ca.crt']}",
            "--leader-elect=false", "--bind-address=127.0.0.1",
        )  # fmt: skip
        first.start(
            "scheduler", program["kube-scheduler"], f"--kubeconfig={papers.kubeconfig}", "--leader-elect=false",
            "--bind-address=127.0.0.1",
        )  # fmt: skip

    def _names(self) -> None:
        """CoreDNS on the first node, behind the Service where pods ask."""
        path = self._home / "Corefile"
        path.write_text(corefile(self.papers.kubeconfig))
        self.machines["node1"].start("dns", str(self._programs["coredns"]), "-conf", str(path))
        ports = [{"name": f"dns-{kind.lower()}", "port": 53, "protocol": kind} for kind in ("UDP", "TCP")]
        inner = [{**each, "port": 1053} for each in ports]
        self.kube.create("/api/v1/namespaces/kube-system/services", {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns"},
            "spec": {"clusterIP": "10.96.0.10", "ports": ports},
        })  # fmt: skip
        self.kube.create("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", {
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "ports": inner,
            "metadata": {"name": "kube-dns", "labels": {"kubernetes.io/service-name": "kube-dns"}},
            "endpoints": [{"addresses": [_API], "conditions": {"ready": True}}],
        })  # fmt: skip

    # Nodes

    def load(self, images: Sequence[Image]) -> None:
        """Bring images to both nodes, instead of a registry."""
        archive = self._home / "images.tar"
        write_archive(images, archive)
        command = ("ctr", "-n", "k8s.io", "images", "import", "--no-unpack", str(archive))
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda machine: machine.run(*command, seconds=900), self.machines.values()))
        archive.unlink()

    def _containers(self, name: str) -> None:
        machine = self.machines[name]
        config = machine.home / "containerd.toml"
        config.write_text(containerd_file())
        resolver = machine.home / "resolv.conf"
        resolver.write_text("nameserver 10.96.0.10\n")
        machine.run("mkdir", "-p", "/run/cni-conf", "/run/containerd", "/var/lib/kubelet")
        machine.run("tee", "/run/cni-conf/10-pods.conflist", text=network_file(_NODES[name][1]))
        machine.start("containerd", "containerd", "--config", str(config), "--log-level", "warn")
        until(lambda: _answers(machine), seconds=240, what=f"containerd of {name}")

    def _node(self, name: str) -> None:
        machine, address = self.machines[name], _NODES[name][0]
        kubelet, proxy = machine.home / "kubelet.json", machine.home / "proxy.json"
        kubelet.write_text(kubelet_file(machine.cgroup, machine.home / "resolv.conf"))
        proxy.write_text(proxy_file(self.papers.kubeconfig, name))
        machine.start(
            "kubelet", str(self._programs["kubelet"]), f"--config={kubelet}", f"--kubeconfig={self.papers.kubeconfig}",
            f"--hostname-override={name}", f"--node-ip={address}",
        )  # fmt: skip
        machine.start("proxy", str(self._programs["kube-proxy"]), f"--config={proxy}")

    def node_ready(self, name: str) -> bool:
        """Whether the API server takes the node for ready."""
        node = self.kube.find(f"/api/v1/nodes/{name}")
        conditions = {} if node is None else {each["type"]: each["status"] for each in node["status"]["conditions"]}
        return conditions.get("Ready") == "True"

    def service(self, name: str, machine: str = "node1") -> Service:
        """A running program of the cluster."""
        return self.machines[machine].services[name]

    # Storage

    def _class(self) -> None:
        self.kube.create("/apis/storage.k8s.io/v1/storageclasses", {
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
            "metadata": {"name": VOLUMES, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        })  # fmt: skip

    def add_volume(self, node: str, namespace: str, claim: str) -> None:
        """An empty one on this node, for this claim: so it is the test that says who stands where."""
        self._volumes += 1
        path = self.machines[node].home / "volumes" / str(self._volumes)
        path.mkdir(parents=True)
        where = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        self.kube.create("/api/v1/persistentvolumes", {
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"volume-{self._volumes}"},
            "spec": {
                "capacity": {"storage": _VOLUME}, "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain", "storageClassName": VOLUMES, "local": {"path": str(path)},
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim,
                },
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}},
            },
        })  # fmt: skip

    # Tools

    def kubectl(self, *arguments: str, text: str | None = None, seconds: float = 120) -> str:
        """What it prints. Raises RuntimeError with its words."""
        command = [str(self._programs["kubectl"]), f"--kubeconfig={self.papers.kubeconfig}", *arguments]
        return run(*command, text=text, seconds=seconds, environment={"HOME": str(self._home)})

    def asked(self, user: str) -> frozenset[Asked]:
        """What an account asked of the API server so far, each kind of question once."""
        return asked_by(user, self._home / "audit.log", self._starts)

    def stop_api(self) -> None:
        """No API server any more; it dies as if its machine had."""
        self.service("api").stop(how=signal.SIGKILL)

    def start_api(self) -> None:
        """And there it is again."""
        begin = time.time()
        self.service("api").start()
        eventually(lambda: self.kube.get("/readyz"), "the API server is ready again", words=self._words("api"))
        self._starts.append((begin, time.time()))

    def container_process(self, node: str, pod: str, container: str) -> int:
        """The first process of a pod's container as this machine knows it."""
        return container_process(self.machines[node], pod, container)


class Words:
    """What a service said last, for a message."""

    def __init__(self, machine: Machine, service: str) -> None:
        self._service = machine.services.get(service)

    def __call__(self) -> str:
        return "" if self._service is None else self._service.words()


def _answers(machine: Machine) -> bool:
    with suppress(RuntimeError):
        return bool(machine.run("ctr", "version"))
    return False


def _remove_dead_groups() -> None:
    """What a run left behind that was killed."""
    for group in CGROUPS.glob("*/logherd-e2e-*"):
        if not Path("/proc", group.name.split("-")[2]).exists():
            for folder, _, _ in list(os.walk(group, topdown=False)):
                with suppress(OSError):
                    Path(folder).rmdir()
