"""From a pydantic model to the structural schema that an API server takes: no references, no nulls, no titles.

An absent optional field stays absent: `None` is never written. A group of fields has a default if anything in it has
one, because the API server fills defaults only into objects that are there; and it is written out in full, because the
API server tries the rules on a default before it fills anything into it.
"""

from copy import deepcopy
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

__all__ = ["Schema", "filled", "schema_of"]

Schema = dict[str, Any]
_DROPPED = ("title", "default", "additionalProperties")
_INT32_MAX = (1 << 31) - 1


def schema_of(model: type[BaseModel]) -> Schema:
    """The schema of `model`, with every inner model in its place."""
    raw = model.model_json_schema(by_alias=True)
    return _object(model, raw, raw.get("$defs", {}))


def _object(model: type[BaseModel], raw: Schema, definitions: Schema) -> Schema:
    properties: Schema = {}
    for name, field in model.model_fields.items():
        alias = field.alias or name
        properties[alias] = _field(field, raw["properties"][alias], definitions)
    required = raw.get("required", [])
    description = raw.get("description", "").split("\n\n")[0]
    return {
        "type": "object",
        **({"description": description} if description else {}),
        "properties": properties,
        **({"required": required} if required else {}),
    }


def _field(field: FieldInfo, raw: Schema, definitions: Schema) -> Schema:
    inner = _model_in(field.annotation)
    schema = _plain(raw, definitions, inner)
    if field.description:
        schema["description"] = field.description
    default = _default(field, schema)
    return schema if default is None else {**schema, "default": default}


def _plain(raw: Schema, definitions: Schema, model: type[BaseModel] | None) -> Schema:
    if "anyOf" in raw:
        (raw,) = [each for each in raw["anyOf"] if each.get("type") != "null"]
    if "$ref" in raw and model is not None:
        return _object(model, definitions[raw["$ref"].rpartition("/")[2]], definitions)
    schema = {key: value for key, value in raw.items() if key not in _DROPPED}
    if "items" in raw:
        schema["items"] = _plain(raw["items"], definitions, model)
    if "prefixItems" in schema:
        schema.pop("prefixItems")
    if isinstance(raw.get("additionalProperties"), dict):
        schema["additionalProperties"] = _plain(raw["additionalProperties"], definitions, model)
    if schema.get("type") == "integer":
        schema["format"] = "int32" if schema.get("maximum", _INT32_MAX + 1) <= _INT32_MAX else "int64"
    return schema


def _default(field: FieldInfo, schema: Schema) -> Any:
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, BaseModel):
        given = value.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return filled(given, schema) or None
    if value is None or field.is_required() or value in ((), {}):
        return None
    return list(value) if isinstance(value, tuple) else value


def filled(given: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """A copy of `given` with the defaults of `schema` in what it leaves out, as the API server would fill it."""
    result = deepcopy(given)
    for name, inner in schema["properties"].items():
        if name not in result and "default" in inner:
            result[name] = deepcopy(inner["default"])
        elif isinstance(result.get(name), dict) and "properties" in inner:
            result[name] = filled(result[name], inner)
    return result


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
