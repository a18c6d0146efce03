"""A piece of cable that delays, reorders and damages what goes through it; run as a program within a namespace.

`python weather_child.py plain DEVICE 0|1` has a device send frames as they go over a wire (0): one packet each, with
whole checksums; the kernel would leave both to whoever takes them out of a memory that nobody else reads.

`python weather_child.py cable ONE OTHER LEAST MOST EVERY PORT SEED` carries frames between two devices. Each waits
LEAST to MOST seconds, drawn for itself, so that later ones overtake. Of about EVERY bytes that TCP carries from or to
PORT one bit is turned, and TCP's own checksum is made to suit; 0: none. It prints "ready", and for each line that it
reads its counts as JSON; it ends with its input.
"""

import ctypes
import fcntl
import heapq
import json
import os
import random
import socket
import struct
import sys
import time
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector

_SIOCETHTOOL = 0x8946
_SWITCHES = {"receive offload": 0x2C, "segments": 0x1F, "segments of any kind": 0x24, "checksums": 0x17}
_SOL_PACKET, _IGNORE_OUTGOING, _ALL = 263, 23, 0x0003
_IP, _TCP, _ETHERNET_SIZE = 0x0800, 6, 14
_BUFFER = 4 << 20


def plain(device: str, on: int) -> None:
    """Turn off, or on again, what makes a device's frames unlike those on a wire."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for number in _SWITCHES.values():
            value = ctypes.create_string_buffer(struct.pack("=II", number, on))
            request = struct.pack("16sP", device.encode(), ctypes.addressof(value))
            fcntl.ioctl(any_socket, _SIOCETHTOOL, request.ljust(40, b"\0"))


class _Damage:
    """Turns bits, and hides that from TCP."""

    def __init__(self, every: int, port: int, draw: random.Random) -> None:
        self._every, self._port, self._draw = every, port, draw
        self._left = draw.randrange(1, 2 * every) if every else 0
        self.flipped = 0

    def pass_by(self, frame: bytes) -> bytes:
        """The frame as it arrives."""
        if not self._every or (place := self._payload(frame)) is None:
            return frame
        tcp, start, end = place
        self._left -= end - start
        if self._left > 0:
            return frame
        self._left = self._draw.randrange(1, 2 * self._every)
        self.flipped += 1
        return self._flip(bytearray(frame), tcp, self._draw.randrange(start, end))

    def _payload(self, frame: bytes) -> tuple[int, int, int] | None:
        """Where TCP's header, and where what it carries begins and ends; None if it is none of ours, or empty."""
        if len(frame) < _ETHERNET_SIZE + 40 or int.from_bytes(frame[12:14]) != _IP or frame[23] != _TCP:
            return None
        tcp = _ETHERNET_SIZE + 4 * (frame[_ETHERNET_SIZE] & 15)
        if self._port not in struct.unpack_from(">HH", frame, tcp):
            return None
        start = tcp + 4 * (frame[tcp + 12] >> 4)
        end = _ETHERNET_SIZE + int.from_bytes(frame[16:18])
        return (tcp, start, end) if start < end <= len(frame) else None

    def _flip(self, frame: bytearray, tcp: int, at: int) -> bytes:
        """RFC 1624: a checksum follows from the one before and the word that has changed."""
        bit = 1 << self._draw.randrange(8)
        old = frame[at]
        frame[at] ^= bit
        shift = 0 if (at - tcp) % 2 else 8
        total = (
            (~int.from_bytes(frame[tcp + 16 : tcp + 18]) & 0xFFFF) + (~(old << shift) & 0xFFFF) + (frame[at] << shift)
        )
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        frame[tcp + 16 : tcp + 18] = (~total & 0xFFFF).to_bytes(2)
        return bytes(frame)


class _Cable:
    def __init__(
        self, devices: tuple[str, str], seconds: tuple[float, float], damage: _Damage, draw: random.Random
    ) -> None:
        self._ends = [_end(device) for device in devices]
        self._seconds, self._damage, self._draw = seconds, damage, draw
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self._newest = [0, 0]
        self.counts = {"carried": 0, "overtaken": 0, "dropped": 0}

    def run(self) -> None:
        """Carry until the input ends."""
        chosen = DefaultSelector()
        for number, end in enumerate(self._ends):
            chosen.register(end, EVENT_READ, number)
        chosen.register(sys.stdin.fileno(), EVENT_READ)
        print("ready", flush=True)
        taken = 0
        while True:
            wait = max(0.0, self._waiting[0][0] - time.monotonic()) if self._waiting else None
            for key, _ in chosen.select(wait):
                if key.data is not None:
                    taken = self._take(key.data, taken)
                elif not os.read(sys.stdin.fileno(), 4096):
                    return
                else:
                    print(json.dumps({**self.counts, "flipped": self._damage.flipped}), flush=True)
            self._let_go()

    def _take(self, number: int, taken: int) -> int:
        with suppress(BlockingIOError):
            for _ in range(64):
                frame = self._damage.pass_by(self._ends[number].recv(65536))
                taken += 1
                due = time.monotonic() + self._draw.uniform(*self._seconds)
                heapq.heappush(self._waiting, (due, taken, 1 - number, frame))
        return taken

    def _let_go(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            _, place, target, frame = heapq.heappop(self._waiting)
            try:
                self._ends[target].send(frame)
            except OSError:  # no room, or the device is about to go: a cable may lose
                self.counts["dropped"] += 1
                continue
            self.counts["carried"] += 1
            self.counts["overtaken"] += place < self._newest[target]
            self._newest[target] = max(place, self._newest[target])


def _end(device: str) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
    made.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
    made.bind((device, 0))
    made.settimeout(0)
    return made


def main() -> None:
    what, *rest = sys.argv[1:]
    if what == "plain":
        plain(rest[0], int(rest[1]))
        return
    one, other, least, most, every, port, seed = rest
    draw = random.Random(int(seed))
    _Cable((one, other), (float(least), float(most)), _Damage(int(every), int(port), draw), draw).run()


if __name__ == "__main__":
    main()
