"""Whose fault a time-out is, by the client's own log."""

from checkers.client_log import stranded_requests

ENDED = (
    "2026-11-24 08:08:44 INFO NettyClientWorkerThread_2 - NETTY CLIENT PIPELINE: channelInactive, the channel"
    "[addr=10.99.0.4:10911, id=25f0881b]"
)
TIMED_OUT = (
    "2026-11-24 08:08:47 WARN steady-0 - invokeSync: close socket because of timeout, 3000ms, channel"
    "[addr=10.99.0.4:10911, id={}]"
)


def test_a_request_that_waits_on_an_ended_connection_is_the_clients_own_fault() -> None:
    assert stranded_requests("\n".join([ENDED, TIMED_OUT.format("25f0881b"), TIMED_OUT.format("25f0881b")])) == 2


def test_a_request_that_waits_on_a_living_connection_is_not() -> None:
    assert stranded_requests("\n".join([ENDED, TIMED_OUT.format("6d75c74d")])) == 0


def test_a_connection_that_ends_after_the_time_out_excuses_nothing() -> None:
    assert stranded_requests("\n".join([TIMED_OUT.format("25f0881b"), ENDED])) == 0
