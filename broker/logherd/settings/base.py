"""What all groups of settings have in common."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

__all__ = ["Group"]


class Group(BaseModel):
    """Base of all groups: immutable, camelCase in files, unknown keys refused, defaults checked too."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, validate_default=True)
