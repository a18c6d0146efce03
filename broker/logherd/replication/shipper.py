"""The leader's side of shipping: one Sender for each follower, heartbeats apart from data, nobody waits for another.

The owner (Raft, or the broker's master role) decides what `commit` is and what an acknowledged position means; this
machine only moves bytes and reports how far they are flushed where.
"""

from logherd.kit.errors import ensure
from logherd.model.names import Position
from logherd.replication.epochs import NOWHERE
from logherd.replication.log import ReplicaLog, Span, UnreadableError
from logherd.replication.messages import (
    Append,
    AppendAck,
    AppendReject,
    CopyAck,
    CopyChunk,
    Heartbeat,
    HeartbeatAck,
    ReplicaId,
)
from logherd.replication.rounds import Rounds
from logherd.replication.sender import Mark, Mode, Room, Sender, ShipOptions
from logherd.replication.shipping import (
    Beat,
    Committed,
    Connected,
    FollowersSet,
    FromFollower,
    Grown,
    LostData,
    MutedSet,
    RefusedAck,
    ShipInput,
    ShipOutput,
    ShipperTick,
)
from logherd.replication.window import TokenBucket, Window

__all__ = ["Shipper"]


class Shipper:
    """One leadership's shipping; a new epoch starts a new one. `now` is monotonic milliseconds."""

    def __init__(self, log: ReplicaLog, options: ShipOptions, *, commit: Position, now: int) -> None:
        self._log = log
        self._options = options
        self._commit = commit
        self._senders: dict[ReplicaId, Sender] = {}
        self._retired = 0
        self._beat_at = now
        self._muted = False
        self._bucket = TokenBucket(options.catch_up_bytes_per_second, options.window_bytes)
        self._granted = log.end
        self.rounds = Rounds()

    def retime(self, options: ShipOptions) -> None:
        """Other times from now on; windows that are open keep their size."""
        self._options = options

    def sender(self, peer: ReplicaId) -> Sender | None:
        """What is known of a follower; to be read, not changed."""
        return self._senders.get(peer)

    def match(self, peer: ReplicaId) -> Position:
        """How far `peer` has flushed what it shares with this log."""
        sender = self._senders.get(peer)
        return sender.match if sender is not None else NOWHERE

    def caught_up(self, peer: ReplicaId) -> bool:
        """Whether it has flushed, by its answer to the newest round, all that was here when that round began."""
        sender = self._senders.get(peer)
        if sender is None or sender.mode is not Mode.REPLICATE or not sender.mark.round:
            return False  # of who has just come no round has begun
        return self.rounds.round_of(peer) >= sender.mark.round and sender.match >= sender.mark.end

    def step(self, event: ShipInput, now: int) -> ShipOutput:
        """Take one input; the order of the messages in the output is the order in which they must leave."""
        out = ShipOutput()
        match event:
            case FromFollower():
                self._on_answer(event, now, out)
            case Grown():
                self._pump_all(now, out)
            case ShipperTick():
                self._on_tick(now, out)
            case Committed():
                self._commit = event.position
            case Beat():
                self._beat(now, out)
            case FollowersSet():
                self._on_followers(event, now, out)
            case Connected():
                self._on_connected(event, now, out)
            case MutedSet():
                self._muted = event.muted
        return out

    def _on_followers(self, event: FollowersSet, now: int, out: ShipOutput) -> None:
        for peer in [peer for peer in self._senders if peer not in event.peers]:
            # The highest of all: names come and go as long as it leads, and who comes back has seen no higher one.
            self._retired = max(self._retired, self._senders.pop(peer).generation)
            self.rounds.forget(peer)
        for peer in event.peers:
            if peer not in self._senders:
                window = Window(self._options.window_messages, self._options.window_bytes)
                self._senders[peer] = Sender(peer, window, self._log.end, generation=self._retired + 1)
        self._pump_all(now, out)

    def _on_connected(self, event: Connected, now: int, out: ShipOutput) -> None:
        sender = self._senders.get(event.peer)
        if sender is not None:
            sender.failures = 0
            sender.become_probe(sender.match if sender.match > 0 else self._log.end)
            self._pump(sender, now, out)

    def _on_tick(self, now: int, out: ShipOutput) -> None:
        self._bucket.fill(now)
        end = self._log.end
        # Without what is new those behind would never catch up with a log that grows faster than their allowance.
        self._bucket.grant((end - self._granted) * sum(sender.behind for sender in self._senders.values()))
        self._granted = end
        if now >= self._beat_at:
            self._beat(now, out)
        # Who has most comes first. Those behind share what they may take in a second, and whoever came first would else
        # have all of it for as long as it catches up, while another, which lacks one record, gets nothing.
        for sender in sorted(self._senders.values(), key=_flushed, reverse=True):
            if sender.retry_at is not None and now >= sender.retry_at:
                self._on_silence(sender)
            self._pump(sender, now, out)

    def _on_silence(self, sender: Sender) -> None:
        """An answer is overdue: ask again, from what is certain."""
        sender.failures += 1
        sender.retry_at = None
        if sender.copy is not None:
            sender.copy.asked = False
        elif sender.mode is Mode.REPLICATE:
            sender.become_probe(sender.match)

    def _beat(self, now: int, out: ShipOutput) -> None:
        if self._muted:
            return
        number = self.rounds.begin(now)
        self._beat_at = now + self._options.heartbeat_ms
        for sender in self._senders.values():
            if self.rounds.round_of(sender.peer) >= sender.mark.round:
                # Judged once a round at or after it is answered, so a mark stays until then.
                sender.mark = Mark(number, self._log.end, sender.match)
            out.messages.append((sender.peer, Heartbeat(number, self._commit)))

    def _on_answer(self, event: FromFollower, now: int, out: ShipOutput) -> None:
        sender = self._senders.get(event.peer)
        if sender is None:
            return
        match event.body:
            case AppendAck():
                self._on_ack(sender, event.body, out)
            case AppendReject():
                self._on_reject(sender, event.body)
            case HeartbeatAck():
                self._on_beat_answer(sender, event.body, out)
            case CopyAck():
                self._on_copy_ack(sender, event.body)
        self._pump(sender, now, out)

    def _on_ack(self, sender: Sender, ack: AppendAck, out: ShipOutput) -> None:
        if ack.verified > self._log.end or ack.durable > ack.verified:
            out.events.append(RefusedAck(sender.peer, max(ack.verified, ack.durable), self._log.end))
            return
        if sender.confirm(ack.durable):
            out.moved = True
            sender.retry_at = None
        if ack.generation != sender.generation:
            return
        if sender.mode is Mode.PROBE and ack.verified >= sender.next:
            sender.become_replicate(ack.verified)
        elif sender.copy is not None and sender.match >= sender.copy.image.point.position:
            sender.become_replicate(sender.match)
        elif sender.mode is Mode.REPLICATE:
            sender.next = max(sender.next, ack.verified)

    def _on_reject(self, sender: Sender, reject: AppendReject) -> None:
        """Honoured only for the question that is out now, and never below what is confirmed."""
        if reject.generation != sender.generation or reject.asked <= sender.match or sender.mode is Mode.COPY:
            return
        if sender.mode is Mode.PROBE and reject.asked != sender.next:
            return
        agreed = self._log.epochs.agreed(reject.hint, self._log.end)
        if agreed is None:
            self._start_copy(sender)
            return
        if agreed.position >= reject.asked:
            return  # A hint that does not lead down is not believed; the question is asked again later.
        sender.failures = 0
        sender.become_probe(agreed.position)

    def _on_beat_answer(self, sender: Sender, ack: HeartbeatAck, out: ShipOutput) -> None:
        if not self.rounds.answer(sender.peer, ack.round):
            return
        out.moved = True
        sender.room = Room.NONE if ack.busy else Room.SHORT if ack.short else Room.ENOUGH
        if ack.round == sender.mark.round and ack.end < sender.mark.match:
            out.events.append(LostData(sender.peer, sender.match, ack.end))
            # Not the base either: what the follower has left may end below it, and then only an image helps.
            sender.match = NOWHERE
            sender.become_probe(ack.end)

    def _on_copy_ack(self, sender: Sender, ack: CopyAck) -> None:
        copy = sender.copy
        if copy is None or ack.generation != sender.generation or ack.image != copy.image.identity:
            return
        if ack.offset > copy.confirmed:
            sender.failures = 0
            sender.retry_at = None
        if not copy.asked or ack.offset < copy.confirmed:
            copy.sent = ack.offset
        copy.confirmed = min(ack.offset, copy.image.size)
        copy.sent = max(copy.sent, copy.confirmed)
        copy.asked = True

    def _start_copy(self, sender: Sender) -> None:
        image = self._log.image()
        ensure(image is not None, "what was dropped from the log is in an image", self._log.epochs.base)
        if image is not None:
            sender.become_copy(image)

    def _pump_all(self, now: int, out: ShipOutput) -> None:
        for sender in self._senders.values():
            self._pump(sender, now, out)

    def _pump(self, sender: Sender, now: int, out: ShipOutput) -> None:
        """Send what this follower may get now."""
        if sender.room is Room.NONE:
            return
        # Who has everything lacks nothing that was dropped: most of the time the base need not be looked for.
        end = self._log.end
        lacks = sender.next < end and sender.mode is not Mode.COPY
        if lacks and sender.next < self._log.epochs.base.position:
            self._start_copy(sender)
        if sender.mode is Mode.PROBE:
            self._pump_probe(sender, now, out)
        elif sender.mode is Mode.REPLICATE:
            self._pump_records(sender, end, now, out)
        else:
            self._pump_copy(sender, now, out)

    def _pump_probe(self, sender: Sender, now: int, out: ShipOutput) -> None:
        if sender.retry_at is not None:
            return
        previous = self._log.epochs.point_at(sender.next)
        question = Append(sender.generation, Span(previous, previous.position, (), b""), self._commit)
        out.messages.append((sender.peer, question))
        sender.asked(now, self._options)

    def _pump_records(self, sender: Sender, end: Position, now: int, out: ShipOutput) -> None:
        while sender.next < end and (room := sender.window.room) > 0:
            if sender.behind and not self._bucket.open:
                break
            under_way = sender.window.messages
            if under_way >= self._options.small_ahead and end - sender.next < self._options.small_bytes:
                break
            try:
                span = self._log.read(sender.next, min(self._options.message_bytes_max, room))
            except UnreadableError:  # this follower gets no further here; it falls behind until another one leads
                break
            if under_way and len(span.data) > room:
                break
            sender.window.add(span.end, len(span.data))
            sender.next = span.end
            if sender.behind:
                self._bucket.take(len(span.data))
            out.messages.append((sender.peer, Append(sender.generation, span, self._commit)))
        if sender.next == end:
            sender.behind = False
        if sender.match < sender.next and sender.retry_at is None:
            sender.asked(now, self._options)

    def _pump_copy(self, sender: Sender, now: int, out: ShipOutput) -> None:
        copy = sender.copy
        if copy is None:
            return
        if not copy.asked:
            if sender.retry_at is None:
                out.messages.append((sender.peer, CopyChunk(sender.generation, copy.image, 0, b"")))
                sender.asked(now, self._options)
            return
        ahead = self._options.chunk_bytes * self._options.chunks_ahead
        while copy.sent < copy.image.size and copy.sent < copy.confirmed + ahead and self._bucket.open:
            data = self._log.image_chunk(copy.image, copy.sent, self._options.chunk_bytes)
            if data is None:
                sender.become_probe(self._log.epochs.base.position)
                self._start_copy(sender)
                return
            out.messages.append((sender.peer, CopyChunk(sender.generation, copy.image, copy.sent, data)))
            copy.sent += len(data)
            self._bucket.take(len(data))
        if sender.retry_at is None:
            sender.asked(now, self._options)


def _flushed(sender: Sender) -> Position:
    return sender.match
