"""The operator's own page of metrics: every one is explained, and keeps the rules of the others."""

import re
from random import Random

from prometheus_client.parser import text_string_to_metric_families

from logherd_operator.handlers.desk import Desk
from logherd_operator.handlers.health import _metrics
from logherd_operator.handlers.known import Key
from logherd_operator.handlers.metrics import METRICS


async def _no_work(_key: Key) -> float | None:
    return None


def page() -> str:
    sent = {("GET", "pods", 200): 3, ("PATCH", "brokergroups", 409): 1}
    return _metrics(Desk(_no_work, lambda: 5.0, random=Random(1)), sent, leads=True)


def test_every_metric_of_the_operator_is_listed_with_kind_and_help() -> None:
    families = list(text_string_to_metric_families(page()))
    said = {(each.name.removesuffix("_total"), each.type, each.documentation) for each in families}
    assert said == {(each.name.removesuffix("_total"), each.kind, each.help) for each in METRICS}
    requests = next(each for each in families if each.type == "counter")
    assert [(sample.labels, sample.value) for sample in requests.samples] == [
        ({"verb": "GET", "resource": "pods", "code": "200"}, 3.0),
        ({"verb": "PATCH", "resource": "brokergroups", "code": "409"}, 1.0),
    ]


def test_names_keep_the_rules_of_the_others() -> None:
    for metric in METRICS:
        assert re.fullmatch(r"logherd_operator_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.help.endswith(".")
