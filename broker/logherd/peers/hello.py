"""What two replicas say to each other before anything else, and the rules by which one refuses the other.

    hello    kind u8 = 1 | protocol version u16 | JSON
    refusal  kind u8 = 2 | code u8 | a sentence in UTF-8

Both say hello, the dialler first. The kinds and the version's place never change, so that any two releases can tell
each other why they do not talk. A hello may be said again on a live connection when what it says has changed.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

import msgspec

from logherd.peers.errors import CodecError, IdentityError
from logherd.peers.frames import Kind
from logherd.peers.identity import name_of
from logherd.replication.messages import ClusterId, ReplicaId

__all__ = [
    "HELLO_BYTES_MAX", "PROTOCOL_VERSION", "REVISION", "Hello", "Refusal", "RefusalCode", "decode_hello",
    "decode_refusal", "encode_hello", "encode_refusal", "judge_hello",
]  # fmt: skip

PROTOCOL_VERSION = 1
REVISION = 1
HELLO_BYTES_MAX = 16 * 1024
"""Also the largest frame that is taken from somebody who has not said hello."""

_NODES_MAX = 64
_TEXT_MAX = 255
_ABOUT_MAX = 4096
_SENTENCE_MAX = 1024
_HEAD = Struct(">BH")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Who speaks, to whom, and what must be equal on both sides.

    `to` is the name that was dialled, and in the answer the dialler's. `instance` is drawn by each process: it tells a
    reconnect from a second process with the same identity. `founded` lists the founders once this replica belongs to a
    group. `nodes` are the configured names in their order, the first one founds; empty is not compared. `bare_end`: the
    position below which records of the sender's log may be without a checksum of the whole. `about` is what the group's
    own shell lets others know, as JSON: its `mode` alone is judged here, if it has one, for epochs of two modes must
    never meet. `revision`: what the sender understands beyond the first release with this protocol version, which would
    end the connection at it: 1 outlines, and that a disk is short.
    """

    cluster: ClusterId
    sender: ReplicaId
    instance: int
    segment_bytes: int
    founded: tuple[ReplicaId, ...] | None = None
    software: str = ""
    nodes: tuple[str, ...] = ()
    bare_end: int = 0
    about: str = ""
    revision: int = 0
    to: str = ""
    version: int = PROTOCOL_VERSION


class RefusalCode(IntEnum):
    """Why; the numbers go over the wire."""

    MALFORMED = 1
    VERSION = 2
    CLUSTER = 3
    RESET = 4
    ADDRESSEE = 5
    SAME_NAME = 6
    UNKNOWN_NODE = 7
    SEGMENT_BYTES = 8
    FOUNDERS = 9
    NODES = 10
    TWIN = 11
    MODE = 12
    UNKNOWN = 0
    """Of a later release; the sentence says it all the same."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason for machines and a sentence for people, written from the refusing side's view."""

    code: RefusalCode
    sentence: str


def encode_hello(hello: Hello) -> bytes:
    """The payload of a frame."""
    return _HEAD.pack(Kind.HELLO, hello.version) + msgspec.json.encode(hello)


def decode_hello(data: bytes | memoryview) -> Hello | int:
    """The inverse; of another protocol version only its number. Raises: CodecError."""
    if len(data) < _HEAD.size:
        raise CodecError("hello", f"{len(data)} bytes, the head takes {_HEAD.size}")
    kind, version = _HEAD.unpack_from(data)
    if kind != Kind.HELLO:
        raise CodecError("hello", f"a payload of kind {kind} instead")
    if version != PROTOCOL_VERSION:
        return int(version)
    try:
        hello = msgspec.json.decode(data[_HEAD.size :], type=Hello)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CodecError("hello", str(error)) from error
    _check_hello(hello)
    return hello


def _check_hello(hello: Hello) -> None:
    texts = (hello.cluster.name, hello.sender, hello.to, hello.software, *(hello.founded or ()), *hello.nodes)
    if any(len(text.encode(errors="replace")) > _TEXT_MAX for text in texts):
        raise CodecError("hello", f"a text of more than {_TEXT_MAX} bytes")
    if len(hello.about.encode(errors="replace")) > _ABOUT_MAX:
        raise CodecError("hello.about", f"more than {_ABOUT_MAX} bytes")
    if len(hello.founded or ()) > _NODES_MAX or len(hello.nodes) > _NODES_MAX:
        raise CodecError("hello.founded", f"more than {_NODES_MAX} nodes")
    if hello.version != PROTOCOL_VERSION or not hello.cluster.name:
        raise CodecError("hello", "the version is told twice and differs, or the cluster has no name")
    if hello.founded is not None and not hello.founded:
        raise CodecError("hello.founded", "a group is founded by somebody")
    for number in (hello.cluster.reset, hello.instance, hello.segment_bytes, hello.bare_end, hello.revision):
        if not 0 <= number < 1 << 64:
            raise CodecError("hello", f"{number} is not a number of 64 bits")
    try:
        for replica in (hello.sender, *(hello.founded or ())):
            name_of(replica)
    except IdentityError as error:
        raise CodecError("hello.sender", str(error)) from error


def encode_refusal(refusal: Refusal) -> bytes:
    """The payload of a frame."""
    sentence = refusal.sentence.encode(errors="replace")[:_SENTENCE_MAX]
    return bytes((Kind.REFUSAL, refusal.code)) + sentence


def decode_refusal(data: bytes | memoryview) -> Refusal:
    """The inverse. Raises: CodecError."""
    if not 2 <= len(data) <= 2 + _SENTENCE_MAX or data[0] != Kind.REFUSAL:
        raise CodecError("refusal", f"{len(data)} bytes, 2 to {2 + _SENTENCE_MAX} are a refusal")
    code = RefusalCode(data[1]) if data[1] in _CODES else RefusalCode.UNKNOWN
    return Refusal(code, str(data[2:], "utf-8", "replace"))


_CODES = frozenset(int(code) for code in RefusalCode)


# ---- the rules: the first one that speaks decides --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """One hello before the judge. `dialled` is the name that we dialled; None where they did.

    `living` are the processes that this name is connected as right now, in either direction, without this connection.
    """

    ours: Hello
    theirs: Hello
    dialled: str | None
    known: Collection[str]
    living: Collection[int]

    @property
    def name(self) -> str:
        """Their name."""
        return name_of(self.theirs.sender)


def judge_hello(
    theirs: Hello | int, ours: Hello, *, dialled: str | None, known: Collection[str], living: Collection[int]
) -> Refusal | None:
    """Why the two must not talk, or None. `known` are the names that this node's configuration has."""
    if isinstance(theirs, int):
        return Refusal(RefusalCode.VERSION, f"protocol version {theirs} is not spoken here, {PROTOCOL_VERSION} is")
    meeting = Meeting(ours=ours, theirs=theirs, dialled=dialled, known=known, living=living)
    for code, rule in _RULES:
        sentence = rule(meeting)
        if sentence is not None:
            return Refusal(code, sentence)
    return None


def _cluster(meeting: Meeting) -> str | None:
    theirs, ours = meeting.theirs.cluster.name, meeting.ours.cluster.name
    return f"this is the cluster {ours!r}, not {theirs!r}" if theirs != ours else None


def _same_name(meeting: Meeting) -> str | None:
    if meeting.name != name_of(meeting.ours.sender):
        return None
    itself = meeting.theirs.instance == meeting.ours.instance
    return f"{meeting.name} has dialled itself" if itself else f"two nodes are called {meeting.name}"


def _addressee(meeting: Meeting) -> str | None:
    if meeting.dialled is not None and meeting.name != meeting.dialled:
        return f"{meeting.dialled} was dialled and {meeting.name} has answered"
    own = name_of(meeting.ours.sender)
    return f"this is {own}, not {meeting.theirs.to!r}" if meeting.theirs.to != own else None


def _unknown_node(meeting: Meeting) -> str | None:
    known = ", ".join(sorted(meeting.known))
    return None if meeting.name in meeting.known else f"no node is called {meeting.name} here, the others are {known}"


def _mode(meeting: Meeting) -> str | None:
    theirs, ours = _mode_of(meeting.theirs.about), _mode_of(meeting.ours.about)
    if not theirs or not ours or theirs == ours:
        return None
    return f"this is a group in mode {ours}, {meeting.name} is in mode {theirs}"


class _About(msgspec.Struct):
    mode: str = ""


def _mode_of(about: str) -> str:
    """Empty if it says none, as of releases before in mode controller."""
    try:
        return msgspec.json.decode(about, type=_About).mode
    except (msgspec.DecodeError, RecursionError):
        return ""


def _reset(meeting: Meeting) -> str | None:
    """Whoever is not founded yet takes over the group's number when it joins."""
    theirs, ours = meeting.theirs, meeting.ours
    if theirs.founded is None or ours.founded is None or theirs.cluster.reset == ours.cluster.reset:
        return None
    return f"the quorum was rebuilt {ours.cluster.reset} times here and {theirs.cluster.reset} times there"


def _segment_bytes(meeting: Meeting) -> str | None:
    theirs, ours = meeting.theirs.segment_bytes, meeting.ours.segment_bytes
    return f"segments have {ours} bytes here and {theirs} there" if theirs != ours else None


def _founders(meeting: Meeting) -> str | None:
    theirs, ours = meeting.theirs.founded, meeting.ours.founded
    if theirs is None or ours is None or frozenset(theirs) == frozenset(ours):
        return None
    return f"the group was founded by {', '.join(ours)} here and by {', '.join(theirs)} there"


def _nodes(meeting: Meeting) -> str | None:
    """Only founding needs equal lists; later a rolling change of them must not part the group."""
    theirs, ours = meeting.theirs, meeting.ours
    agreed = not theirs.nodes or not ours.nodes or theirs.nodes == ours.nodes
    if agreed or theirs.founded is not None or ours.founded is not None:
        return None
    return f"the nodes are {', '.join(ours.nodes)} here and {', '.join(theirs.nodes)} there, in this order"


def _twin(meeting: Meeting) -> str | None:
    if all(instance == meeting.theirs.instance for instance in meeting.living):
        return None
    return f"another process is connected as {meeting.name}; two must not share a data directory or its copy"


_RULES: tuple[tuple[RefusalCode, Callable[[Meeting], str | None]], ...] = (
    (RefusalCode.CLUSTER, _cluster),
    (RefusalCode.SAME_NAME, _same_name),
    (RefusalCode.ADDRESSEE, _addressee),
    (RefusalCode.UNKNOWN_NODE, _unknown_node),
    (RefusalCode.MODE, _mode),
    (RefusalCode.RESET, _reset),
    (RefusalCode.SEGMENT_BYTES, _segment_bytes),
    (RefusalCode.FOUNDERS, _founders),
    (RefusalCode.NODES, _nodes),
    (RefusalCode.TWIN, _twin),
)
