"""Where a sidecar finds the API server: where its pod is told that it is, without asking a name server."""

import signal
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from logherd_operator.keeper import groups, keeping
from logherd_operator.keeper.keeping import Keeping
from logherd_operator.main import operator

WORDS = [
    "keep-leader", "--controller=http://127.0.0.1:1", "--cluster=c", "--group=g", "--namespace=n", "--slice=s",
    "--token-file=/nowhere",
]  # fmt: skip
PATH = "/apis/discovery.k8s.io/v1/namespaces/n/endpointslices/s"


@pytest.fixture
def _signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_signals")
@pytest.mark.parametrize(
    ("told", "server"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}, "https://10.96.0.1:443"),
        ({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, "https://[fd00::1]:6443"),
        ({}, "https://kubernetes.default.svc:443"),
    ],
)
def test_the_api_server_is_reached_at_the_address_that_every_pod_is_told(
    monkeypatch: pytest.MonkeyPatch, told: dict[str, str], server: str
) -> None:
    """Its name costs a look-up in each round, which no time-out bounds: without name servers the slice led to a leader
    that was gone."""
    kept = list[Keeping]()
    monkeypatch.setattr(keeping, "keep_leader", kept.append)
    monkeypatch.setattr(groups.Others, "run", lambda _: None)
    env = {"KUBERNETES_SERVICE_HOST": None, "KUBERNETES_SERVICE_PORT": None, **told}
    answer = CliRunner().invoke(operator, WORDS, env=env)
    assert answer.exit_code == 0, answer.output
    (one,) = kept
    assert (one.slice_place.server, one.slice_place.path) == (server, PATH)
