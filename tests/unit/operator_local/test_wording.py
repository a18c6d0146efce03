"""What is done is told in words of people, not by the names of classes."""

import pytest

from logherd_operator.local.acting import worded
from logherd_operator.plan import actions as plan


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (
            plan.TransferQuorum(node="c1", reason="c0 leads and is restarted last"),
            "controller c1 is to lead the controllers: c0 leads and is restarted last",
        ),
        (
            plan.SettleQuorum(voters=("c0", "c1"), expected_term=3, reason="controller c1 came back on an empty disk"),
            "the controllers c0, c1 are the quorum: controller c1 came back on an empty disk",
        ),
        (
            plan.DeleteVolume(ordinal=4, uid="u", reason="broker 5 was removed"),
            "the store of broker 5 is deleted: broker 5 was removed",
        ),
        (
            plan.Rebuild(ordinal=1, uid="u", volume_uid="v", reason="its volume is damaged"),
            "broker 2 gets an empty store and copies everything: its volume is damaged",
        ),
    ],
)
def test_what_is_seldom_done_is_told_in_a_sentence(action: plan.Action, said: str) -> None:
    assert worded(action) == said
