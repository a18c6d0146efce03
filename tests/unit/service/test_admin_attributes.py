"""Topic attributes: what an update may add, change and remove."""

import pytest

from logherd.service.admin.attributes import TopicAttributeError, alter_attributes, parse_modifications


def test_modifications_are_read_from_text() -> None:
    assert parse_modifications("+message.type=FIFO, -reserve.time,") == {"+message.type": "FIFO", "-reserve.time": ""}
    assert parse_modifications("") == {}


@pytest.mark.parametrize("text", ["message.type=FIFO", "+message.type", "-a=b", "+a=1,+a=2"])
def test_a_malformed_text_is_refused(text: str) -> None:
    with pytest.raises(TopicAttributeError):
        parse_modifications(text)


def test_attributes_are_added_changed_and_removed() -> None:
    created = alter_attributes(None, {"+message.type": "FIFO", "+reserve.time": "1000"})
    assert created == {"message.type": "FIFO", "reserve.time": "1000"}
    assert alter_attributes(created, {"+message.type": "NORMAL"}) == {"message.type": "NORMAL", "reserve.time": "1000"}
    assert alter_attributes(created, {"-reserve.time": ""}) == {"message.type": "FIFO"}
    assert alter_attributes(created, {}) == created


@pytest.mark.parametrize(
    ("current", "modifications", "message"),
    [
        ({}, {"+colour": "red"}, "'colour' does not exist; there are queue.type"),
        (None, {"-message.type": ""}, "does not exist yet"),
        ({}, {"-message.type": ""}, "does not have it"),
        (None, {"+message.type": "LOUD"}, "right is NORMAL or FIFO"),
        (None, {"+message.type": "MIXED"}, "right is NORMAL"),
        (None, {"+queue.type": "BatchCQ"}, "right is SimpleCQ"),
        ({}, {"+queue.type": "SimpleCQ"}, "cannot be changed"),
        (None, {"+reserve.time": "-2"}, "right is -1 or a number"),
        (None, {"+reserve.time": "9" * 20}, "right is -1 or a number"),
        ({"message.type": "FIFO"}, {"+message.type": "NORMAL", "-message.type": ""}, "both added and removed"),
        (None, {"message.type": "FIFO"}, r"must begin with \+ or -"),
    ],
)
def test_a_wrong_modification_is_refused_with_what_is_right(
    current: dict[str, str] | None, modifications: dict[str, str], message: str
) -> None:
    with pytest.raises(TopicAttributeError, match=message):
        alter_attributes(current, modifications)
