"""Ids for messages without one: RocketMQ's layout, never twice."""

from datetime import UTC, datetime

from logherd.model.host import encode_host
from logherd.service.send import UniqueKeys
from unit.service.client_fakes import FakeClock


def keys(clock: FakeClock, host: str = "10.1.2.3") -> UniqueKeys:
    return UniqueKeys(clock, host=encode_host(host, 1), process=0x1234, start=0xAABBCCDD)


def test_an_id_holds_address_process_start_time_and_counter() -> None:
    clock = FakeClock(wall=int(datetime(2026, 5, 1, 0, 0, 1, tzinfo=UTC).timestamp() * 1000))
    assert keys(clock).next() == "0A0102031234AABBCCDD000003E80001"
    assert len(keys(clock, "fd00::1").next()) == 56


def test_no_id_comes_twice_within_a_millisecond_or_when_the_clock_goes_back() -> None:
    clock = FakeClock()
    source = keys(clock)
    found = [source.next() for _ in range(70_000)]
    clock.wall -= 5_000
    found += [source.next() for _ in range(70_000)]
    assert len(set(found)) == len(found)
