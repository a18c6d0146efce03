"""Cluster, operator, group, and a stock Java producer in a pod that sends all the time while things go wrong."""

import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from compat.driver import Driver
from compat.toolchain import cache_directory
from e2e.cluster.cluster import Cluster
from e2e.cluster.images import Image, base_layer, install_layer, layer_of_files
from e2e.cluster.kube import Refused, eventually
from e2e.cluster.machine import joining, processor_groups, run
from e2e.cluster.programs import build_programs, helm
from e2e.cluster.pulse import Pulse
from e2e.orders import GROUP, NAMES, NAMESPACE, Orders, manifest
from logherd.wire.codes import RequestCode
from system.blocking import BlockingClient, NoAnswerError, drain_queue
from system.steady import Difference, JavaSend, SteadyProducer, compare, longest_gap, stranded, unexcused

__all__ = ["BAD", "FIRST", "SECOND", "TOPIC", "Row", "Scene", "build_layers", "set_up", "spark_layers"]

FIRST, SECOND, BAD = (f"docker.io/local/logherd:{tag}" for tag in ("1", "2", "bad"))
_OPERATOR = "docker.io/local/logherd-operator"
_CLIENT = "docker.io/local/client:1"
TOPIC = "steady"
_CHARTS = Path(__file__).parents[2] / "charts"
_QUEUES = 4
_PLACES = {
    **{f"{GROUP}-broker-{n}": f"node{1 + n % 2}" for n in range(5)},
    **{f"{GROUP}-controller-{n}": f"node{1 + n % 2}" for n in range(3)},
}
"""Of each pod's volume, and so of the pod: the second node has no majority of anything, so that it may be lost."""
_BEFORE, _AFTER = 100, 200
"""Sends that must be stored before something is done, and after it is over."""
_PATIENCE = 240.0


@dataclass(frozen=True, slots=True)
class Row:
    """What a client saw of one thing that was done. Seconds since 1970.

    `still`: how long this machine itself stood still meanwhile. `blamed`: of the failed sends, those that were not on
    their way then, nor left waiting by the client itself.
    """

    name: str
    begin: float
    end: float
    gap: float
    failed: tuple[JavaSend, ...]
    still: float
    blamed: tuple[JavaSend, ...]

    def __str__(self) -> str:
        words = f"; {self.failed[0].fault[:90]}" if self.failed else ""
        took = f"{self.end - self.begin:7.1f} s{self.gap:8.2f} s"
        return f"{self.name:<44}{took}{len(self.failed):7}{self.still:8.1f} s{words}"


@dataclass(slots=True)
class Scene:
    """Everything that a test needs."""

    cluster: Cluster
    orders: Orders
    driver: Driver
    producer: SteadyProducer
    pulse: Pulse
    rows: list[Row] = field(default_factory=list)

    @contextmanager
    def during(self, name: str, *, seconds: float = 600) -> Iterator[list[Row]]:
        """What is done meanwhile becomes a row of the table, once the group is settled again."""
        self.orders.settle()
        self.producer.wait_for(_BEFORE, since=time.time())
        begin, before, result = time.time(), stranded(self.driver), []
        yield result
        self.producer.wait_for(_AFTER, since=time.time())
        self.orders.settle(seconds)
        self.producer.wait_for(1, since=time.time())
        end = time.time()
        failed = tuple(
            send for send in self.producer.sends if not send.ok and send.invoked <= end and send.returned >= begin
        )
        row = Row(
            name, begin, end, longest_gap(self.producer.sends, begin, end), failed,
            still=self.pulse.still(begin, end),
            blamed=tuple(unexcused(
                (send for send in failed if not self.pulse.still(send.invoked - 1, send.returned)),
                stranded(self.driver) - before,
            )),
        )  # fmt: skip
        self.rows.append(row)
        result.append(row)
        print(row, *map(_failure, failed), sep="\n", flush=True)

    def routed(self, names: str = NAMES, topic: str = TOPIC) -> str:
        """Where routes tell clients that the leader is, as a name service says it."""
        told = self.driver.call("mqadmin", command=["topicRoute", "-n", names, "-t", topic])
        found = re.search(r'"?\b0"?\s*:\s*"([^"]+)"', told["out"])
        return found[1] if found else ""

    def leader_socket(self, group: str = GROUP) -> socket.socket:
        """A connection through the leader's Service."""
        service = self.cluster.kube.get(f"/api/v1/namespaces/{NAMESPACE}/services/{group}-leader")
        return socket.create_connection((service["spec"]["clusterIP"], 10911), timeout=10)

    def stored(self, topic: str, queues: int, group: str = GROUP) -> int:
        """How many messages the topic has, as the leader says through its Service. Raises Refused if it does not."""
        try:
            client = BlockingClient(0, made=self.leader_socket(group))
        except OSError as error:
            raise Refused(0, str(error)) from error
        try:
            return sum(client.offset(RequestCode.GET_MAX_OFFSET, topic, number) for number in range(queues))
        except NoAnswerError as error:
            raise Refused(0, str(error)) from error
        finally:
            client.close()

    def difference(self) -> Difference:
        """What was acknowledged so far beside what is stored, read through the leader's Service."""
        sends = list(self.producer.sends)
        client = BlockingClient(0, made=self.leader_socket())
        try:
            stored = {(TOPIC, number): drain_queue(client, TOPIC, number) for number in range(_QUEUES)}
        finally:
            client.close()
        return compare(TOPIC, sends, stored)


def _failure(send: JavaSend) -> str:
    """When it was begun, how long it took, what the client threw."""
    begun = time.strftime("%X", time.gmtime(send.invoked))
    return f"    {begun}.{int(send.invoked % 1 * 1000):03} {send.returned - send.invoked:6.2f} s {send.fault}"


def images(folder: Path) -> list[Image]:
    """Of the broker, once more under another name, one that cannot start, of the operator, and of clients."""
    pause = layer_of_program(folder, build_programs()["pause"])
    base, broker, operator = base_layer(), install_layer(), install_layer("operator")
    broken = layer_of_files(folder, {"opt/logherd/bin/logherd": "#!/bin/sh\necho broken >&2\nexit 1\n"})
    return [
        Image(name="docker.io/local/pause:1", layers=[pause], command=["/pause"], user="65535:65535"),
        Image(name=FIRST, layers=[base, broker], command=["logherd", "--help"]),
        Image(name=SECOND, layers=[base, broker], command=["logherd", "--help"]),
        Image(name=BAD, layers=[base, broker, broken], command=["logherd", "--help"]),
        Image(name=f"{_OPERATOR}:1", layers=[base, operator], command=["logherd", "operator", "--help"]),
        Image(name=_CLIENT, layers=[base], command=["sleep", "infinity"], user="0:0"),
    ]


def spark_layers() -> list[Path]:
    """As `images/spark/Dockerfile` makes them."""
    layer = install_layer(lock="requirements-spark.lock", programs={"spark-entrypoint": "images/spark/entrypoint"})
    return [base_layer(), layer]


def build_layers() -> None:
    """All layers that are kept in the cache."""
    install_layer()
    install_layer("operator")
    spark_layers()


def build() -> None:
    """All that is kept in the cache, before anything is timed: processors compile while packages are fetched."""
    with ThreadPoolExecutor() as pool:
        for each in [pool.submit(build_layers), pool.submit(build_programs), pool.submit(helm)]:
            each.result()


def layer_of_program(folder: Path, program: Path) -> Path:
    """A layer with one program at the root."""
    path = folder / f"layer-{program.name}.tar"
    run("tar", "-C", str(program.parent), "--mtime=@0", "-cf", str(path), program.name)
    return path


@contextmanager
def set_up(home: Path, java_classes: str) -> Iterator[Scene]:
    """The whole scene, with the producer sending. Raises AssertionError at the end if a message is lost."""
    home.mkdir(parents=True, exist_ok=True)
    build()
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(build_programs(), images(home), home))
        install_operator(cluster)
        for pod, node in _PLACES.items():
            cluster.add_volume(node, NAMESPACE, f"data-{pod}")
        cluster.kubectl("apply", "-f", "-", text=manifest(FIRST))
        orders = Orders(cluster)
        orders.settle()
        driver = stack.enter_context(client(cluster, home / "client", java_classes))
        producer = SteadyProducer(driver, NAMES, TOPIC, name="s", patience=_PATIENCE)
        pulse = stack.enter_context(Pulse(home / "pulse"))
        scene = Scene(cluster, orders, driver, producer, pulse)
        with producer:
            producer.wait_for(_BEFORE, since=0)
            yield scene
        orders.settle(600)
        found = scene.difference()
        stored = sum(send.ok for send in producer.sends)
        print(f"{stored} messages acknowledged, {len(found.lost)} lost, {found.repeated} stored again", flush=True)
        assert found.clean, f"lost {found.lost[:5]}, foreign {found.foreign[:5]}"


def install_operator(cluster: Cluster) -> None:
    """As the README says: one helm install. The namespace takes nothing but restricted pods."""
    names = {"kubernetes.io/metadata.name": NAMESPACE, "pod-security.kubernetes.io/enforce": "restricted"}
    cluster.kube.create("/api/v1/namespaces", {
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": names},
    })  # fmt: skip
    values = {
        "image.repository": _OPERATOR, "image.tag": "1", "image.pullPolicy": "Never", "defaults.brokerImage": FIRST,
    }  # fmt: skip
    sets = [part for name, value in values.items() for part in ("--set-string", f"{name}={value}")]
    run(
        str(helm()), "install", "logherd-operator", str(_CHARTS / "logherd-operator"), "--namespace", NAMESPACE,
        "--kubeconfig", str(cluster.papers.kubeconfig), "--wait", "--timeout", "600s", *sets, seconds=660,
        environment={"HOME": str(cluster.papers.folder)},
    )  # fmt: skip


@contextmanager
def client(cluster: Cluster, home: Path, java_classes: str) -> Iterator[Driver]:
    """A stock Java client in a pod of the first node, which is never lost."""
    home.mkdir(parents=True)
    folders = [str(cache_directory()), str(home)]
    cluster.kube.create("/api/v1/namespaces/default/pods", {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "client", "labels": {"logherd.dev/client": "true"}},
        "spec": {
            "nodeName": "node1", "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "client", "image": _CLIENT, "imagePullPolicy": "Never", "command": ["sleep", "infinity"],
                "resources": {"requests": {"cpu": "500m"}},
                "volumeMounts": [{"name": f"f{n}", "mountPath": each} for n, each in enumerate(folders)],
            }],
            "volumes": [{"name": f"f{n}", "hostPath": {"path": each}} for n, each in enumerate(folders)],
        },
    })  # fmt: skip
    eventually(
        lambda: cluster.kube.get("/api/v1/namespaces/default/pods/client").get("status", {}).get("phase") == "Running",
        "the client's pod runs", words=lambda: cluster.kubectl("describe", "pod", "client"),
    )  # fmt: skip
    pid = cluster.container_process("node1", "client", "client")
    enter = joining(
        processor_groups(pid), ["nsenter", f"--target={pid}", "--net", "--mount", "--uts", "--ipc", "--pid", "--"]
    )
    with Driver(java_classes, home / "jvm", under=enter) as driver:
        yield driver


def write_table(rows: list[Row], path: Path | None = None) -> str:
    """Of all that was done: how long it took, the longest time without a stored send, failed sends."""
    head = f"{'what was done':<44}{'took':>9}{'outage':>10}{'failed':>7}{'still':>10}"
    text = "\n".join([head, *map(str, rows)]) + "\n"
    if path is not None:
        path.write_text(text)
    return text
