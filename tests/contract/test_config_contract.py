"""What the operator renders, the broker accepts. The only tests that import both sides."""

import json
from pathlib import Path

import pytest

from logherd.settings.load import load_broker_options
from logherd_operator.resources.broker_config import BrokerPlace, render_broker_config
from logherd_operator.spec.document import parse_group

EXAMPLE = (Path(__file__).resolve().parents[2] / "examples/group.yaml").read_text()
PLACE = BrokerPlace(
    broker_id=0, listen="127.0.0.1:1", admin_listen="[::1]:2", name_service_listen="127.0.0.1:3", data_dir="/data"
)


@pytest.mark.parametrize(
    "addition", ["", "  nameService: {mode: External, addresses: ['a:1']}\n", "  clusterName: shop\n"]
)
def test_a_rendered_configuration_is_accepted(tmp_path: Path, addition: str) -> None:
    group = parse_group(EXAMPLE + addition, source="example")
    path = tmp_path / "broker.json"
    path.write_text(json.dumps(render_broker_config(group, PLACE)))
    options = load_broker_options(path)
    assert (options.broker_group, str(options.listen), str(options.admin_listen)) == (
        "demo",
        "127.0.0.1:1",
        "[::1]:2",
    )
    assert options.store.retention.age_ms == 72 * 3_600_000
    assert options.name_service.mode == group.spec.name_service.mode.lower()
