"""The secret in its file: read anew, judged whole, and refused by name when there is none."""

import logging
import os
from pathlib import Path

import pytest

from logherd.app.admin_token import TokenFile


def file_with(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(mode)
    return path


def status(token: TokenFile, *authorizations: bytes) -> int | None:
    refusal = token.judge(authorizations)
    return None if refusal is None else refusal.status


def reason(token: TokenFile) -> str:
    refusal = token.judge([b"Bearer x"])
    assert refusal is not None
    assert refusal.status == 503
    return str(refusal.document)


@pytest.mark.parametrize("given", [b"Bearer s3cret", b"bearer s3cret", b"Bearer   s3cret "])
def test_the_secret_opens(tmp_path: Path, given: bytes) -> None:
    assert status(TokenFile(file_with(tmp_path, "\ns3cret\n")), given) is None


def test_without_a_file_nothing_opens() -> None:
    assert [status(TokenFile(None)), status(TokenFile(None), b"Bearer ")] == [403, 403]


def test_two_headers_are_none(tmp_path: Path) -> None:
    assert status(TokenFile(file_with(tmp_path, "a")), b"Bearer a", b"Bearer a") == 401


def test_a_renewed_file_counts_at_once_however_it_was_renewed(tmp_path: Path) -> None:
    path = file_with(tmp_path, "one")
    token = TokenFile(path)
    assert status(token, b"Bearer one") is None
    path.write_text("two")
    assert [status(token, b"Bearer one"), status(token, b"Bearer two")] == [403, None]
    target = tmp_path / "third"
    target.write_text("tri")
    path.unlink()
    path.symlink_to(target)
    assert [status(token, b"Bearer two"), status(token, b"Bearer tri")] == [403, None]
    target.unlink()
    assert status(token, b"Bearer tri") == 503


@pytest.mark.parametrize("text", ["", "\n", " \t\n"])
def test_an_empty_file_opens_for_nobody(tmp_path: Path, text: str) -> None:
    token = TokenFile(file_with(tmp_path, text))
    assert "adminTokenFile is empty" in reason(token)
    assert status(token, b"Bearer ") == 503


def test_a_file_that_cannot_be_used_is_refused_by_name(tmp_path: Path) -> None:
    assert "adminTokenFile cannot be read: No such file" in reason(TokenFile(tmp_path / "nowhere"))
    assert "adminTokenFile is no regular file" in reason(TokenFile(tmp_path))
    assert "adminTokenFile has more than 4096 bytes" in reason(TokenFile(file_with(tmp_path, "x" * 4097)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("two\nlines\n", "several lines"), ("two\r\nlines", "several lines"), ("a\n\nb", "several lines"),
        ("a\x00b", "control characters"), ("a\x1bb", "control characters"), ("a\x7fb", "control characters"),
    ],
)  # fmt: skip
def test_what_no_header_carries_is_no_secret_and_is_told_as_that(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, said: str
) -> None:
    """As `openssl rand -base64 64` writes it: whoever read the file was told that it has another token."""
    path = tmp_path / "token"
    path.write_bytes(text.encode())
    path.chmod(0o600)
    token = TokenFile(path)
    assert f"adminTokenFile has {said}, which no header carries" in reason(token)
    with caplog.at_level(logging.WARNING):
        token.check()
    assert "changes will be refused" in caplog.messages


def test_a_start_says_nothing_of_a_file_that_is_right_and_of_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for token in (TokenFile(None), TokenFile(file_with(tmp_path, " a\tb \n"))):
            token.check()
    assert caplog.messages == []


def test_a_pipe_does_not_hold_the_process(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "adminTokenFile is no regular file" in reason(TokenFile(tmp_path / "pipe"))


def test_permissions_for_everybody_are_warned_about_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = file_with(tmp_path, "a", mode=0o644)
    token = TokenFile(path)
    with caplog.at_level(logging.WARNING):
        assert [status(token, b"Bearer a") for _ in range(3)] == [None] * 3
        assert caplog.messages == ["adminTokenFile is open to more than its owner and group"]
        path.chmod(0o640)
        assert status(token, b"Bearer a") is None
        path.chmod(0o604)
        assert status(token, b"Bearer a") is None
    assert len(caplog.messages) == 2
