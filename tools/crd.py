"""Writes what is made from the models of BrokerGroup: crds/, the operator's chart, the schema of the group's chart."""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "operator")]

import yaml  # noqa: E402 -- the path has to be there first

from logherd_operator.spec.crd import CRD_NAME, group_crd  # noqa: E402
from logherd_operator.spec.group import BrokerGroupSpec  # noqa: E402
from logherd_operator.spec.schema import schema_of  # noqa: E402

PLAIN = ROOT / "crds" / f"{CRD_NAME}.yaml"
OF_CHART = ROOT / "charts/logherd-operator/templates/crd-brokergroups.yaml"
VALUES = ROOT / "charts/logherd/values.schema.json"
HEAD = "# Made by `make crds` from operator/logherd_operator/spec; a test compares it.\n"


def plain() -> str:
    """For `kubectl apply --server-side -f`."""
    return HEAD + yaml.safe_dump(group_crd(), sort_keys=False, width=120)


def of_chart() -> str:
    """The same as a template: kept on uninstall, because with it all groups would go; left out on wish."""
    document = group_crd()
    document["metadata"]["annotations"]["helm.sh/resource-policy"] = "keep"
    text = yaml.safe_dump(document, sort_keys=False, width=120)
    if "{{" in text:
        raise SystemExit("the definition holds what Helm would take for a template")
    return f"{{{{- if .Values.crds.enabled }}}}\n{HEAD}{text}{{{{- end }}}}\n"


def values() -> str:
    """What the group's chart takes: the whole spec, so that a typo is refused before anything is sent."""
    name = {"type": "string", "pattern": "^([a-z]([a-z0-9-]*[a-z0-9])?)?$", "maxLength": 40}
    test = {"type": "object", "additionalProperties": False, "properties": {"image": {"type": "string"}}}
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "required": ["spec"],
        "properties": {
            "global": {"type": "object"}, "name": name, "spec": strict(schema_of(BrokerGroupSpec)), "test": test,
        },
    }  # fmt: skip
    return json.dumps(schema, indent=2) + "\n"


def strict(schema: Any) -> Any:
    """The same for a reader that knows no Kubernetes: unknown keys are wrong, except in pieces of pods."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: strict(value) for key, value in schema.items() if not key.startswith("x-") and key != "format"}
    if isinstance(schema.get("properties"), dict) and "x-kubernetes-preserve-unknown-fields" not in schema:
        plain["additionalProperties"] = False
    return plain


def main() -> None:
    """Write all of them."""
    for path, text in ((PLAIN, plain()), (OF_CHART, of_chart()), (VALUES, values())):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
