"""When a consumer's offset is believed (rule H11), for commits of their own and for those that ride on a pull."""

from logherd.service.clients.registry import ClientRegistry
from logherd.service.errors import RequestError
from logherd.service.metadata import Metadata
from logherd.service.ports import Session
from logherd.store import MessageStore
from logherd.wire.codes import ResponseCode

__all__ = ["OffsetRules"]


class OffsetRules:
    """Accepts or refuses offsets; the accepted ones are pending in the metadata until the end of the pass.

    1. No offset lies beyond what consumers can have seen, the committed end of the queue.
    2. A smaller offset comes from the newest session of its client, or one that it uses beside that, or as a reset.
    3. While a reset waits to be heard by the consumer, commits are dropped: they count from where it was before.
    """

    def __init__(self, store: MessageStore, metadata: Metadata, registry: ClientRegistry) -> None:
        self._store = store
        self._metadata = metadata
        self._registry = registry

    def commit(self, group: str, topic: str, queue_id: int, *, offset: int, session: Session) -> None:
        """Take an offset, or drop it while a reset is pending.

        Raises: RequestError 29 for an offset outside the queue, 604 for a smaller one from an old session.
        """
        queue = self._store.find_queue(topic, queue_id)
        end = queue.max_offset if queue is not None else 0
        if not 0 <= offset <= end:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"commitOffset is {offset}, queue {queue_id} of topic {topic} ends at {end}",
            )
        offsets = self._metadata.offsets
        known = offsets.get(group, topic, queue_id)
        if known is not None and offset < known and self._registry.is_superseded(session.id):
            raise RequestError(
                ResponseCode.ILLEGAL_OPERATION,
                f"commitOffset is {offset}, below {known}, and this client has a newer connection",
            )
        offsets.commit(group, topic, queue_id, offset)
        self._registry.committed_over(session.id)
