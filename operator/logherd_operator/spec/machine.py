"""What the brokers and controllers get of a machine: storage, processors, memory."""

import re
from decimal import Decimal
from typing import Literal

from pydantic import Field, model_validator

from logherd_operator.spec.base import Model, Quantity, Whole

__all__ = ["ControllerStorage", "ResourceList", "Resources", "Retention", "Runtime", "Storage", "quantity_value"]

_FACTORS: dict[str, Decimal | int] = {
    "": 1, "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": 10**3, "M": 10**6, "G": 10**9,
    "T": 10**12, "P": 10**15, "E": 10**18, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50,
    "Ei": 1 << 60,
}  # fmt: skip
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def quantity_value(quantity: str) -> Decimal:
    """The number that a Kubernetes quantity stands for, in bytes, cores or pieces.

    The API server takes more of them than our schema does, and a claim's are others' to write. Raises: ValueError.

    Source: kubernetes/apimachinery: pkg/api/resource/quantity.go
    """
    number = _NUMBER.match(quantity)
    factor = _FACTORS.get(quantity[number.end() :]) if number is not None else None
    if number is None or factor is None:
        raise ValueError(f"{quantity!r} is no quantity")
    return Decimal(number[0]) * Decimal(factor)


class Retention(Model):
    """What happens with volumes that nobody uses any more."""

    when_deleted: Literal["Retain", "Delete"] = Field(default="Retain", description="After the group is deleted.")
    when_scaled: Literal["Retain", "Delete"] = Field(default="Retain", description="After the group got smaller.")


class ControllerStorage(Model):
    """The volume of one controller."""

    size: Quantity = Field(default="5Gi", description="Size of the volume.")


class Storage(Model):
    """The volume of one broker."""

    size: Quantity = Field(default="20Gi", description="Size of the volume; it can grow and never shrinks.")
    storage_class_name: str | None = Field(default=None, description="None: the cluster's default class.")
    retention: Retention = Field(default_factory=Retention, description="What happens with unused volumes.")
    reserved_percent: Whole = Field(default=10, ge=2, le=50, description="Writes are refused below this free share.")


class ResourceList(Model):
    """Amounts of one kind: asked for, or at most."""

    cpu: Quantity | None = Field(default=None, description="Processor cores, such as 500m.")
    memory: Quantity | None = Field(default=None, description="Bytes of memory, such as 1Gi.")


class Resources(Model):
    """What a container asks for and may use."""

    requests: ResourceList = Field(default=ResourceList(cpu="500m", memory="1Gi"), description="Kept free for it.")
    limits: ResourceList = Field(default=ResourceList(memory="1Gi"), description="At most; memory is required.")

    @model_validator(mode="after")
    def _memory_is_bounded(self) -> "Resources":
        limit, request = self.limits.memory, self.requests.memory
        if limit is None:
            raise ValueError("limits.memory is required, because the broker sizes its buffers by it")
        if request is not None and quantity_value(request) > quantity_value(limit):
            raise ValueError("requests.memory should not be above limits.memory")
        return self


class Runtime(Model):
    """How a broker uses what it has."""

    memory_percent: Whole = Field(
        default=60,
        ge=20,
        le=80,
        description="Not yet: other values are refused, and nothing goes by this one. What is kept for clients has a "
        "quarter of the memory limit, 256Mi at most.",
    )
