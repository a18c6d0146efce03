"""The group of settings for RocketMQ's own HA protocol, between this broker and a RocketMQ broker of the same group."""

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from logherd.settings.base import Group
from logherd.settings.quantities import EndpointText, Milliseconds, split_endpoint

__all__ = ["ClassicHaSettings"]

_METADATA_PORTS = 2


def _check_real_port(text: str) -> str:
    if split_endpoint(text)[1] == 0:
        raise ValueError("needs a real port, because others connect to it")
    return text


_Dialled = Annotated[EndpointText, AfterValidator(_check_real_port)]


class ClassicHaSettings(Group):
    """RocketMQ's classic HA protocol: the way to LogHerd, and back. Off unless one of the addresses is given.

    It is asynchronous: what a RocketMQ slave acknowledges is not on its disk and never counts as a copy.
    """

    listen: _Dialled | None = Field(
        default=None,
        description="Address for RocketMQ slaves of this broker, by custom its own port plus 1. They read topics from "
        "this broker's port minus 2, so that one is taken too. Their `mappedFileSizeCommitLog` must be "
        "`store.segmentSize`. In modes alone and static; in static to be given at every broker that may be promoted, "
        "whoever leads takes them.",
    )
    master: _Dialled | None = Field(
        default=None,
        description="Service address of a RocketMQ master that this broker follows. Until `logherd store promote` it "
        "takes no clients. In mode alone.",
    )
    metadata_interval_ms: Milliseconds = Field(
        default=10_000, alias="metadataInterval", ge=100, le=600_000,
        description="How often topics, groups and offsets are taken from the master; after a promotion consumers begin "
        "where they stood up to so long before.",
    )  # fmt: skip

    @model_validator(mode="after")
    def _one_direction(self) -> "ClassicHaSettings":
        if self.listen is not None and self.master is not None:
            raise ValueError("listen is for a broker that leads, master for one that follows: give one of them")
        return self

    def check_broker(self, mode: str, listen: str, *, follower_reads: bool) -> None:
        """What the broker's own settings must be like. Raises ValueError."""
        if self.listen is None and self.master is None:
            return
        if self.master is not None and mode != "alone":
            raise ValueError(f"replication.classicHa.master is for brokers alone, not for replication.mode {mode}")
        if mode not in ("alone", "static"):
            raise ValueError(
                f"replication.classicHa.listen is for brokers alone and mode static, not for replication.mode {mode}: "
                "a RocketMQ slave cannot tell whose log it follows when leaders change by themselves"
            )
        if mode == "static" and follower_reads:
            raise ValueError("replication.followerReads has followers in routes, where RocketMQ slaves are looked for")
        if self.listen is not None and split_endpoint(listen)[1] <= _METADATA_PORTS:
            raise ValueError("listen needs a real port above 2 for replication.classicHa.listen")
