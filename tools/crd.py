"""Writes the CustomResourceDefinition from the models: crds/ for kubectl, and the operator's chart."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "operator")]

import yaml  # noqa: E402 -- the path has to be there first

from logherd_operator.spec.crd import CRD_NAME, group_crd  # noqa: E402

PLAIN = ROOT / "crds" / f"{CRD_NAME}.yaml"
OF_CHART = ROOT / "charts/logherd-operator/templates/crd-brokergroups.yaml"
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


def main() -> None:
    """Write both."""
    for path, text in ((PLAIN, plain()), (OF_CHART, of_chart())):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
