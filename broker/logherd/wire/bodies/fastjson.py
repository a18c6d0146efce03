"""Strict JSON from what Java's fastjson writes, in one pass and bounded.

fastjson leaves map keys bare: numbers, and whole objects where a Java map has object keys. Members that are null are
dropped, because Java treats them as absent. Whether the result is JSON is for the strict decoder behind it to say; here
only the places of keys are found. A key that is an object becomes a string that holds its JSON text.

    {"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:5},"x":null}
    {"offsetTable":{"{\\"brokerName\\":\\"b\\",\\"queueId\\":1,\\"topic\\":\\"T\\"}":5}}

Bounds: tokens, because each costs time; depth; and no object key inside an object key, because each level would double
the escapes.
"""

import re

import msgspec

from logherd.wire.errors import BodyError, shorten

__all__ = ["DEPTH_MAX", "TOKENS_MAX", "normalise"]

TOKENS_MAX = 65_536
DEPTH_MAX = 64
_TOKEN = re.compile(rb'[ \t\r\n]*(?:("[^"\\]*(?:\\.[^"\\]*)*")|([{}\[\]:,])|([-+.0-9A-Za-z]+))', re.DOTALL)
_encode = msgspec.json.Encoder().encode


class _Container:
    """An object or array that is open. `member_start` is where the current member began in the output."""

    __slots__ = ("at_key", "is_object", "key_start", "member_start", "members")

    def __init__(self, *, is_object: bool, key_start: int | None) -> None:
        self.is_object = is_object
        self.at_key = is_object
        self.key_start = key_start
        self.member_start = 0
        self.members = 0


class _Normaliser:
    def __init__(self) -> None:
        self.out = bytearray()
        self.open: list[_Container] = []
        self.in_key = False

    def begin_value(self) -> None:
        """Before a key or a value: count it, and separate it from the one before."""
        if self.open and self.open[-1].is_object and self.open[-1].at_key:
            container = self.open[-1]
            container.member_start = len(self.out)
            if container.members:
                self.out += b","
            container.members += 1

    def scalar(self, token: bytes, *, text: bool) -> None:
        container = self.open[-1] if self.open else None
        at_key = container is not None and container.at_key
        self.begin_value()
        if at_key:
            self.out += token if text else b'"' + token + b'"'
        elif container is not None and container.is_object and token == b"null":
            del self.out[container.member_start :]
            container.members -= 1
        else:
            self.out += token

    def start(self, token: bytes) -> None:
        if len(self.open) >= DEPTH_MAX:
            raise BodyError(f"the body is nested deeper than {DEPTH_MAX}")
        is_key = bool(self.open) and self.open[-1].at_key
        if is_key and (self.in_key or token != b"{"):
            raise BodyError("a key of the body is neither text, number nor flat object")
        self.begin_value()
        self.in_key = self.in_key or is_key
        self.open.append(_Container(is_object=token == b"{", key_start=len(self.out) if is_key else None))
        self.out += token

    def end(self, token: bytes) -> None:
        if not self.open:
            raise BodyError(f"the body closes {token.decode()} that is not open")
        container = self.open.pop()
        self.out += token
        if container.key_start is not None:
            text = bytes(self.out[container.key_start :]).decode()
            self.out[container.key_start :] = _encode(text)
            self.in_key = False

    def punctuation(self, token: bytes) -> None:
        container = self.open[-1] if self.open else None
        if container is None or (token == b":") != (container.is_object and container.at_key):
            raise BodyError(f"the body has {token.decode()} in a wrong place")
        if token == b":":
            container.at_key = False
            self.out += b":"
        elif container.is_object:
            container.at_key = True
        else:
            self.out += b","


def normalise(body: bytes | memoryview, tokens_max: int = TOKENS_MAX) -> bytes:
    """The same JSON with text keys and without null members.

    Raises: BodyError if the body has more than `tokens_max` tokens, is nested too deep or cannot be cut into tokens.
    """
    state = _Normaliser()
    at, end, tokens = 0, len(body), 0
    while at < end:
        match = _TOKEN.match(body, at)
        if match is None:
            if bytes(body[at:]).strip(b" \t\r\n"):
                raise BodyError(f"the body is not JSON at byte {at}: {shorten(bytes(body[at : at + 65]))}")
            break
        at = match.end()
        tokens += 1
        if tokens > tokens_max:
            raise BodyError(f"the body is not strict JSON and has more than {tokens_max} tokens")
        text, mark, scalar = match.groups()
        if mark is None:
            state.scalar(text or scalar, text=text is not None)
        elif mark in b"{[":
            state.start(mark)
        elif mark in b"}]":
            state.end(mark)
        else:
            state.punctuation(mark)
    return bytes(state.out)
