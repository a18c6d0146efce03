"""The command line."""

import pytest

from logherd_guardian.options import Lent, UsageError, parse_address, parse_options


def test_the_least_command_line() -> None:
    options = parse_options(["--listen", "0.0.0.0:10911", "--", "cat", "--", "-u"])
    assert options.lent == (Lent("remoting", "0.0.0.0", 10911),)
    assert options.command == ("cat", "--", "-u")
    assert (options.controllers, options.state_file, options.waiting, options.as_json) == ((), None, None, False)
    assert (options.stop_ms, options.restart_ms_max, options.connections_max, options.linger_ms) == (
        30_000, 10_000, 256, 60_000,
    )  # fmt: skip


def test_everything_on_one_command_line() -> None:
    text = (
        "--listen remoting=:9878 --peer b:1 --listen names=[::1]:9876 --peer names=b:2 --peer remoting=c:1 "
        "--controllers a:9878,b:9878 --state-file /run/x --stop-seconds 5 --restart-ms-max 20 --connections-max 7 "
        "--linger-seconds 9 --waiting 12:3 --log-format json -- run it"
    )
    options = parse_options(text.split())
    assert options.lent == (Lent("remoting", "", 9878, ("b:1", "c:1")), Lent("names", "::1", 9876, ("b:2",)))
    assert (options.controllers, options.state_file) == (("a:9878", "b:9878"), "/run/x")
    assert (options.stop_ms, options.restart_ms_max, options.connections_max, options.linger_ms) == (
        5_000, 20, 7, 9_000,
    )  # fmt: skip
    assert (options.waiting, options.as_json) == ((12, 3), True)


def test_thousands_of_digits_are_no_port_whoever_names_them() -> None:
    """A controller may name such a leader: the resolver takes it for nobody, and knows no other error."""
    with pytest.raises(UsageError, match="HOST:PORT is expected"):
        parse_address("a:" + "9" * 5000)


@pytest.mark.parametrize("host", ["a\0b", "\ud800", "a\nb"])
def test_a_host_of_characters_that_none_can_have_is_refused_whoever_names_it(host: str) -> None:
    """The system's own functions would take some for a programmer's mistake, which ends a guardian."""
    with pytest.raises(UsageError, match="a host of characters that none can have"):
        parse_address(f"{host}:1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--listen a:1 cat", "-- and a command"),
        ("--listen a:1 --", "no command"),
        ("-- cat", "--listen is missing"),
        ("--listen -- cat", "--listen is without a value"),
        ("--listen a:1 --controllers -- cat", "--controllers is without a value"),
        ("--listen a:1 --wrong 1 -- cat", "--wrong is unknown"),
        ("--listen a:1 --stop-seconds 1 --stop-seconds 2 -- cat", "given twice"),
        ("--listen a:1 --log-format xml -- cat", "--log-format xml: text or json is expected"),
        ("--listen a:1 --listen b:2 -- cat", "give it a NAME"),
        ("--listen a -- cat", "HOST:PORT is expected"),
        ("--listen a:70000 -- cat", "HOST:PORT is expected"),
        ("--listen a:²3 -- cat", "HOST:PORT is expected"),
        ("--listen ::1:5 -- cat", r"stands in \[ \]"),
        ("--listen [::1:5 -- cat", r"stands in \[ \]"),
        ("--listen ::1]:5 -- cat", r"stands in \[ \]"),
        ("--listen x,y=a:5 -- cat", "a NAME has letters"),
        ("--listen a:1 --peer names=b:2 -- cat", "there is no listener names"),
        ("--listen a:1 --peer b -- cat", "HOST:PORT is expected"),
        ("--listen a:1 --controllers b,c:1 -- cat", "HOST:PORT is expected"),
        ("--listen a:1 --stop-seconds -1 -- cat", "a number from 0"),
        ("--listen a:1 --waiting 5 -- cat", "PID:FD is expected"),
        ("--listen a:1 --stop-seconds 99999999 -- cat", "a number from 0"),
        (f"--listen a:1 --stop-seconds {'9' * 5000} -- cat", "a number from 0"),
        (f"--listen a:1 --waiting 5:{'9' * 5000} -- cat", "PID:FD is expected"),
    ],
)
def test_a_wrong_command_line_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_options(text.split())


def test_addresses() -> None:
    assert parse_address("host:1") == ("host", 1)
    assert parse_address("[fe80::1]:0") == ("fe80::1", 0)
    assert parse_address(":80") == ("", 80)
    assert parse_address("host:65535") == ("host", 65535)
    with pytest.raises(UsageError, match="HOST:PORT is expected"):
        parse_address("host:65536")
