"""What a client makes of a name service that knows less for a while than it did."""

import pytest

from logherd_spark.bounds import queues_of
from logherd_spark.cluster import Cluster, QueueRef, Route
from logherd_spark.errors import TopicMissing
from logherd_spark.patience import Patience

QUEUES = (QueueRef("Events", "a", 0), QueueRef("Events", "a", 1))
ROUTE = Route(QUEUES, QUEUES, {"a": ("host:1",)})


class Forgetful(Cluster):
    """A name service that gives these answers, the last one for ever; None: it knows no such topic."""

    def __init__(self, *answers: Route | None) -> None:
        super().__init__(("names:9876",), Patience(1.0, 0.0))
        self.answers = list(answers)

    def _ask_route(self, topic: str) -> Route:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise TopicMissing(f"topic {topic} does not exist: names:9876 does not know it")
        return answer


def test_a_topic_that_the_name_service_forgets_is_looked_for_where_it_was() -> None:
    """As while all brokers of its group start again, or a name server of RocketMQ does: a stream must outlive that."""
    cluster = Forgetful(ROUTE, None)
    assert queues_of(cluster, ["Events"], fresh=True) == list(QUEUES)
    assert queues_of(cluster, ["Events"], fresh=True) == list(QUEUES)


def test_a_topic_that_was_never_there_is_told_at_once() -> None:
    with pytest.raises(TopicMissing, match="topic Events does not exist"):
        queues_of(Forgetful(None), ["Events"], fresh=True)
