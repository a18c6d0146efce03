"""What the operator tells the controllers, they understand."""

import pytest

from logherd.service.controllers import calls as wire
from logherd.service.controllers.pages import ACTIONS
from logherd_operator.cluster.calls import At, calls_of
from logherd_operator.plan import actions as act
from unit.operator_resources.examples import site_of

SITE = site_of({})
ORDERS: list[tuple[act.Action, type[wire.Order]]] = [
    (act.Switchover(target=2, expected_epoch=7, request_id="q", reason="r"), wire.ElectOrder),
    (act.Promote(broker_id=2, expected_epoch=7, reason="r"), wire.LearnerOrder),
    (act.Demote(broker_id=2, expected_epoch=7, reason="r"), wire.LearnerOrder),
    (act.Forget(broker_id=2, expected_epoch=7, reason="r"), wire.ForgetOrder),
    (act.SetRules(replicas=3, min_in_sync=2, preferred=None, reason="r"), wire.RulesOrder),
    (act.SetRules(replicas=3, min_in_sync=2, preferred=1, reason="r"), wire.RulesOrder),
    (act.TransferQuorum(node="c1", reason="r"), wire.TransferOrder),
    (act.SettleQuorum(voters=("c0", "c1", "c2"), expected_term=3, reason="r"), wire.MembersOrder),
]


@pytest.mark.parametrize(("action", "order"), ORDERS, ids=lambda each: type(each).__name__)
def test_an_order_is_understood(action: act.Action, order: type[wire.Order]) -> None:
    (call,) = calls_of(action, At(SITE, {}))
    wire.read_order(order, dict(call.body))
    template = call.path.replace("/groups/orders/orders/", "/groups/{cluster}/{name}/")
    assert template in ACTIONS
