"""The group of settings for the parent process of a broker or controller, and for what peers do for each other."""

from pydantic import Field

from logherd.settings.base import Group
from logherd.settings.quantities import DialledText, EndpointText, Milliseconds, PathText

__all__ = ["GuardianSettings"]


class GuardianSettings(Group):
    """The parent process that keeps the ports over this one's death: `--guarded` starts it with what stands here."""

    relay_listen: EndpointText | None = Field(
        default=None,
        description="Address where guardians of peers bring clients that their own process cannot serve; none: they "
        "cannot. It believes what they say of the client's address, so let nobody else reach it.",
    )
    peers: tuple[DialledText, ...] = Field(
        default=(),
        max_length=16,
        description="`relayListen` of the peers: where the guardian brings clients while this process does not serve. "
        "Its own may be among them, so that the list is the same for all.",
    )
    state_file: PathText | None = Field(
        default=None,
        description="File in a memory file system where the guardian keeps what this process has told it; none: "
        "nowhere to be seen.",
    )
    stop_ms: Milliseconds = Field(
        default=30_000,
        alias="stopTime",
        ge=1000,
        le=86_400_000,
        multiple_of=1000,
        description="From a stop to the kill of a process that does not end; whole seconds.",
    )
