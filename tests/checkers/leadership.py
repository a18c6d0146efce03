"""Who led when, from everything that anybody saw: one leader for each term, and one lease holder at each moment."""

from collections.abc import Iterable
from dataclasses import dataclass

from checkers.log_checks import Verdict, Violation

__all__ = ["Lease", "Sighting", "check_leases", "check_terms", "percentile"]


@dataclass(frozen=True, slots=True, order=True)
class Sighting:
    """Somebody saw, or said, that `leader` leads in `term`. `where` says who."""

    term: int
    leader: str
    where: str


@dataclass(frozen=True, slots=True, order=True)
class Lease:
    """A process was told that it may lead until `until`, counted by its own clock from when it asked. Nanoseconds."""

    group: str
    began: int
    until: int
    holder: str
    epoch: int


def check_terms(sightings: Iterable[Sighting], *, terms_min: int = 1) -> Verdict:
    """One leader for each term, whoever looked. Fewer than `terms_min` different terms make the run void."""
    first: dict[int, Sighting] = {}
    violations: dict[tuple[int, str], Violation] = {}
    count = 0
    for seen in sightings:
        count += 1
        known = first.setdefault(seen.term, seen)
        if known.leader != seen.leader:
            text = f"term {seen.term} has {known.leader} ({known.where}) and {seen.leader} ({seen.where})"
            violations.setdefault((seen.term, seen.leader), Violation("C1", text))
    if violations:
        return Verdict("invalid", tuple(violations.values()), checked=count)
    if len(first) < terms_min:
        return Verdict("void", reason=f"{len(first)} terms were seen, at least {terms_min} are needed", checked=count)
    return Verdict("valid", checked=count)


def check_leases(leases: Iterable[Lease], *, leases_min: int = 1) -> Verdict:
    """No two processes of a group hold a lease at the same moment, and later holders have later epochs."""
    listed = sorted(leases)
    violations = []
    open_leases: dict[str, Lease] = {}
    for lease in listed:
        last = open_leases.get(lease.group)
        if last is not None and (last.holder, last.epoch) != (lease.holder, lease.epoch):
            if lease.began < last.until:
                over = (last.until - lease.began) / 1e6
                violations.append(Violation("R2", f"{lease} begins {over:.1f} ms before {last} is over"))
            if lease.epoch <= last.epoch:
                violations.append(Violation("R2", f"{lease} follows {last} and has no later epoch"))
        if last is None or lease.until > last.until or lease.epoch > last.epoch:
            open_leases[lease.group] = lease
    if violations:
        return Verdict("invalid", tuple(violations), checked=len(listed))
    if len(listed) < leases_min:
        return Verdict("void", reason=f"{len(listed)} leases, at least {leases_min} are needed", checked=len(listed))
    return Verdict("valid", checked=len(listed))


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("a distribution of nothing has no percentile")
    place = max(0, -(-len(ordered) * share // 1) - 1)
    return ordered[int(place)]
