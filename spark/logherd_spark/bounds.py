"""From where to where: what the options say about beginnings and ends, looked up at the queues' leaders."""

from collections.abc import Iterable, Mapping

from logherd_spark.calls import max_offset, min_offset, offset_at
from logherd_spark.cluster import Cluster, QueueRef
from logherd_spark.errors import DataLost, OptionRefused
from logherd_spark.options import EARLIEST, LATEST, Bound
from logherd_spark.ranges import Offsets, Range

__all__ = ["begin_of_new", "latest", "queues_of", "ranges_between", "refuse_wrong_order", "resolve"]


def queues_of(cluster: Cluster, topics: Iterable[str], *, fresh: bool = False) -> list[QueueRef]:
    """All queues to read. Raises: TopicMissing, Unanswered, BrokerRefused."""
    return [queue for topic in topics for queue in cluster.route(topic, fresh=fresh).readable]


def latest(cluster: Cluster, queues: Iterable[QueueRef]) -> Offsets:
    """Where each queue ends now. Raises as `Cluster.ask`."""
    return {queue: max_offset(cluster, queue) for queue in queues}


def begin_of_new(cluster: Cluster, queue: QueueRef, *, fail_on_data_loss: bool) -> int:
    """Where a queue begins that a stream has not seen before: at 0, so that it is told if something of it is gone
    already; as in the Kafka source. Where that is no matter, at what is kept."""
    return 0 if fail_on_data_loss else min_offset(cluster, queue)


def resolve(cluster: Cluster, queues: list[QueueRef], bound: Bound, option: str) -> Offsets:
    """The queue offset for each queue that a bound means.

    Raises: OptionRefused if the bound names queues that are not there, or leaves some out; others as `Cluster.ask`.
    """
    numbers = _given(queues, bound, option)
    return {queue: _offset(cluster, queue, bound.kind, number) for queue, number in numbers.items()}


def refuse_wrong_order(queues: list[QueueRef], start: Bound, end: Bound) -> None:
    """Raises: OptionRefused if reading would end before it begins in a queue, whatever that holds: two times, or two
    offsets, the later one first. Also as `resolve`."""
    if start.kind != end.kind:
        return
    first, last = _given(queues, start, "startingOffsets"), _given(queues, end, "endingOffsets")
    for queue in queues:
        if 0 <= last[queue] < first[queue]:  # the earliest and the latest are below 0
            begins, ends = _name(start, "startingOffsets"), _name(end, "endingOffsets")
            where = "" if start.queues is end.queues is None else f" for {queue}"
            raise OptionRefused(
                f"option {begins} has {first[queue]}{where}, option {ends} has {last[queue]}: reading would end before "
                "it begins"
            )


def _name(bound: Bound, option: str) -> str:
    """Of the option that has given a bound; `option`: what it is for offsets."""
    if bound.kind == "offset":
        return option
    return f"{option}ByTimestamp" if bound.queues is not None else option.replace("Offsets", "Timestamp")


def _given(queues: list[QueueRef], bound: Bound, option: str) -> dict[QueueRef, int]:
    if bound.queues is not None:
        return _per_queue(queues, bound.queues, _name(bound, option))
    return dict.fromkeys(queues, bound.everywhere if bound.everywhere is not None else EARLIEST)


def _per_queue(
    queues: list[QueueRef], given: Mapping[str, Mapping[str, int]], option: str
) -> dict[QueueRef, int]:  # fmt: skip
    left = {(topic, name): number for topic, of_topic in given.items() for name, number in of_topic.items()}
    alone = {queue.topic: len({each.group for each in queues if each.topic == queue.topic}) == 1 for queue in queues}
    found: dict[QueueRef, int] = {}
    for queue in queues:
        names = [f"{queue.group}:{queue.queue_id}"] + ([str(queue.queue_id)] if alone[queue.topic] else [])
        number = next((left.pop((queue.topic, name)) for name in names if (queue.topic, name) in left), None)
        if number is None:
            raise OptionRefused(f"option {option} says nothing about {queue}; it must name every queue")
        found[queue] = number
    if left:
        names_left = ", ".join(f"{name} of topic {topic}" for topic, name in sorted(left))
        raise OptionRefused(f"option {option} names queues that are not there: {names_left}")
    return found


def _offset(cluster: Cluster, queue: QueueRef, kind: str, number: int) -> int:
    if kind == "time":
        return offset_at(cluster, queue, number)
    if number == EARLIEST:
        return min_offset(cluster, queue)
    if number == LATEST:
        return max_offset(cluster, queue)
    return number


def ranges_between(
    cluster: Cluster, start: Mapping[QueueRef, int], end: Mapping[QueueRef, int], *, fail_on_data_loss: bool
) -> list[Range]:
    """What lies between, checked against what is there. A queue without a start is a new one: all of it is meant.

    Raises: DataLost if something of it is gone, or a queue ends before it, unless that is allowed: then what is there.
    """
    found: list[Range] = []
    for queue, last in end.items():
        first = start.get(queue)
        if first is None:
            first = begin_of_new(cluster, queue, fail_on_data_loss=fail_on_data_loss)
        if first == last:
            continue
        kept, present = min_offset(cluster, queue), max_offset(cluster, queue)
        wrong = ""
        if first < kept:
            wrong = f"offsets {first} to {min(kept, last) - 1} are gone, the first that is kept is {kept}"
        elif first > present:
            wrong = f"reading would begin at offset {first}, the queue ends at {present}"
        elif first > last:
            wrong = f"reading would begin at offset {first} and end before {last}"
        elif last > present:
            wrong = f"offsets {first} to {last - 1} were asked for, the queue ends at {present}"
        if wrong and fail_on_data_loss:
            raise DataLost(f"{queue}: {wrong}; to go on with what is there: option failOnDataLoss=false")
        found.append(Range(queue, max(first, kept), min(last, present)))
    return [each for each in found if each.length > 0]
