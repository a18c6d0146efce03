"""What the accounts of the operator and of the sidecars asked of the API server, in all that was done before."""

import pytest

from e2e.orders import GROUP, NAMESPACE
from e2e.scene import Scene

pytestmark = [pytest.mark.timeout(600, func_only=True)]
_OPERATOR, _KEEPER = (
    f"system:serviceaccount:{NAMESPACE}:{name}" for name in ("logherd-operator", f"{GROUP}-controller")
)


def test_the_operator_is_refused_nothing_and_neither_enters_pods_nor_lists_secrets(scene: Scene) -> None:
    asked = scene.cluster.asked(_OPERATOR)
    assert {each for each in asked if each.status == 403} == set()
    assert {each.verb for each in asked if each.what == "secrets"} <= {"get", "create"}
    assert not {each for each in asked if each.what in ("pods/exec", "pods/attach", "pods/ephemeralcontainers")}
    assert "patch statefulsets" in {f"{each.verb} {each.what}" for each in asked}


def test_the_sidecars_touch_nothing_but_the_leaders_slice(scene: Scene) -> None:
    asked = scene.cluster.asked(_KEEPER)
    assert {f"{each.verb} {each.what} {each.name}" for each in asked} == {
        f"get endpointslices {GROUP}-leader", f"patch endpointslices {GROUP}-leader",
    }  # fmt: skip
    assert 403 not in {each.status for each in asked}
