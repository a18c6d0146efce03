"""Topics know what they allow."""

import pytest

from logherd.model.topic import Permission, TopicConfig


@pytest.mark.parametrize(
    ("permission", "readable", "writable"),
    [(0, False, False), (1, False, False), (2, False, True), (4, True, False), (6, True, True), (7, True, True)],
)
def test_permission_bits(permission: int, readable: bool, writable: bool) -> None:
    topic = TopicConfig("T", permission=permission)
    assert (topic.readable, topic.writable) == (readable, writable)
    assert Permission.READ_WRITE == Permission.READ | Permission.WRITE


@pytest.mark.parametrize(("read", "write", "queues"), [(4, 8, 8), (8, 4, 8), (0, 0, 0)])
def test_queues_that_are_only_read_or_only_written_count(read: int, write: int, queues: int) -> None:
    assert TopicConfig("T", read_queues=read, write_queues=write).queues == queues


def test_attributes_of_two_topics_are_apart_and_cannot_be_changed() -> None:
    topic = TopicConfig("T")
    with pytest.raises(TypeError):
        topic.attributes["k"] = "v"  # type: ignore[index]
