"""Short words for commands, events and answers, shared by the simulator's transcripts and the scripts."""

from dataclasses import fields

from logherd.controller.commands import Command
from logherd.controller.reports import Granted, Withheld
from logherd.controller.values import BrokerId, Tenure
from logherd.controller.verdicts import Event, Verdict

__all__ = ["say_command", "say_event", "say_lease", "say_names", "say_tenure", "say_verdict"]


def say_names(ids: tuple[BrokerId, ...]) -> str:
    """A list of brokers."""
    return " ".join(f"b{each}" for each in ids) or "nobody"


def say_lease(answer: Granted | Withheld) -> str:
    """What a broker hears for a heartbeat."""
    if isinstance(answer, Granted):
        more = f", hand over to b{answer.hand_over}" if answer.hand_over is not None else ""
        return f"leads epoch {answer.view.epoch} for {answer.holder_ms} ms{more}"
    if answer.view is None:
        return f"is refused: {answer.refusal.value if answer.refusal else ''}"
    master = f"b{answer.view.master}" if answer.view.master is not None else "nobody"
    why = f" ({answer.refusal.value})" if answer.refusal is not None else ""
    return f"does not lead; {master} does in epoch {answer.view.epoch}{why}"


def say_tenure(tenure: Tenure | None) -> str:
    """The latest leadership."""
    if tenure is None:
        return "never led"
    state = "released" if tenure.released else "ended" if tenure.ended else "stands"
    return f"b{tenure.broker_id} (registration {tenure.registration}) leads since epoch {tenure.epoch}: {state}"


def say_command(command: Command) -> str:
    """The parts of a command that tell what it wants."""
    shown = {
        "expected_epoch": "after epoch {}", "broker_id": "b{}", "grounds": "because {}", "alive": "alive {}",
        "address": "at {}",
    }  # fmt: skip
    words = [type(command).__name__]
    for name, form in shown.items():
        value = getattr(command, name, None)
        if value is not None:
            text = say_names(value) if isinstance(value, tuple) else getattr(value, "value", value)
            words.append(form.format(text))
    return " ".join(words)


def say_event(event: Event) -> str:
    """What came of a command."""
    parts = []
    for each in fields(event):
        value = getattr(event, each.name)
        if each.name != "group":
            parts.append(f"{each.name} {say_names(value) if isinstance(value, tuple) else value}")
    return f"{type(event).__name__}: {', '.join(parts)}"


def say_verdict(verdict: Verdict) -> str:
    """All of a verdict in one line."""
    if verdict.refusal is not None:
        return f"refused: {verdict.refusal.value} ({verdict.detail})"
    return "; ".join(map(say_event, verdict.events)) or "done"
