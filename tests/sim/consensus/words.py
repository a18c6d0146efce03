"""Short words for messages and events, shared by the simulator's transcripts and the scripts."""

from logherd.raft.members import Configuration
from logherd.raft.messages import Doubtful, TimeoutNow, Trusted, VoteAnswer, VoteRequest
from logherd.raft.output import (
    Answer,
    Decided,
    DoubtEnded,
    Event,
    MembersChanged,
    QuorumRecovered,
    ReadReady,
    Refused,
    RoleChanged,
    StorageStalled,
    Strange,
)
from logherd.replication.epochs import Point
from logherd.replication.messages import (
    Append,
    AppendAck,
    AppendReject,
    CopyAck,
    CopyChunk,
    Envelope,
    Heartbeat,
    HeartbeatAck,
    ReadAsk,
    ReadGrant,
)

__all__ = ["say_answer", "say_body", "say_configuration", "say_envelope", "say_event", "say_point"]


def say_point(point: Point) -> str:
    """epoch/position."""
    return f"{point.epoch}/{point.position}"


def _say_append(body: Append) -> str:
    span = body.span
    what = f"probe {say_point(span.previous)}"
    if span.data:
        what = f"append ({say_point(span.previous)}, {span.end}] {len(span.data)} B"
    return f"{what} commit {body.commit} gen {body.generation}"


def _say_vote(body: VoteRequest | VoteAnswer) -> str:
    kind = "pre-vote" if body.pre else "vote"
    if isinstance(body, VoteAnswer):
        return f"{kind} {'yes' if body.granted else 'no'}"
    return f"{kind}? last {say_point(body.last)}{' transfer' if body.transfer else ''}"


def say_body(body: object) -> str:
    """One message without its envelope."""
    match body:
        case Append():
            return _say_append(body)
        case AppendAck():
            return f"ack verified {body.verified} durable {body.durable} gen {body.generation}"
        case AppendReject():
            return f"reject {body.asked} hint {say_point(body.hint)} gen {body.generation}"
        case Heartbeat():
            return f"beat {body.round} commit {body.commit}"
        case HeartbeatAck():
            return f"alive {body.round} end {body.end}{' busy' if body.busy else ''}"
        case CopyChunk():
            return f"copy {say_point(body.image.point)} offset {body.offset} {len(body.data)} B gen {body.generation}"
        case CopyAck():
            return f"copied to {body.offset} gen {body.generation}"
        case _:
            return _say_raft(body)


def _say_raft(body: object) -> str:
    match body:
        case VoteRequest() | VoteAnswer():
            return _say_vote(body)
        case TimeoutNow():
            return "timeout-now"
        case ReadAsk():
            return "read?"
        case ReadGrant():
            return f"read at {body.position}"
        case Doubtful():
            return f"doubtful, {say_body(body.answer)}"
        case Trusted():
            return f"trusted from {body.position}"
        case _:
            return type(body).__name__.lower()


def say_envelope(envelope: Envelope) -> str:
    """One message: from, to, term, body."""
    return f"{envelope.sender}>{envelope.to} term {envelope.epoch} {say_body(envelope.body)}"


def say_configuration(configuration: Configuration) -> str:
    """voters [+ outgoing] [learners]."""
    text = "voters " + ",".join(configuration.voters)
    if configuration.joint:
        text += " leaving " + ",".join(configuration.outgoing)
    if configuration.learners:
        text += " learners " + ",".join(configuration.learners)
    return text


def say_answer(answer: Answer) -> str:
    """One answer to a request."""
    match answer:
        case Decided():
            return f"#{answer.request} decided at {answer.position}"
        case ReadReady():
            return f"#{answer.request} read ready at {answer.position}"
        case Refused():
            return f"#{answer.request} refused: {answer.reason.value}"
        case _:
            return f"#{answer.request} unknown"


def say_event(event: Event) -> str:
    """One reported event."""
    match event:
        case RoleChanged():
            ready = ", ready" if event.ready else ""
            return f"{event.role.value} of term {event.term}{ready} ({event.cause}; leader {event.leader or 'unknown'})"
        case MembersChanged():
            return f"members since {event.since}: {say_configuration(event.configuration)}"
        case Strange():
            return f"refused a message of {event.sender}: {event.reason}"
        case StorageStalled():
            return "storage stalled"
        case DoubtEnded():
            return f"doubt ended at {event.position}, votes again"
        case QuorumRecovered():
            return f"QUORUM RECOVERED, reset {event.reset}, term {event.term}: {say_configuration(event.configuration)}"
        case _:
            return str(event)
