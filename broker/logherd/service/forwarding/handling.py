"""How each request of a client is treated on its way to the leader: one row for each code that goes there.

What a stock client makes of an answer decides (the sheet, sections 2.1 and 7.4): how long it waits itself, and which
code lets it try again without harm.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from logherd.service.routing import ROUTES, Where
from logherd.wire.codes import RequestCode

__all__ = ["HANDLING", "HOLD_MS", "Handling", "Kind"]

HOLD_MS: Final = 2_500
"""Below the 3 s after which a stock producer gives up, so that its retry finds time."""

_LOCK_HOLD_MS: Final = 800
"""Stock clients wait 1 s for a lock."""

_PLACE_HOLD_MS: Final = 4_500
"""Stock clients wait 5 s to hear where their group stands, and before 5.0 of Java, in C++ and in Node take any error
for "nowhere": they begin at the queue's end then and commit that. An election takes three to four seconds."""

_ANSWER_MS: Final = 30_000
_SLACK_MS: Final = 15_000


class Kind(Enum):
    """What a request is, as far as forwarding has to know."""

    CHANGE = "change"
    """May append. Everything that is not one of the others counts as this."""
    READ = "read"
    """Changes nothing wherever it is carried out, so that another leader may be asked as well."""
    PULL = "pull"
    """Waits at the leader for as long as it says itself."""
    COMMIT = "commit"
    """A consumer's offset: never held and never repeated (H11)."""
    RELAYED = "relayed"
    """Its answer comes from another client."""


class Handling(NamedTuple):
    """`hold_ms`: how long after its arrival it may be begun; a pull may be for as long as it says itself.

    `ordered`: whether what follows on the same connection must find it done. `answer_ms`: when the broker stops
    waiting for the leader's answer; for a pull added to its own waiting.
    """

    kind: Kind
    hold_ms: int = HOLD_MS
    ordered: bool = True
    answer_ms: int = _ANSWER_MS


_PULLS = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
_READS = (
    RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID, RequestCode.QUERY_CONSUME_QUEUE,
    RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, RequestCode.GET_MAX_OFFSET,
    RequestCode.GET_MIN_OFFSET, RequestCode.GET_EARLIEST_MSG_STORETIME, RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.QUERY_CORRECTION_OFFSET, RequestCode.GET_TOPIC_CONFIG, RequestCode.GET_ALL_TOPIC_CONFIG,
    RequestCode.GET_TOPIC_STATS_INFO, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    RequestCode.GET_CONSUMER_CONNECTION_LIST, RequestCode.GET_PRODUCER_CONNECTION_LIST,
    RequestCode.GET_ALL_PRODUCER_INFO, RequestCode.GET_CONSUME_STATS, RequestCode.GET_BROKER_CONSUME_STATS,
    RequestCode.QUERY_CONSUME_TIME_SPAN, RequestCode.QUERY_TOPICS_BY_CONSUMER,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, RequestCode.GET_ALL_DELAY_OFFSET,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
)  # fmt: skip
_LOCKS = (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ)
_RELAYED = (
    RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
)  # fmt: skip


def _table() -> dict[int, Handling]:
    sent_on = (code for code, route in ROUTES.items() if route.where in (Where.FORWARD, Where.BOTH))
    table = dict.fromkeys(sent_on, Handling(Kind.CHANGE))
    table.update(dict.fromkeys(map(int, _READS), Handling(Kind.READ)))
    table[int(RequestCode.QUERY_CONSUMER_OFFSET)] = Handling(Kind.READ, hold_ms=_PLACE_HOLD_MS)
    table.update(dict.fromkeys(map(int, _PULLS), Handling(Kind.PULL, ordered=False, answer_ms=_SLACK_MS)))
    table.update(dict.fromkeys(map(int, _LOCKS), Handling(Kind.CHANGE, hold_ms=_LOCK_HOLD_MS)))
    table.update(dict.fromkeys(map(int, _RELAYED), Handling(Kind.RELAYED, ordered=False)))
    table[int(RequestCode.UPDATE_CONSUMER_OFFSET)] = Handling(Kind.COMMIT)
    return table


HANDLING: Mapping[int, Handling] = MappingProxyType(_table())
"""Every code whose route is FORWARD or BOTH, and no other."""
