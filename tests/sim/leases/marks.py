"""Rare states that the seeds are meant to reach; a generator that stops reaching one has become blind to it."""

from collections import Counter

from logherd.controller.verdicts import Refusal

__all__ = ["MARKS", "Marks"]

MARKS = {
    # R1, R2: leases.
    "lease-waited-out": "R2: a master was elected after the lease of the one before had been waited out",
    "released": "R2: a master was elected at once, because the lease before it had been given back",
    "paused-past-lease": "R1: a paused master slept longer than its lease",
    "woke-deposed": "R1: a paused master woke up when another had been elected",
    "slow-master": "R1: a master with the slowest clock was succeeded by a controller with the fastest one",
    "read-unconfirmed": "R1: a quorum did not confirm, so no lease was given",
    "beat-twice": "R1: a heartbeat arrived twice",
    "beat-late": "R1: a heartbeat arrived after a later one",
    "withheld-electing": "R1: a lease was withheld because an election was under way",
    "old-grant": "R1: a lease was granted that was over when it arrived",
    "half-heard": "R1: a master was cut off from some controllers only",
    # R3, R4, R13: processes and epochs.
    "beat-refused: another process of this broker": "R3: a heartbeat of a former process was refused",
    "beat-refused: no such broker in the group": "R3: a forgotten broker's heartbeat was refused",
    "bounced": "R13: a master's process was replaced before its lease was over",
    "twins": "R4: two processes of one broker lived at once",
    "twin-registered": "R11: a second store took over a broker's id",
    "id-taken": "R11: a second store was refused, because the first one reported",
    # R9: the in-sync set.
    "shrunk": "R9: a member left the set",
    "grown": "R9: a member joined the set",
    "shrunk-while-pending": "R9: the set shrank while records were not committed",
    "below-minimum": "R10: the set fell below its minimum, and who left stayed eligible",
    "elected-eligible": "R10: a master was elected from outside the set, from those who left it below the minimum",
    "alter-refused: another version of the in-sync set": "R9: a proposal came after another change of the set",
    "alter-refused: not the master of this group": "R9: a deposed master's proposal was refused",
    "alter-refused: another epoch": "R9: a proposal of an earlier epoch was refused",
    "alter-refused: another process of this broker": "R9, R11: a member had been restarted since it acknowledged",
    "alter-withdrawn": "R9: a master withdrew its earlier proposals by a new version of the same set",
    "not-counted": "R6: a process acknowledged that is not the member of its id any more",
    "alter-repeated": "R9: a proposal was decided twice and done once",
    # R10, R12: elections.
    "doubted": "R11: all who had everything went down unflushed, and the longest of their logs leads",
    "unclean": "R10: an operator accepted loss",
    "first-by-operator": "R12: fewer than configured founded a group",
    "longest-of-many": "R10: the longest log was elected, not the first that reported",
    "elect-refused: another epoch": "R18: two elections were proposed from one state",
    "elect-refused: another process of this broker": "R18: the winner was restarted before its election",
    "no-space-passed-over": "H4: a member that said its disk was full was not elected",
    "led-without-space": "H4: nobody who could lead had space, and one of them was elected",
    "order-stale": "R10: an operator's order for another epoch was refused",
    "order-early": "R2: an operator's order was refused, because a lease might run",
    # Transfers.
    "transfer-planned": "R10: a transfer was planned",
    "transfer-done": "R10: a transfer ended in its target",
    "transfer-cancelled": "R10: a transfer was given up",
    "transfer-preferred": "R10: the preferred broker was given the leadership by itself",
    # Releases.
    "guardian-release": "H14: a guardian's report ended a leadership",
    "release-late": "H14: a guardian's report came when the leadership was over",
    "release-stale": "H14: a report about a former process was refused",
    "resigned": "R2: a master gave its lease back",
    "resigned-sick": "R21: a master with a broken store resigned",
    "release-made-up": "R19: the controllers released a lease for a master that had said it in a heartbeat only",
    "resigned-refused": "R2: a resigned master asked for another lease",
    # Membership.
    "learner": "a learner registered",
    "promoted": "a learner was promoted and joined the set",
    "demoted": "a member was demoted",
    "demote-refused": "a member could not be spared",
    "forgotten": "R20: a broker was forgotten",
    "forget-refused": "R20: a broker that may hold what others do not was not forgotten",
    "dissolved": "R20: a group was forgotten, and kept its epoch",
    "lost-store": "R11: a member came back without what it had acknowledged",
    "at-risk": "R11: nobody was left who could lead without loss",
    "moved": "R19: a running broker had another address",
    # Controllers.
    "leader-lost-electing": "R18: the controllers' leader changed while an election was proposed",
    "leader-lost-altering": "R18: the controllers' leader changed while a change of the set was proposed",
    "leader-lost-transferring": "R18: a controller began to lead during a transfer",
    "image-installed": "R18: a controller took over an image of another",
    "image-in-pieces": "a controller got more than one piece of an image",
    "blackout": "R18: all controllers were down at once",
    "controller-full": "R18: a controllers' leader had a full disk",
    "two-offices": "R1: two controllers held themselves for the leader",
    "restored": "R20: all controllers went on from an older state, and had lost what they decided since",
    "outrun": "R20: a broker showed that they had, and the longest log was elected of enough",
    "outrun-unknown": "R20: nobody could show it, and somebody was elected who may lack something",
    "unreached": "R19: a controllers' leader gave way, because no broker reached it",
    "tuned": "options of the controllers were changed",
    "tune-refused": "a wrong option was refused",
    "rules-changed": "R6: the minimum of a group was changed",
}


class Marks:
    """Counts what one run has reached."""

    def __init__(self) -> None:
        self.hits: Counter[str] = Counter()

    def hit(self, name: str) -> None:
        """Note a rare state. Raises: KeyError if nobody has said what the name means."""
        self.hits[name] += 1
        MARKS[name]

    def hit_if(self, name: str, reached: object) -> None:
        """Note it if so."""
        if reached:
            self.hit(name)

    def hit_refusal(self, kind: str, refusal: Refusal) -> None:
        """Note the refusals that have a meaning here."""
        name = f"{kind}-refused: {refusal.value}"
        self.hit_if(name, name in MARKS)
