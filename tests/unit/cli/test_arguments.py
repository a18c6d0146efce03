"""What is wrong with an argument is told by its name, before anything is asked for."""

import pytest

from unit.cli.terminal import Terminal

LONG = "x" * 40_000


def told(terminal: Terminal) -> str:
    """What is said in its frame, as one line."""
    return " ".join(" ".join(line.strip("│╭╮╰╯─ ") for line in terminal.said.splitlines()).split())


@pytest.mark.parametrize("seconds", ["inf", "1e308", "nan", "86401"])
@pytest.mark.parametrize("load", ["send", "pull"])
def test_a_load_that_would_never_end_is_refused(terminal: Terminal, load: str, seconds: str, nowhere: str) -> None:
    assert terminal.run("bench", load, "--seconds", seconds, "-n", nowhere) == 2
    assert "Invalid value for '--seconds'" in told(terminal)


@pytest.mark.parametrize("port", ["²", "١٢", "9" * 5000, "0", "65536", "", "-1", "+1", "1_0"])
def test_a_port_that_is_none_is_told_as_an_address(terminal: Terminal, port: str) -> None:
    assert terminal.run("topic", "list", "-n", f"127.0.0.1:{port}") == 2
    assert "Invalid value for --name-server: an address is host:port, not " in told(terminal)
    assert terminal.run("quorum", "status", "--admin", f"127.0.0.1:{port}") == 2
    assert "Invalid value for --admin: an address is host:port, not " in told(terminal)


@pytest.mark.parametrize("text", ["", " ", ";;"])
def test_no_name_server_at_all_is_told(terminal: Terminal, text: str) -> None:
    assert terminal.run("topic", "list", "-n", text) == 2
    assert "Invalid value for --name-server: name at least one name server" in told(terminal)
