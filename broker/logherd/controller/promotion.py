"""Static mode: promotions by hand, compared and set, so that two hands cannot make two tables of one number.

The number of a table is the upper part of its leader's epochs: whoever is recorded after number N leads in epochs that
nobody else can have. Who may lead is for the brokers to say; see group/table.py. Source: design 5.
"""

from logherd.controller.commands import Promote
from logherd.controller.values import Roles
from logherd.controller.verdicts import Refusal, Verdict, refused

__all__ = ["promote"]

_NUMBER_MAX = (1 << 20) - 1
_BYTES_MAX = 16 * 1024


def promote(roles: Roles | None, command: Promote) -> Roles | Verdict:
    """The roles after the command, or what came of it if they do not change.

    Tables before this record, and such as were made while no controller could be asked, are not known here: an order
    that follows a later one than is recorded is taken. Each number is recorded once, and they rise.
    """
    number = command.after + 1
    if not 1 < number <= _NUMBER_MAX or len(command.table) > _BYTES_MAX:
        return refused(None, Refusal.WRONG_RULES, f"a promotion follows table 1 or a later one, not {command.after}")
    fresh = Roles(group=command.group, number=number, broker_id=command.broker_id, table=command.table)
    if roles == fresh:
        return Verdict()
    if roles is not None and roles.number >= number:
        said = f"broker {roles.broker_id} leads by table {roles.number}, the promotion was to follow {command.after}"
        return refused(None, Refusal.FENCED_EPOCH, said)
    return fresh
