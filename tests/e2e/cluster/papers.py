"""What the cluster's programs read: certificates, accounts, configurations."""

import json
from pathlib import Path
from typing import Any

from e2e.cluster.machine import run

__all__ = ["TOKEN", "Papers", "containerd_file", "corefile", "kubelet_file", "network_file", "proxy_file"]

TOKEN = "only-for-tests"
_SERVICE_API = "10.96.0.1"


class Papers:
    """Keys and certificates in a folder; `address` is where the API server is reached."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._authority()
        self._server(address)
        self._key("accounts")
        (folder / "tokens.csv").write_text(f'{TOKEN},tester,1,"system:masters"\n')
        self.kubeconfig = folder / "kubeconfig.json"
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {
                "server": f"https://{address}:6443", "certificate-authority": str(folder / "ca.crt"),
            }}],
            "users": [{"name": "it", "user": {"token": TOKEN}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        }))  # fmt: skip

    def __getitem__(self, name: str) -> str:
        return str(self.folder / name)

    def _key(self, name: str) -> None:
        run("openssl", "genrsa", "-out", self[f"{name}.key"], "2048")

    def _authority(self) -> None:
        self._key("ca")
        run(
            "openssl", "req", "-x509", "-new", "-key", self["ca.key"], "-days", "30", "-subj", "/CN=logherd-e2e",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature", "-out", self["ca.crt"],
        )  # fmt: skip

    def _server(self, address: str) -> None:
        names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
        alternatives = ",".join(
            [*(f"DNS:{each}" for each in names), f"IP:{address}", f"IP:{_SERVICE_API}", "IP:127.0.0.1"]
        )
        (self.folder / "server.ext").write_text(f"subjectAltName={alternatives}\nextendedKeyUsage=serverAuth\n")
        self._key("server")
        run("openssl", "req", "-new", "-key", self["server.key"], "-subj", "/CN=api", "-out", self["server.csr"])
        run(
            "openssl", "x509", "-req", "-in", self["server.csr"], "-CA", self["ca.crt"], "-CAkey", self["ca.key"],
            "-CAcreateserial", "-days", "30", "-extfile", self["server.ext"], "-out", self["server.crt"],
        )  # fmt: skip


def containerd_file() -> str:
    """In a machine all its folders are where they always are, because the machine has its own."""
    return """version = 2
[plugins."io.containerd.internal.v1.opt"]
  path = "/run/containerd-opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/local/pause:1"
  restrict_oom_score_adj = true
  max_container_log_line_size = 65536
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/run/cni-conf"
"""


def network_file(pods: str) -> str:
    """A cable for each pod; no pod hides behind its node's address, as on any real network of pods."""
    return json.dumps({
        "cniVersion": "0.4.0", "name": "pods",
        "plugins": [
            {
                "type": "ptp", "ipMasq": False, "mtu": 1500,
                "ipam": {"type": "host-local", "ranges": [[{"subnet": pods}]], "routes": [{"dst": "0.0.0.0/0"}]},
            },
            {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True},
        ],
    })  # fmt: skip


def kubelet_file(cgroup: str, resolver: Path) -> str:
    """For tests: it believes whoever reaches it."""
    document: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{cgroup}", "failSwapOn": False,
        "clusterDomain": "cluster.local", "clusterDNS": ["10.96.0.10"], "resolvConf": str(resolver),
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "volumePluginDir": "/var/lib/kubelet/volumeplugins", "oomScoreAdj": 0, "registerNode": True,
        "evictionHard": {
            "memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "1%",
        },
        "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "5s",
    }  # fmt: skip
    return json.dumps(document)


def proxy_file(kubeconfig: Path, node: str) -> str:
    """What it may not set in this kernel, it leaves."""
    return json.dumps({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "iptables",
        "clientConnection": {"kubeconfig": str(kubeconfig)}, "hostnameOverride": node,
        "clusterCIDR": "10.244.0.0/16", "oomScoreAdj": 0,
        "conntrack": {
            "maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
        },
    })  # fmt: skip


def corefile(kubeconfig: Path) -> str:
    """As kubeadm writes it."""
    return f"""cluster.local:1053 in-addr.arpa:1053 {{
    errors
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 30
    }}
    cache 30 {{
        disable success cluster.local
        disable denial cluster.local
    }}
}}
.:1053 {{
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""
