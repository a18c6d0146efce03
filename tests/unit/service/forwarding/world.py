"""A world around one forwarder: clients, leaders with clocks of their own, links that lose what is on them.

Everything is decided by one random source, so a seed repeats a run. The world plays the shell and the leaders by their
contracts and writes down what really happened; `judge` compares that with what the clients heard.
"""

from collections import Counter, deque
from random import Random

from logherd.service.forwarding.admission import check_forwarded
from logherd.service.forwarding.effects import Answer, CloseLink, Effect, Execute, Follow, Relay, Transmit
from logherd.service.forwarding.errand import Errand, outgoing
from logherd.service.forwarding.forwarder import Forwarder, ForwarderLimits
from logherd.service.forwarding.roles import Following, Leading, Nobody, Role
from logherd.wire.codes import RequestCode, ResponseCode
from logherd.wire.frame import Flag, Frame
from logherd.wire.headers import decode_header, encode_header
from logherd.wire.headers.forwarding import ForwardedHeader
from unit.service.client_fakes import FakeSession

SEND, PULL, COMMIT = int(RequestCode.SEND_MESSAGE), int(RequestCode.PULL_MESSAGE), RequestCode.UPDATE_CONSUMER_OFFSET
READ = int(RequestCode.GET_MAX_OFFSET)
HELD_MAX_MS = 2_500
TICK_MS = 20
LIMITS = ForwarderLimits(
    held_max=40,
    held_bytes_max=60_000,
    caller_bytes_max=30_000,
    away_bytes_max=12_000,
    pull_bytes_max=6 * 1024,
    settle_ms=300,
)


class Leader:
    """One broker in one epoch: what it carried out, in order, and whether it believes that it leads."""

    def __init__(self, epoch: int, clock_ahead_ms: int) -> None:
        self.epoch = epoch
        self.clock_ahead_ms = clock_ahead_ms
        self.log: list[tuple[int, bytes]] = []
        self.role: Role = Leading(epoch)


class Link:
    """Requests on their way, those that the leader has read and keeps, and answers on their way back."""

    def __init__(self, number: int, leader: Leader) -> None:
        self.number = number
        self.leader = leader
        self.requests: deque[tuple[Errand, Frame]] = deque()
        self.written = 0
        self.parked: list[Errand] = []
        self.answers: deque[tuple[Errand, Frame]] = deque()


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = 1_000_000
        self.forwarder = Forwarder(LIMITS)
        self.leaders: list[Leader] = []
        self.links: dict[int, Link] = {}
        self.goal: Following | None = None
        self.leads_here = False
        self.sessions = [FakeSession(id=number) for number in range(4)]
        self.asked: dict[bytes, tuple[FakeSession, Frame, int]] = {}
        self.heard: dict[bytes, int] = {}
        self.transmitted: Counter[bytes] = Counter()
        self.here = Leader(0, 0)
        self._last = 0

    # ---- one step of the world

    def step(self) -> None:
        actions = (
            (self.ask, 30), (self.write, 20), (self.serve, 25), (self.hear, 25), (self.wake_pull, 5), (self.connect, 8),
            (self.pass_time, 10), (self.lose_link, 2), (self.new_leader, 2), (self.depose, 1), (self.tell, 3),
            (self.leave, 1), (self.lead_here, 1),
        )  # fmt: skip
        action = self.random.choices([each for each, _ in actions], [weight for _, weight in actions])[0]
        action()
        self.check_bounds()

    def ask(self) -> None:
        session = self.random.choice(self.sessions)
        self._last += 1
        body = b"%08d" % self._last + b"x" * self.random.choice((0, 0, 100, 3_000))
        code = self.random.choices((SEND, PULL, COMMIT, READ), (7, 2, 2, 2))[0]
        ext = {"sysFlag": "3", "suspendTimeoutMillis": "5000"} if code == PULL else {}
        oneway = code not in (PULL, READ) and self.random.random() < 0.2
        frame = Frame(code, self._last, ext=ext, body=body, flag=Flag.ONEWAY if oneway else 0)
        self.asked[body] = (session, frame, self.now_ms)
        self.carry_out(self.forwarder.take(session, frame, now_ms=self.now_ms), fresh=body)

    def write(self) -> None:
        """Bytes of some requests go out."""
        for link in self.links.values():
            link.written = self.random.randint(link.written, len(link.requests))

    def serve(self) -> None:
        link = self._some_link()
        for _ in range(self.random.randint(1, 4)):
            if link is None or not link.requests or not link.written:
                return
            errand, frame = link.requests.popleft()
            link.written -= 1
            self._serve(link, errand, frame)

    def _serve(self, link: Link, errand: Errand, frame: Frame) -> None:
        leader = link.leader
        marks = decode_header(ForwardedHeader, frame.ext)
        refusal = check_forwarded(marks, leader.role, now_ms=self.now_ms + leader.clock_ahead_ms)
        if refusal is not None:
            assert refusal.header is not None
            ext = refusal.header if isinstance(refusal.header, dict) else encode_header(refusal.header)
            self._answer(link, errand, Frame(int(refusal.code), 0, flag=Flag.RESPONSE, ext=ext))
        elif frame.code == PULL:
            link.parked.append(errand)
        else:
            assert self.now_ms < self.asked[frame.body][2] + HELD_MAX_MS, "its time was over"
            if frame.code != READ:
                leader.log.append((errand.caller.session.id, frame.body))
            self._answer(link, errand, Frame(0, 0, flag=Flag.RESPONSE))

    @staticmethod
    def _answer(link: Link, errand: Errand, answer: Frame) -> None:
        if errand.frame.code != COMMIT or not errand.oneway:
            link.answers.append((errand, answer))

    def wake_pull(self) -> None:
        link = self._some_link()
        if link is not None and link.parked:
            self._answer(link, link.parked.pop(), Frame(0, 0, flag=Flag.RESPONSE))

    def hear(self) -> None:
        link = self._some_link()
        if link is not None and link.answers:
            errand, answer = link.answers.popleft()
            self.carry_out(self.forwarder.answered(link.number, errand.number, answer, now_ms=self.now_ms))

    def connect(self) -> None:
        goal = self.goal
        leader = next((each for each in self.leaders if goal is not None and each.epoch == goal.epoch), None)
        if goal is None or leader is None or not isinstance(leader.role, Leading):
            return
        self._last += 1
        link = self.links[self._last] = Link(self._last, leader)
        self.goal = None
        # A reading is always at or below the truth.
        ahead = leader.clock_ahead_ms - self.random.choice((0, 1, 30))
        effects = self.forwarder.linked(link.number, epoch=leader.epoch, ahead_ms=ahead, now_ms=self.now_ms)
        self.carry_out(effects)

    def pass_time(self) -> None:
        for _ in range(self.random.choice((1, 1, 1, 10, 40))):
            self.now_ms += TICK_MS
            due = self.forwarder.due_ms()
            if due is not None and due <= self.now_ms:
                self.carry_out(self.forwarder.tick(now_ms=self.now_ms))

    def lose_link(self) -> None:
        link = self._some_link()
        if link is not None:
            self._end(link)
            wanted = self.forwarder.wanted
            if wanted is not None and wanted.epoch == link.leader.epoch:
                self.goal = wanted

    def _end(self, link: Link) -> None:
        del self.links[link.number]
        self.forwarder.lost(link.number)
        unwritten = list(link.requests)[link.written :]
        # What was written and not served may still be carried out, and nobody will hear of it.
        for errand, frame in list(link.requests)[: link.written]:
            if self.random.random() < 0.5:
                self._serve(Link(0, link.leader), errand, frame)
        lost = {errand.number: errand for errand, _ in (*link.requests, *link.answers)}
        lost.update((errand.number, errand) for errand in link.parked)
        never = {errand.number for errand, _ in unwritten}
        for number in sorted(lost):
            self.carry_out(self.forwarder.unanswered(
                link.number, number, written=number not in never, why="lost", now_ms=self.now_ms
            ))  # fmt: skip

    # ---- leadership

    def new_leader(self) -> None:
        """Somebody leads in a higher epoch; the ones before hear of it at once or later, and we do."""
        epoch = len(self.leaders) + 1
        leader = Leader(epoch, self.random.choice((-500_000, 0, 7, 900_000)))
        for old in self.leaders:
            if self.random.random() < 0.7:
                old.role = Following(f"broker:{epoch}", epoch)
        self.leaders.append(leader)
        if self.random.random() < 0.6:
            self.tell()

    def tell(self) -> None:
        if self.leaders:
            epoch = self.leaders[-1].epoch
            self.leads_here = False
            self.carry_out(self.forwarder.follow(Following(f"broker:{epoch}", epoch), now_ms=self.now_ms))

    def depose(self) -> None:
        self.leads_here, self.goal = False, None
        self.forwarder.wait()
        if self.leaders:
            self.leaders[-1].role = Nobody()

    def lead_here(self) -> None:
        for old in self.leaders:
            if self.random.random() < 0.7:
                old.role = Nobody()
        self.here = Leader(len(self.leaders) + 1, 0)
        self.leaders.append(self.here)
        self.leads_here, self.goal = True, None
        self.carry_out(self.forwarder.lead(self.here.epoch, now_ms=self.now_ms))

    def leave(self) -> None:
        place = self.random.randrange(len(self.sessions))
        self.sessions[place].closed = True
        self.forwarder.closed(self.sessions[place].id)
        self._last += 1
        self.sessions[place] = FakeSession(id=1000 + self._last)

    # ---- effects

    def carry_out(self, effects: list[Effect], *, fresh: bytes | None = None) -> None:
        for effect in effects:
            if isinstance(effect, Transmit):
                self._transmit(effect, fresh)
            elif isinstance(effect, Execute):
                assert self.leads_here
                if effect.errand.frame.code not in (PULL, READ):
                    self.here.log.append((effect.errand.caller.session.id, effect.errand.frame.body))
                self._tell(effect.errand, 0)
            elif isinstance(effect, Relay):
                assert effect.answer.code != ResponseCode.FORWARDING_REFUSED
                self._tell(effect.errand, effect.answer.code)
            elif isinstance(effect, Answer):
                self._tell(effect.errand, effect.reply.code)
            elif isinstance(effect, Follow):
                self.goal = None if effect.have in self.links else Following(effect.address, effect.epoch)
            elif isinstance(effect, CloseLink) and effect.link in self.links:
                self._end(self.links[effect.link])

    def _transmit(self, effect: Transmit, fresh: bytes | None) -> None:
        errand = effect.errand
        body = errand.frame.body
        self.transmitted[body] += 1
        if errand.frame.code == COMMIT:
            assert body == fresh, "a commit goes out when it comes in or never"
        frame = outgoing(errand, epoch=effect.epoch, deadline_ms=effect.deadline_ms, now_ms=self.now_ms)
        if errand.frame.code == PULL and body != fresh:
            assert not int(frame.ext["sysFlag"]) & 1, "a delayed pull commits nothing"
        self.links[effect.link].requests.append((errand, frame))

    def _tell(self, errand: Errand, code: int) -> None:
        body = errand.frame.body
        assert body not in self.heard, "one answer"
        _, frame, asked_ms = self.asked[body]
        self.heard[body] = code
        if code == ResponseCode.SERVICE_NOT_AVAILABLE and frame.code == SEND:
            assert self.now_ms - asked_ms <= HELD_MAX_MS + LIMITS.settle_ms + TICK_MS or body in self.transmitted

    def _some_link(self) -> Link | None:
        return self.random.choice(list(self.links.values())) if self.links else None

    # ---- what must hold

    def check_bounds(self) -> None:
        forwarder = self.forwarder
        # What comes back from a leader is taken in any case.
        assert forwarder.held <= LIMITS.held_max + LIMITS.away_bytes_max // 1024 + LIMITS.pull_bytes_max // 1024
        for caller in forwarder._callers.values():
            numbers = [errand.number for errand in caller.waiting]
            assert numbers == sorted(numbers)
            assert caller.bytes_waiting == sum(errand.size for errand in caller.waiting)
        held = [errand for caller in forwarder._callers.values() for errand in caller.waiting]
        assert forwarder.held == len(held)
        assert forwarder.held_bytes == sum(errand.size for errand in held)

    def end(self) -> None:
        """Let everything come to its end: links go, nobody leads, time passes."""
        self.depose()
        for link in list(self.links.values()):
            self._end(link)
        for _ in range(400):
            self.now_ms += TICK_MS
            self.carry_out(self.forwarder.tick(now_ms=self.now_ms))
        assert self.forwarder.idle
        assert self.forwarder.due_ms() is None

    def judge(self) -> None:
        stored = Counter(body for leader in self.leaders for _, body in leader.log)
        for body, (session, frame, _) in self.asked.items():
            code = self.heard.get(body)
            if code is None:
                assert session.closed or frame.flag & Flag.ONEWAY, body
            elif code == 0:
                assert stored[body] == (frame.code not in (PULL, READ)), body
            elif code in (ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL):
                assert not stored[body], body
            else:
                assert code == ResponseCode.SYSTEM_ERROR
                assert frame.code != READ, "what changes nothing is asked again"
            assert stored[body] <= 1, (body, "carried out twice")
        for session_id in {session.id for session, _, _ in self.asked.values()}:
            order = [body for leader in self.leaders for caller, body in leader.log if caller == session_id]
            assert order == sorted(order), session_id
