"""What the operator renders for a replicated group, brokers and controllers accept, whatever the spec says."""

import json
from pathlib import Path

import pytest

from logherd.settings.hot import HOT, hot_properties, hot_values
from logherd.settings.load import load_broker_options, load_controller_options
from logherd_operator.resources.broker_config import hot_settings
from logherd_operator.resources.member_files import broker_files, controller_files
from logherd_operator.resources.site import Shape
from logherd_operator.spec.effects import CONFIG_LIVE
from unit.operator_resources.examples import EXAMPLES, site_of

NAMES = sorted(EXAMPLES)


@pytest.mark.parametrize("name", NAMES)
def test_every_broker_of_a_group_accepts_its_file(tmp_path: Path, name: str) -> None:
    spec, shape = EXAMPLES[name]
    for file, document in broker_files(site_of(spec, controllers=shape.controllers), shape).items():
        path = tmp_path / file
        path.write_text(json.dumps(document))
        options = load_broker_options(path)
        ordinal = options.broker_id - 1
        assert file == f"orders-broker-{ordinal}.json"
        mode = site_of(spec).group.spec.replication.mode
        assert options.replication.mode == mode.lower()
        assert len(options.replication.controllers) == (0 if mode == "Raft" else shape.controllers)
        assert options.replication.learner == (shape.first_learner is not None and ordinal >= shape.first_learner)
        if mode == "Raft":
            assert options.replication.raft.founders == (1, 2, 3)
            assert options.replication.raft.members == (1, 2, 3, 4)
        assert options.guardian.relay_listen is not None


@pytest.mark.parametrize("name", [name for name in NAMES if name != "shared"])
def test_every_controller_of_a_group_accepts_its_file(tmp_path: Path, name: str) -> None:
    spec, shape = EXAMPLES[name]
    for file, document in controller_files(site_of(spec, controllers=shape.controllers)).items():
        path = tmp_path / file
        path.write_text(json.dumps(document))
        options = load_controller_options(path)
        assert len(options.controllers) == shape.controllers
        assert options.lease_ms == site_of(spec).group.spec.failover.lease_ms


@pytest.mark.parametrize("failover", [{"heartbeatIntervalMs": 200, "leaseMs": 600}, {"leaseMs": 60_000}])
def test_any_lease_leaves_time_for_an_election(tmp_path: Path, failover: dict[str, int]) -> None:
    site = site_of({"failover": failover})
    path = tmp_path / "c.json"
    path.write_text(json.dumps(controller_files(site)["orders-controller-0.json"]))
    assert load_controller_options(path).lease_ms == failover["leaseMs"]
    path.write_text(json.dumps(broker_files(site, Shape(brokers=3, controllers=3))["orders-broker-0.json"]))
    load_broker_options(path)


@pytest.mark.parametrize(
    "spec",
    [
        {}, {"storage": {"reservedPercent": 7}, "replication": {"lagTimeoutMs": 2500}},
        {"config": {"fileReservedTime": "096", "autoCreateTopicEnable": "false", "flushIntervalCommitLog": "50"}},
        {"config": {"fileReservedTime": "+96", "flushIntervalCommitLog": "1_000"}},
        {"config": {"diskMaxUsedSpaceRatio": "80"}, "failover": {"heartbeatIntervalMs": 700}},
        {"replication": {"mode": "Raft"}}, {"replication": {"mode": "Static", "lagTimeoutMs": 900}},
    ],
)  # fmt: skip
def test_a_broker_tells_hot_settings_as_the_operator_wants_them(tmp_path: Path, spec: dict[str, object]) -> None:
    site, path = site_of(spec), tmp_path / "b.json"
    path.write_text(json.dumps(broker_files(site, Shape(brokers=3, controllers=3))["orders-broker-0.json"]))
    assert hot_settings(site.group).items() <= hot_values("broker", load_broker_options(path)).items()


def test_what_the_operator_takes_for_live_is_hot_at_a_broker() -> None:
    assert hot_properties().keys() == CONFIG_LIVE.keys()
    keys = {**hot_settings(site_of({}).group)}
    assert keys.keys() <= {*HOT["broker"], *hot_properties()}
