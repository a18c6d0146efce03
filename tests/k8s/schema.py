"""What Kubernetes' own kinds look like, by the types of its client: what an API server refuses, or drops in silence."""

import json
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from kubernetes.aio.client import models
from pydantic import ValidationError

__all__ = ["faults", "faults_of_pod_template"]

_OF_KIND = {"Event": "EventsV1Event"}
_INNER = re.compile(r"(List|Dict)\[(?:str, )?(.+)\]")


def faults(document: dict[str, Any]) -> list[str]:
    """Every unknown field with its path, and what is missing or of a wrong type. Kinds that are not Kubernetes' own
    have none.
    """
    return list(_faults_of_text(json.dumps(document)))


@lru_cache(maxsize=1000)
def _faults_of_text(text: str) -> tuple[str, ...]:
    # Seeded histories write the same documents thousands of times.
    document = json.loads(text)
    kind = document["kind"]
    return tuple(_faults(_OF_KIND.get(kind, f"V1{kind}"), document))


def faults_of_pod_template(template: dict[str, Any]) -> list[str]:
    """Of a piece that stands in objects of somebody else."""
    return _faults("V1PodTemplateSpec", template)


def _faults(name: str, value: dict[str, Any]) -> list[str]:
    model = _model(name)
    if model is None:
        return []
    found = list(_unknown(name, value, ""))
    try:
        model.model_validate(value)
    except ValidationError as error:
        found += [
            f".{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()
            if each["type"] != "extra_forbidden"
        ]  # fmt: skip
    return found


@cache
def _model(name: str) -> Any:
    return getattr(models, name, None)


def _unknown(name: str, value: Any, path: str) -> Iterator[str]:
    inner = _INNER.fullmatch(name)
    if inner is not None:
        items = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
        for key, each in items:
            yield from _unknown(inner[2], each, f"{path}[{key}]")
        return
    model = _model(name)
    if model is None or not isinstance(value, dict):
        return
    fields = {model.attribute_map[each]: kind for each, kind in model.openapi_types.items()}
    for key, each in value.items():
        if key not in fields:
            yield f"{path}.{key}: unknown field of {name}"
        else:
            yield from _unknown(fields[key], each, f"{path}.{key}")
