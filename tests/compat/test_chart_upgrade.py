"""Charts as they were packed before are upgraded to those of today: nothing is made anew, and the definition moves."""

from pathlib import Path

import pytest

from compat.test_kubernetes_pages import environment, run, running
from k8s.api_server import ApiServer
from k8s.driving import GROUP_PATH, Drive
from k8s.kubelet import Kubelet

PREVIOUS = Path(__file__).parent / "charts/previous"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/brokergroups.logherd.dev"
pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]


def identities(api: ApiServer) -> dict[str, str]:
    """By path, of everything but Helm's own notes and what has happened."""
    kinds = ("secrets", "events")
    return {path: each["metadata"]["uid"] for path, each in api.objects.items() if path.split("/")[-2] not in kinds}


async def test_an_upgrade_from_the_previous_charts_makes_nothing_anew(
    tmp_path: Path, helm_program: Path, kubectl_program: Path
) -> None:
    drive = Drive(Kubelet.make({"replicas": 3}))
    async with running(drive, tmp_path) as (_, address):
        variables = environment(tmp_path, address, helm_program, kubectl_program)
        for name, release in (("logherd-operator", "logherd-operator"), ("logherd", "orders")):
            (packed,) = PREVIOUS.glob(f"{name}-[0-9]*.tgz")
            await run(f"helm install {release} {packed} --namespace shop --create-namespace", tmp_path, variables)
        ready = "kubectl -n shop wait --for=condition=Upgradeable brokergroup/orders --timeout=3m"
        await run(ready, tmp_path, variables)
        before, spec = identities(drive.api), drive.group["spec"]
        assert DEFINITION in before
        assert GROUP_PATH in before
        for name, release in (("logherd-operator", "logherd-operator"), ("logherd", "orders")):
            await run(f"helm upgrade {release} charts/{name} --namespace shop", tmp_path, variables)
        await run(ready, tmp_path, variables)
        after = identities(drive.api)
        assert {path: after.get(path) for path in before} == before
        assert drive.group["spec"] == spec
        notes = (drive.api.find(DEFINITION) or {})["metadata"]["annotations"]
        assert notes["helm.sh/resource-policy"] == "keep"
        assert drive.kubelet.world.faults == []
