"""A stage for transcripts of the controllers' decisions: one leading controller, one group `bg`, one clock.

A script is lines `> command` with the output below each; blank lines and `#` comments stay. Commands:

    office [gather=ms prefer=ms bootstrap=ms transfer=ms]   another leader: it knows only what is replicated
    register b1 [store=s life=n end=e/p seen=e of=n unclean learner]   a process of the broker registers
    beat b1 ... [end=e/p committed=e/p full sick at=host resigned=e number=n process=n]    heartbeats, and answers
    wait ms b1 ... [the same words]                         time passes; these heartbeat every 500 ms, quietly
    alter b1: b1 b2 [epoch=e version=n committed=e/p end=e/p min=n request=r process=n]    the master proposes a set
    exit b1 [life=n] / resign b1 [life=n]                   its guardian reports its exit / it lets go by itself
    elect b2 [unclean]  demote/promote b2  configure [min=n of=n prefer=b2]  forget [b2]     an operator's orders
    get TARGET / post TARGET [field=value ...]              a call of the admin port
    elsewhere get TARGET / elsewhere post TARGET ...        the same at a controller that does not lead
    again                                                   the last command of the log is applied again
    view                                                    what masters are told of the in-sync set
    named                                                   the master to whom clients are sent
    group                                                   the replicated state
"""

from collections.abc import Callable
from typing import Any

from logherd.controller.admission import ElectionRequest, admit_clean, admit_election
from logherd.controller.commands import Clean, Command, Configure, SetLearner, decode_command
from logherd.controller.office import view_of
from logherd.controller.settings import OfficeOptions
from logherd.controller.values import BrokerId
from logherd.controller.verdicts import Refusal, Verdict
from logherd.replication.epochs import Point
from sim.leases.words import say_command, say_event, say_lease, say_names, say_tenure
from unit.controller.desk import KEY, Desk, point
from unit.service.controllers.caller import HttpCaller

__all__ = ["Stage", "play"]

_OPTIONS = {"gather": "gather_ms", "prefer": "prefer_after_ms", "bootstrap": "bootstrap_ms", "transfer": "transfer_ms"}


class _ShownDesk(Desk):
    """A desk that tells what each command came to."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        super().__init__()

    def submit(self, command: Command) -> Verdict:
        verdict = super().submit(command)
        self.show(verdict)
        return verdict

    def submit_proposed(self, command: Command) -> Verdict:
        self.say(f"{self.now} ms: the office proposes {say_command(command)}")
        verdict = super().submit_proposed(command)
        self.show(verdict)
        return verdict

    def show(self, verdict: Verdict) -> None:
        if verdict.refusal is not None:
            self.say(f"refused: {verdict.refusal.value} ({verdict.detail})")
        for event in verdict.events:
            self.say(say_event(event))


class Stage:
    """Runs the commands of one script."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.desk = _ShownDesk(self.lines.append)
        self.http = HttpCaller(self.desk)

    def run(self, command: str) -> list[str]:
        """Carry out one command; what it showed."""
        self.lines.clear()
        word, *rest = command.split()
        target = next((each for each in rest if each.startswith("/")), None)
        if target is not None:  # a query has "=" too
            rest.remove(target)
        pairs = dict(each.split("=") for each in rest if "=" in each)
        method: Callable[..., None] = getattr(self, "do_" + word)
        words = [each for each in rest if "=" not in each]
        method([*words, target] if target is not None else words, pairs)
        return list(self.lines)

    def do_office(self, words: list[str], pairs: dict[str, str]) -> None:
        self.desk.options = OfficeOptions(**{_OPTIONS[name]: int(value) for name, value in pairs.items()})
        self.desk.reopen()

    def do_register(self, words: list[str], pairs: dict[str, str]) -> None:
        broker = _broker(words[0])
        self.desk.register(
            broker, store=pairs.get("store", ""), life=int(pairs.get("life", 1)), end=_point(pairs.get("end")),
            seen=int(pairs.get("seen", 0)), replicas=int(pairs.get("of", 3)), trusted="unclean" not in words,
            learner="learner" in words, committed=self.desk.office.committed(KEY),
        )  # fmt: skip

    def do_beat(self, words: list[str], pairs: dict[str, str]) -> None:
        for broker in _brokers(words):
            self.lines.append(f"b{broker} {say_lease(self.desk.beat(broker, **_said(words, pairs)))}")

    def do_wait(self, words: list[str], pairs: dict[str, str]) -> None:
        self.desk.wait(int(words[0]), *_brokers(words[1:]), **_said(words, pairs))

    def do_alter(self, words: list[str], pairs: dict[str, str]) -> None:
        epoch, version = pairs.get("epoch"), pairs.get("version")
        self.desk.alter(
            _broker(words[0].rstrip(":")), *_brokers(words[1:]), epoch=int(epoch) if epoch else None,
            version=int(version) if version else None, committed=_point(pairs.get("committed")),
            end=_point(pairs.get("end")), minimum=int(pairs.get("min", 2)), request=pairs.get("request", ""),
            registrations={each: int(pairs["process"]) for each in _brokers(words[1:])} if "process" in pairs else None,
        )  # fmt: skip

    def do_exit(self, words: list[str], pairs: dict[str, str]) -> None:
        self.desk.release(_broker(words[0]), life=int(pairs.get("life", 1)), exited=True)

    def do_resign(self, words: list[str], pairs: dict[str, str]) -> None:
        self.desk.release(_broker(words[0]), life=int(pairs.get("life", 1)), exited=False)

    def do_elect(self, words: list[str], pairs: dict[str, str]) -> None:
        wanted = ElectionRequest(group=KEY, target=BrokerId(_broker(words[0])), unclean="unclean" in words)
        self._admitted(admit_election(self.desk.office, wanted, self.desk.now))

    def do_demote(self, words: list[str], pairs: dict[str, str]) -> None:
        self._set_learner(words[0], learner=True)

    def do_promote(self, words: list[str], pairs: dict[str, str]) -> None:
        self._set_learner(words[0], learner=False)

    def _set_learner(self, name: str, *, learner: bool) -> None:
        epoch = self.desk.group.epoch
        self.desk.submit(
            SetLearner(group=KEY, expected_epoch=epoch, broker_id=BrokerId(_broker(name)), learner=learner)
        )

    def do_configure(self, words: list[str], pairs: dict[str, str]) -> None:
        rules = self.desk.group.rules
        self.desk.submit(
            Configure(
                group=KEY, replicas=int(pairs.get("of", rules.replicas)), min_in_sync=int(pairs.get("min", 2)),
                preferred=BrokerId(_broker(pairs["prefer"])) if "prefer" in pairs else None,
            )
        )  # fmt: skip

    def do_forget(self, words: list[str], pairs: dict[str, str]) -> None:
        ids = tuple(BrokerId(broker) for broker in _brokers(words))
        command = Clean(group=KEY, expected_epoch=self.desk.group.epoch, broker_ids=ids)
        self._admitted(admit_clean(self.desk.office, command, self.desk.now, living="living" in words))

    def _admitted(self, command: Command | Refusal) -> None:
        if isinstance(command, Refusal):
            self.lines.append(f"not admitted: {command.value}")
        else:
            self.lines.append(f"proposed: {say_command(command)}")
            self.desk.submit(command)

    def do_get(self, words: list[str], pairs: dict[str, str]) -> None:
        self._show(*self.http.call("GET", words[0]))

    def do_post(self, words: list[str], pairs: dict[str, str]) -> None:
        fields = ",".join(f'"{name}":{value}' for name, value in pairs.items())
        self._show(*self.http.call("POST", words[0], f"{{{fields}}}".encode()))

    def do_elsewhere(self, words: list[str], pairs: dict[str, str]) -> None:
        self.http.leads = False
        (self.do_get if words[0] == "get" else self.do_post)(words[1:], pairs)
        self.http.leads = True

    def _show(self, status: int, page: dict[str, Any]) -> None:
        if "error" in page:
            more = [f"{name} {value}" for name, value in page.items() if name not in ("error", "reason", "pages")]
            self.lines.append(f"{status} {page['reason']}: {page['error']}")
            self.lines.extend(more)
            return
        group = page.get("group", page)
        self.lines.append(f"{status}" + (f", changed {page['changed']}".lower() if "changed" in page else ""))
        if "why" in group:
            leader = f"b{group['leader']['brokerId']}" if group["leader"] is not None else "nobody"
            self.lines.append(f"epoch {group['epoch']}, led by {leader}; confirmed {group['confirmed']}".lower())
            self.lines.append(group["why"])

    def do_again(self, words: list[str], pairs: dict[str, str]) -> None:
        before = self.desk.machine.save()
        self.desk.submit(decode_command(self.desk.log[-1]))
        self.lines.append("nothing changed" if self.desk.machine.save() == before else "the state changed")

    def do_named(self, words: list[str], pairs: dict[str, str]) -> None:
        master = self.desk.office.serving(self.desk.group, self.desk.now)
        self.lines.append(f"b{master.broker_id} at {master.address}" if master is not None else "nobody")

    def do_view(self, words: list[str], pairs: dict[str, str]) -> None:
        view = view_of(self.desk.group)
        members = ", ".join(
            f"b{each} by process {process}" for each, process in zip(view.members, view.processes, strict=True)
        )
        self.lines.append(f"version {view.version}, at least {view.min_in_sync} in sync: {members}")

    def do_group(self, words: list[str], pairs: dict[str, str]) -> None:
        group = self.desk.group
        self.lines.append(f"epoch {group.epoch}, {say_tenure(group.tenure)}")
        sync = group.sync
        self.lines.append(
            f"in sync {say_names(sync.members)}, eligible {say_names(sync.eligible)}, version {sync.version}, "
            f"committed at least {sync.committed.epoch}/{sync.committed.position}"
        )
        for each in group.replicas:
            notes = [word for word, on in (("learner", each.learner), ("exited", each.exited)) if on]
            self.lines.append(f"b{each.broker_id} registration {each.registration} {' '.join(notes)}".rstrip())


def _broker(name: str) -> int:
    return int(name.removeprefix("b"))


def _brokers(words: list[str]) -> list[int]:
    return [_broker(word) for word in words if word[0] == "b" and word[1:].isdigit()]


def _point(text: str | None) -> Point:
    epoch, _, position = (text or "0/0").partition("/")
    return point(int(epoch), int(position))


def _said(words: list[str], pairs: dict[str, str]) -> dict[str, object]:
    numbers = {"number": "number", "resigned": "resigned", "process": "registration"}
    return {
        **{name: int(pairs[word]) for word, name in numbers.items() if word in pairs},
        **({"address": pairs["at"]} if "at" in pairs else {}),
        "end": _point(pairs.get("end")), "committed": _point(pairs.get("committed")),
        "space": not {"full", "filled"} & {*words}, "barrier": "filled" not in words, "healthy": "sick" not in words,
    }  # fmt: skip


def play(text: str) -> str:
    """The script as it comes out now."""
    stage = Stage()
    result: list[str] = []
    for line in text.splitlines():
        if line.startswith("> "):
            result.append(line)
            result.extend("    " + shown for shown in stage.run(line[2:]))
        elif line.startswith("#") or not line.strip():
            result.append(line)
    return "\n".join(result) + "\n"
