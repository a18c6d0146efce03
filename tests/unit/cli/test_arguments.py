"""What is wrong with an argument is told by its name, before anything is asked for."""

import pytest
import typer

from logherd.cli.bench import bench
from logherd.cli.groups import groups
from logherd.cli.quorum import quorum
from logherd.cli.replicas import replica
from logherd.cli.stores import store
from logherd.cli.topics import topic
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


@pytest.mark.parametrize(
    "command", [("topic", "create"), ("topic", "delete"), ("topic", "show"), ("receive",), ("send",)], ids=" ".join
)
def test_a_topic_whose_name_is_too_long_is_told_before_anybody_is_asked(
    terminal: Terminal, command: tuple[str, ...], nowhere: str
) -> None:
    rest = ("body",) if command == ("send",) else ()
    for name, said in (
        (LONG, "the topic's name has 40000 characters, at most 127 are allowed"),
        ("x" * 128, "the topic's name has 128 characters, at most 127 are allowed"),
        ("%RETRY%" + "x" * 249, "the topic's name has 256 characters, at most 255 are allowed"),
        ("", "the topic's name is empty"),
    ):
        assert terminal.run(*command, name, *rest, "-n", nowhere) == 2
        assert said in told(terminal)
    assert terminal.run(*command, "%RETRY%" + "x" * 248, *rest, "-n", nowhere) == 1
    assert "no name server answers" in terminal.said


@pytest.mark.parametrize(
    ("tag", "said"),
    [
        ("a || b", "'a || b'"), ("*", "'*'"), ("", "''"), (" a", "' a'"), ("a\t", "'a\\t'"),
        ("x" * 140_000, "the tags take 140005 bytes, at most 131072 are allowed"),
    ],
)  # fmt: skip
def test_a_tag_that_no_message_would_match_is_refused(terminal: Terminal, tag: str, said: str, nowhere: str) -> None:
    assert terminal.run("receive", "t", "--tag", "c", "--tag", tag, "-n", nowhere) == 2
    assert "Invalid value for '--tag': " in told(terminal)
    assert said in told(terminal)


@pytest.mark.parametrize("tag", ["a||b", "*", "", " a", "a\t"])
def test_a_tag_that_nobody_could_choose_is_not_sent(terminal: Terminal, tag: str, nowhere: str) -> None:
    assert terminal.run("send", "t", "body", "--tag", tag, "-n", nowhere) == 2
    assert f"Invalid value for '--tag': {tag!r} is a tag that no consumer can choose" in told(terminal)


@pytest.mark.parametrize(
    ("options", "takes"), [(("--size", "15728641"), 15728641), (("--size", "15361", "--batch", "1024"), 15729664)]
)
def test_a_load_that_fits_into_no_request_is_refused(
    terminal: Terminal, options: tuple[str, ...], takes: int, nowhere: str
) -> None:
    assert terminal.run("bench", "send", *options, "--window", "4096", "-n", nowhere) == 2
    said = f"Invalid value for --size: a request would have {takes} bytes of bodies, at most 15728640 are allowed"
    assert said in told(terminal)
    assert terminal.run("bench", "send", "--size", "15728640", "-n", nowhere) == 1, "a broker may take so much"


@pytest.mark.parametrize("key", ["a b", " a", "a ", ""])
def test_a_key_that_would_be_stored_as_others_or_none_is_refused(terminal: Terminal, key: str, nowhere: str) -> None:
    assert terminal.run("send", "t", "body", "--key", "c", "--key", key, "-n", nowhere) == 2
    assert "Invalid value for '--key': " in told(terminal)
    assert f"{key!r} is no single key" in told(terminal)


@pytest.mark.parametrize("option", ["--tag", "--key"])
def test_a_message_that_cannot_be_sent_as_it_is_is_not_sent(terminal: Terminal, option: str, nowhere: str) -> None:
    assert terminal.run("send", "t", "body", option, "a\x02b", "-n", nowhere) == 1
    assert terminal.said == "logherd: not sent: a tag, a key or a property has the character 0x02, which ends it\n"
    assert terminal.run("send", "t", "body", option, LONG, "-n", nowhere) == 1
    assert terminal.said.startswith("logherd: not sent: tag, keys and properties take 40")
    assert terminal.said.endswith(" bytes, at most 32767 are allowed\n")


@pytest.mark.parametrize("text", ["", " , "])
def test_a_list_without_a_controller_does_not_mean_this_machine(terminal: Terminal, text: str) -> None:
    assert terminal.run("status", "--controllers", text) == 2
    assert "Invalid value for --controllers: name at least one controller" in told(terminal)


@pytest.mark.parametrize("family", [bench, groups, quorum, replica, store, topic], ids=lambda each: each.info.help)
def test_a_list_of_commands_says_each_in_one_paragraph(family: typer.Typer) -> None:
    """Where a line of it ends in the text, it ends in the list, too."""
    for command in family.registered_commands:
        assert command.callback is not None
        first, *_ = (command.callback.__doc__ or "").split("\n\n")
        assert first.strip().count("\n") == 0, first


def test_whose_address_admin_is_and_what_it_is_by_default_is_told(terminal: Terminal) -> None:
    assert terminal.run("groups", "list", "--help") == 0
    assert "default: 127.0.0.1:8088" in " ".join(terminal.printed.replace("│", " ").split())
    assert terminal.run("status", "--help") == 0
    assert "of a controller, or of a group's brokers" in " ".join(terminal.printed.replace("│", " ").split())
