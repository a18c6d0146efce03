"""Properties at the edge: what the broker adds, what it takes away, and what it refuses to store.

The text of an ordinary message passes a few substring tests and gets one suffix; only a text in which one of the names
occurs at all is taken apart.
"""

from collections.abc import Callable

from logherd.model.properties import PROPERTIES_BYTES_MAX, Name, format_properties, parse_properties
from logherd.model.record import CHECKSUM_SIZE
from logherd.service.errors import RequestError
from logherd.wire.codes import ResponseCode

__all__ = ["STORED_BYTES_MAX", "Stamper", "refuse_features"]

STORED_BYTES_MAX = PROPERTIES_BYTES_MAX - CHECKSUM_SIZE
_UNIQUE = f"{Name.UNIQ_KEY}\x01"
_UNIQUE_LENGTH = len(_UNIQUE)
_ENDING_LENGTH_MAX = 256
_ENDINGS_MAX = 256
_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"

_TIMERS = (Name.TIMER_DELAY_SEC, Name.TIMER_DELAY_MS, Name.TIMER_DELIVER_MS)
_TIMER_DELETE = "TIMER_DEL_UNIQKEY"


class Stamper:
    """Turns the properties that a client sent into those that are stored. `new_key` makes an id where there is none."""

    def __init__(self, *, cluster: str, region: str, trace_on: bool, new_key: Callable[[], str]) -> None:
        self._new_key = new_key
        self._stamps = {
            Name.MSG_REGION: region, Name.TRACE_ON: "true" if trace_on else "false", Name.CLUSTER: cluster,
        }  # fmt: skip
        self._suffix = format_properties(self._stamps)
        self._endings: dict[str, tuple[bytes, bool]] = {}

    def stamp(self, text: str) -> tuple[bytes, bytes, bool]:
        """Check and complete one message's properties: as they are stored, the UNIQ_KEY in them, and whether it is
        sure that neither TAGS nor KEYS are among them.

        Raises: RequestError 13 if they do not fit a record or are not encodable; 3 for a feature that is not there.
        """
        # A client's messages differ up to the key and are the same behind it; most begin with the key.
        pair, mark, rest = text.partition("\x02")
        if not pair.startswith(_UNIQUE):
            at = text.find("\x02" + _UNIQUE) + 1
            if not at or _asks(text[:at]):
                return self._stamp_any(text)
            pair, mark, rest = text[at:].partition("\x02")
            before = text[:at]
        else:
            before = ""
        ending = self._endings.get(rest) if mark else None
        if ending is None or len(pair) == _UNIQUE_LENGTH:
            return self._stamp_any(text)
        stored, plain = ending
        if len(before) + len(pair) + len(stored) > STORED_BYTES_MAX or not (pair.isascii() and before.isascii()):
            return self._stamp_any(text)
        encoded = pair.encode()
        if before:
            return before.encode() + encoded + stored, encoded[_UNIQUE_LENGTH:], False
        return encoded + stored, encoded[_UNIQUE_LENGTH:], plain

    def _stamp_any(self, text: str) -> tuple[bytes, bytes, bool]:
        if _asks(text):
            text = self._rewrite(text)
        at = text.find(_UNIQUE)
        if at > 0:
            # The value of another property may end in the name; a name stands at the start or after a pair's end.
            at = at if text[at - 1] == "\x02" else text.find("\x02" + _UNIQUE) + 1 or -1
        if at >= 0:
            start = at + _UNIQUE_LENGTH
            end = text.find("\x02", start)
            key = text[start:end] if end >= 0 else text[start:]
            if not key:  # empty pairs are dropped, and another pair of the name may stand behind
                return self._stamp_any(self._rewrite(text))
            if end >= 0:
                self._remember(text[end:])
        else:
            key = ""
        if not key:
            key = self._new_key()
            separator = "" if not text or text[-1] == "\x02" else "\x02"
            text = f"{text}{separator}{Name.UNIQ_KEY}\x01{key}\x02"
        return self._encode(text), key.encode(), False

    def complete(self, text: str) -> bytes:
        """As `stamp`, of a message that needs no UNIQ_KEY: the properties as they are stored."""
        return self._encode(self._rewrite(text) if _asks(text) else text)

    def _encode(self, text: str) -> bytes:
        if text and text[-1] != "\x02":
            text += "\x02"
        try:
            encoded = (text + self._suffix).encode()
        except UnicodeEncodeError as error:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL, f"properties cannot be written as UTF-8: {error.reason}"
            ) from error
        if len(encoded) > STORED_BYTES_MAX:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"properties take {len(encoded)} bytes with those the broker adds, "
                f"at most {STORED_BYTES_MAX} are stored",
            )
        return encoded

    def _remember(self, ending: str) -> None:
        """Keep how this ending, which asks for nothing, is stored."""
        if len(ending) <= _ENDING_LENGTH_MAX and ending.isascii() and not _asks(ending):
            if len(self._endings) >= _ENDINGS_MAX:
                self._endings.clear()
            separator = "" if ending[-1] == "\x02" else "\x02"
            plain = "TAGS" not in ending and "KEYS" not in ending
            self._endings[ending[1:]] = (ending + separator + self._suffix).encode(), plain

    def _rewrite(self, text: str) -> str:
        properties = parse_properties(text)
        refuse_features(properties)
        for name in (Name.POP_CK, Name.CRC32, *self._stamps):
            properties.pop(name, None)
        return format_properties(properties)


def _asks(text: str) -> bool:
    """Whether a name may occur in it that the broker refuses, removes or sets itself."""
    return (
        "DELAY" in text or "TIMER_" in text or "TRAN_MSG" in text or "INNER_" in text or "POP_CK" in text
        or "MSG_REGION" in text or "TRACE_ON" in text or "CLUSTER" in text or "__CRC32#" in text
    )  # fmt: skip


def refuse_features(properties: dict[str, str]) -> None:
    """Raise RequestError 3 naming the feature that these properties ask for and that would silently be lost; 13 if a
    delay level is not a number. A level of 0 or less asks for nothing."""
    delay = properties.get(Name.DELAY)
    if delay is not None:
        try:
            level = int(delay)
        except ValueError as error:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL, f"property {Name.DELAY} is {delay[:32]!a}, it must be a number"
            ) from error
        if level > 0:
            _refuse(Name.DELAY, delay, "delayed delivery")
    for name in _TIMERS:
        if name in properties:
            _refuse(name, properties[name], "timed delivery")
    if _TIMER_DELETE in properties:
        _refuse(_TIMER_DELETE, properties[_TIMER_DELETE], "recall of timed messages")
    if properties.get(Name.TRANSACTION_PREPARED, "").lower() == "true":
        _refuse(Name.TRANSACTION_PREPARED, "true", "transactions")
    if Name.INNER_NUM in properties:
        _refuse(Name.INNER_NUM, properties[Name.INNER_NUM], "inner batches")
    if _MULTI_DISPATCH in properties:
        _refuse(_MULTI_DISPATCH, properties[_MULTI_DISPATCH], "light queues (LMQ)")


def _refuse(name: str, value: str, feature: str) -> None:
    raise RequestError(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        f"property {name} is {value[:32]!a}: {feature} is not supported, the message was not stored",
    )
