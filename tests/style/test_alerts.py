"""The alert rules that we offer are about metrics that exist, with labels that they have."""

import re

import yaml

from logherd.telemetry.metrics import SECTIONS, Kind
from logherd_operator.handlers.metrics import METRICS
from style.tree import ROOT

KNOWN = {each.name: each.labels for section in SECTIONS.values() for each in section}
KNOWN |= {f"{each.name}_bucket": () for section in SECTIONS.values() for each in section if each.kind is Kind.HISTOGRAM}
KNOWN |= {each.name: each.labels for each in METRICS} | {"up": ()}
SCRAPED = {"job", "group", "instance", "le"}
RULES = [
    rule for group in yaml.safe_load((ROOT / "examples/alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
NAME = re.compile(r"(?<![\w$])((?:logherd|process)_\w+|up\b)(?:\{(\w+)=)?")


def test_rules_name_only_metrics_and_labels_that_exist() -> None:
    unknown = []
    for rule in RULES:
        for name, label in NAME.findall(rule["expr"]):
            if name not in KNOWN or (label and label not in {*KNOWN[name], *SCRAPED}):
                unknown.append((rule["alert"], name, label))
    assert unknown == []


def test_what_a_rule_prints_is_a_label_of_its_metrics() -> None:
    for rule in RULES:
        has = SCRAPED.union(*(KNOWN[name] for name, _ in NAME.findall(rule["expr"])))
        assert set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) <= has, rule["alert"]


def test_who_is_in_sync_is_believed_of_the_leader_alone() -> None:
    """In the modes raft and static a follower tells all who could be; the largest of both would hide who is not."""
    [rule] = [rule for rule in RULES if "in_sync_replicas" in rule["expr"]]
    asked = 'logherd_replication_in_sync_replicas and on (group, instance) logherd_replication_role{role="leader"} == 1'
    assert asked in rule["expr"]


def test_a_follower_whom_nobody_awaits_is_told_of_only_while_it_does_not_keep_up() -> None:
    """In mode static some are never in sync, and in mode raft those without a vote. Of a broker that does not say whom
    it awaits, as one of a former release, each follower counts."""
    [rule] = [rule for rule in RULES if rule["alert"] == "LogHerdFollowerOutOfSync"]
    told, _, left_out = rule["expr"].partition(" unless on (group, instance, broker) (")
    assert told == "logherd_replication_follower_in_sync == 0"
    assert set(left_out.removesuffix(")").strip().split(" and ")) == {
        "logherd_replication_follower_awaited == 0", "logherd_replication_follower_connected == 1",
        "logherd_replication_follower_lag_seconds < 60",
    }  # fmt: skip


def test_every_rule_says_how_urgent_it_is_and_where_to_look() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES) > 10
    for rule in RULES:
        assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
        assert set(rule["annotations"]) == {"summary", "look"}, rule["alert"]
        assert NAME.search(rule["expr"]), rule["alert"]
