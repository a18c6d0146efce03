"""Prints docs/settings.md from the models, so that the page cannot disagree with what is checked."""

import json
import sys
import types
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "broker"), str(ROOT / "operator")]

from pydantic import BaseModel  # noqa: E402 -- the path has to be there first
from pydantic.fields import FieldInfo  # noqa: E402

from logherd.settings.controller_models import ControllerSettings  # noqa: E402
from logherd.settings.hot import HOT, hot_properties  # noqa: E402
from logherd.settings.models import BrokerSettings  # noqa: E402
from logherd.settings.properties import property_names  # noqa: E402
from logherd_operator.spec.effects import effect_of  # noqa: E402
from logherd_operator.spec.group import BrokerGroupSpec  # noqa: E402

HEAD = """# Settings

This page is generated from the models (`make docs`); a test compares it. Keys that are not here are refused by name.

## A BrokerGroup: what `logherd up -f FILE` and the operator read

```yaml
apiVersion: logherd.dev/v1alpha1
kind: BrokerGroup
metadata:
  name: demo
spec:
  replicas: 3
```

All fields below are checked. What stands in the file is applied when it is saved. What says "not yet" has a place and
does nothing: on Kubernetes the group says so in its condition `Degraded` (`InvalidSpec`) and nothing of it is made or
changed. On one machine `controllers.ref`, `runtime`, `replication.uncleanElection`, another `update.strategy` than
`Automatic` and another mode of `tls` or `auth` than `Disabled` are refused; fields that matter only on Kubernetes are
named. What can never be changed there: the name, `clusterName`, `replication.mode` and the number of controllers.
"""
BROKER = """
## The broker's own file: what `logherd broker --config FILE` reads

`logherd up` writes this file. YAML or JSON; sizes as `64MiB`, times as `72h`, addresses as `host:port`. With
`--set path.to.key=value` one key wins over the file.

A running broker takes what is marked `live`: by `POST /config` of the admin port with an object like
`{"values": {"log.level": "debug"}}` and the secret of `adminTokenFile`. All values of a call are checked together with
everything that is in force; then all are applied or none, and the answer tells what is in force. That holds until the
process ends: the next start goes by the file. `GET /config` and `GET /status` tell all of them (`hot`), and which were
changed since the start (`config`). All other settings need a restart.
"""
CONTROLLER = """
## A controller's file: what `logherd controller --config FILE` reads

Written in the same way. `controllers`, `clusterName`, `leaseMs` and `election` should be the same in the files of all
controllers; `controllers[].name` stands for that key of each entry of the list. A controller takes what is marked
`live` by `POST /config/process`, as a broker does; its `/config` is about the decisions of all controllers together.
"""
PROPERTIES = """
## RocketMQ's names

Under `properties` (and in a BrokerGroup under `config`) settings can be given by these RocketMQ names, in RocketMQ's
units. `mqadmin getBrokerConfig` shows them. `mqadmin updateBrokerConfig` changes those marked `live` in the same way as
`POST /config`, and `brokerPermission`, which stands in no file; the others need a start with another file.

They mean what they mean at RocketMQ, but for two. With more than `diskMaxUsedSpaceRatio` percent of the disk in use
RocketMQ deletes at any hour what is old enough, and with more than 85 the oldest files. Here messages of clients are
refused then (it is 100 less `store.reservedPercent`), and nothing is deleted for want of space: `store.retention.size`
bounds the log. And what is older than `fileReservedTime` hours goes within seconds, and not at an hour of the day
(`deleteWhen`).

"""


def rows(
    model: type[BaseModel], prefix: str = "", made: BaseModel | None = None
) -> Iterator[tuple[str, FieldInfo, Any]]:
    """Every key with its field and its default; `made` is the group as it is when nothing of it is given."""
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        default = getattr(made, name) if made is not None else field.get_default(call_default_factory=True)
        if get_origin(field.annotation) is tuple and (each := inner_model(get_args(field.annotation)[0])):
            yield path, field, default
            yield from rows(each, f"{path}[].")
            continue
        inner = inner_model(field.annotation)
        if inner is None:
            yield path, field, default
        else:
            yield from rows(inner, f"{path}.", default if isinstance(default, BaseModel) else None)


def inner_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType):
        return next((found for part in get_args(annotation) if (found := inner_model(part))), None)
    return None


def default_text(field: FieldInfo, value: Any) -> str:
    if field.is_required():
        return "required"
    if value is None or value in ((), {}):
        return "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return quantity(value, text_format(field))
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


def text_format(field: FieldInfo) -> str:
    parts = [*field.metadata, *(getattr(each, "__metadata__", ()) for each in get_args(field.annotation))]
    flat = [inner for each in parts for inner in (each if isinstance(each, tuple) else (each,))]
    formats = [getattr(each, "json_schema", {}).get("format", "") for each in flat]
    return next((each for each in formats if each), "")


def quantity(value: int, kind: str) -> str:
    if kind == "size":
        unit = next(
            u
            for u in ("GiB", "MiB", "KiB", "B")
            if value % {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1024, "B": 1}[u] == 0
        )
        return f"`{value // {'GiB': 1 << 30, 'MiB': 1 << 20, 'KiB': 1024, 'B': 1}[unit]}{unit}`"
    if kind == "duration":
        time = timedelta(milliseconds=value)
        for unit, one in (("h", timedelta(hours=1)), ("s", timedelta(seconds=1)), ("ms", timedelta(milliseconds=1))):
            if time % one == timedelta():
                return f"`{time // one}{unit}`"
    return f"`{value}`"


def choices(field: FieldInfo) -> str:
    if get_origin(field.annotation) is Literal:
        return " One of " + ", ".join(f"`{each}`" for each in get_args(field.annotation)) + "."
    kind = text_format(field)
    low = next((each.ge for each in field.metadata if hasattr(each, "ge")), None)
    high = next((each.le for each in field.metadata if hasattr(each, "le")), None)
    if low is None and high is None:
        return ""
    if high is None:
        return f" At least {quantity(low, kind)}."
    if low == high:
        return f" Only {quantity(high, kind)}."
    return f" From {quantity(low or 0, kind)} to {quantity(high, kind)}."


def table(model: type[BaseModel], change: Callable[[str], str]) -> str:
    """`change` says of a key how another value comes into force."""
    lines = ["", "| key | default | change | meaning |", "| --- | --- | --- | --- |"]
    for path, field, default in rows(model):
        meaning = f"{field.description or ''}{choices(field)}".replace("|", "\\|")
        lines.append(f"| `{path}` | {default_text(field, default)} | {change(path)} | {meaning} |")
    return "\n".join(lines) + "\n"


def change_of(kind: str) -> Callable[[str], str]:
    return lambda path: "live" if path in HOT[kind] else "restart"


def main() -> None:
    hot = hot_properties()
    properties = "".join(f"- `{name}`{', live' if name in hot else ''}\n" for name in property_names())
    sys.stdout.write(HEAD + table(BrokerGroupSpec, effect_of))
    sys.stdout.write(BROKER + table(BrokerSettings, change_of("broker")) + PROPERTIES + properties)
    sys.stdout.write(CONTROLLER + table(ControllerSettings, change_of("controller")))


if __name__ == "__main__":
    main()
