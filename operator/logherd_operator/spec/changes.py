"""How the group is changed: updates, reconciling, budgets, the Spark template."""

from typing import Annotated, Literal

from pydantic import Field

from logherd_operator.spec.base import Cron, DnsName, Matching, Model, Whole

__all__ = ["Advertised", "Disruption", "Monitoring", "Spark", "SparkTemplate", "Update", "Window"]


AddressTemplate = Annotated[
    str,
    Matching(
        r"([a-z0-9.-]|\{(pod|headless|namespace|domain)\})+",
        "a name that may hold {pod}, {headless}, {namespace} and {domain}",
    ),
]
SparkVersion = Annotated[str, Matching(r"4\.[0-9]+\.[0-9]+", "a version 4.x.y of Spark", length_max=20)]


class Window(Model):
    """A time in which updates may run."""

    cron: Cron = Field(description="When it opens: minute, hour, day, month, weekday.")
    duration_minutes: Whole = Field(ge=1, le=10_080, description="How long it stays open.")


class Update(Model):
    """Rolling updates."""

    strategy: Literal["Automatic", "Supervised", "Manual"] = Field(default="Automatic", description="Who starts one.")
    pod_ready_timeout_seconds: Whole = Field(default=900, ge=60, le=86_400, description="Time for one pod.")
    soak_seconds: Whole = Field(default=10, ge=0, le=3600, description="Rest after each pod.")
    windows: tuple[Window, ...] = Field(default=(), max_length=20, description="None: always.")
    adopt_new_template: Literal["OnNextUpdate", "Automatic"] = Field(
        default="OnNextUpdate", description="When an operator's new pod template is used."
    )
    allow_write_pause: bool = Field(default=False, description="May an update pause writes?")


class Disruption(Model):
    """Protection against administrators' evictions."""

    budget: bool = Field(default=True, description="Make a PodDisruptionBudget.")


class Monitoring(Model):
    """Metrics."""

    port: Whole = Field(
        default=5557,
        ge=1024,
        le=65_535,
        description="Not yet: other values are refused; metrics are on the admin port, 8088.",
    )


class Advertised(Model):
    """What clients are told."""

    address_template: AddressTemplate = Field(
        default="{pod}.{headless}.{namespace}.svc.{domain}", description="Address of a broker, with placeholders."
    )


class SparkTemplate(Model):
    """A ready ConfigMap for Spark on Kubernetes."""

    enabled: bool = Field(default=False, description="Make it.")
    image: str | None = Field(default=None, min_length=1, description="Image of driver and executors.")
    spark_version: SparkVersion = Field(default="4.3.0", description="Spark 4.")
    service_account_name: DnsName | None = Field(default=None, description="Who the driver is.")


class Spark(Model):
    """Spark on Kubernetes."""

    template: SparkTemplate = Field(default_factory=SparkTemplate, description="Its template.")
