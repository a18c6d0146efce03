"""Changes over the admin port: who may, in which form, for how long, and what hostile bytes cannot do."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logherd.app.admin_http import ActionLimits
from unit.app.admin_calls import SECRET, Calls, exchange, parsed, port_with, post

ELECT = "/groups/C/g/elect"
BODY = {"expectedEpoch": 7}


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(SECRET + "\n")
    path.chmod(0o600)
    return path


async def ask(raw: bytes, token: Path | None, calls: Calls | None = None) -> tuple[int, dict[str, str], Any]:
    async with port_with(calls or Calls(), token) as port:
        return parsed(await exchange(port, raw))


async def test_an_action_gets_the_body_and_the_parts_of_the_path(token: Path) -> None:
    calls = Calls()
    status, _, document = await ask(post("/groups/C%2F1/gr%C3%BCn/elect?x=1", BODY), token, calls)
    assert (status, document) == (200, {"epoch": 8})
    assert calls.seen == [("elect", BODY, {"cluster": "C/1", "name": "grün"})]


async def test_a_body_may_be_nested_sixteen_levels_deep(token: Path) -> None:
    calls = Calls()
    status, _, _ = await ask(post(ELECT, b'{"a":' + b"[" * 15 + b"]" * 15 + b"}"), token, calls)
    assert (status, len(calls.seen)) == (200, 1)


async def test_what_an_action_refuses_reaches_the_caller(token: Path) -> None:
    status, _, document = await ask(post("/config", {"gatherMs": "x"}), token)
    assert (status, document) == (400, {"error": "gatherMs should be a number", "field": "gatherMs"})


@pytest.mark.parametrize("path", ["/config", "/status", "/groups/C/g"])
async def test_reads_stay_open_and_need_no_token_file(path: str) -> None:
    status, _, _ = await ask(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode(), None)
    assert status == 200


async def test_a_view_gets_the_query_and_the_parts_of_the_path() -> None:
    _, _, document = await ask(b"GET /groups/C/a%20b?after=x%2Fy&z HTTP/1.1\r\nhost: x\r\n\r\n", None)
    assert document == {"query": {"after": "x/y", "z": ""}, "parts": {"cluster": "C", "name": "a b"}}


@pytest.mark.parametrize("query", ["a=%ff", "&".join(["a=1"] * 17)])
async def test_a_query_that_cannot_be_read_is_refused(query: str) -> None:
    status, _, document = await ask(f"GET /groups/C/a?{query} HTTP/1.1\r\nhost: x\r\n\r\n".encode(), None)
    assert (status, document["error"].partition(":")[0]) == (400, "the query is not right")


async def test_a_view_that_takes_too_long_is_told() -> None:
    async with port_with(Calls(), None, ActionLimits(seconds=0.05)) as port:
        answer = await exchange(port, b"GET /groups/C/a?forever HTTP/1.1\r\nhost: x\r\n\r\n")
    assert parsed(answer)[::2] == (504, {"error": "no answer within 0.05 s"})


@pytest.mark.parametrize(
    ("raw", "status", "expected"),
    [
        (post(ELECT, secret=None), 401, "changes need the header Authorization: Bearer"),
        (post(ELECT, authorization="Basic " + SECRET), 401, "changes need the header Authorization: Bearer"),
        (post(ELECT, Authorization="Bearer " + SECRET), 401, "changes need the header Authorization: Bearer"),
        (post(ELECT, secret="another"), 403, "the token is not the one in adminTokenFile"),
        (post(ELECT, secret=""), 403, "the token is not the one in adminTokenFile"),
        (post(ELECT, secret=SECRET + "x"), 403, "the token is not the one"),
        (post(ELECT, secret="\u00e4"), 403, "the token is not the one"),
        (post(ELECT, b"{"), 400, "the body is not JSON: "),
        (post(ELECT, b""), 400, "the body is not JSON: "),
        (post(ELECT, b"\xff"), 400, "the body is not JSON: "),
        (post(ELECT, b'{"a":"\xff"}'), 400, "the body is not JSON: "),
        (post(ELECT, b"NaN"), 400, "the body is not JSON: "),
        (post(ELECT, b"[" * 60_000), 400, "the body is not JSON: "),
        (post(ELECT, b"[]"), 400, "the body should be a JSON object"),
        (post(ELECT, b'{"a":' * 900 + b"[]" + b"}" * 900), 400, "the body is nested deeper than 16"),
        (post(ELECT, b'{"a":' + b"[" * 16 + b"]" * 16 + b"}"), 400, "the body is nested deeper than 16"),
        (post(ELECT, content_length=None), 411, "the body needs a content-length"),
        (post(ELECT, content_length=None, transfer_encoding="chunked"), 411, "and no transfer-encoding"),
        (post(ELECT, transfer_encoding="chunked"), 411, "and no transfer-encoding"),
        (post(ELECT, content_length="65537"), 413, "the body has 65537 bytes, at most 65536 are read"),
        (post(ELECT, content_length="9" * 5000), 400, "bad Content-Length"),
        (post(ELECT, content_length="-1"), 400, "bad Content-Length"),
        (post(ELECT, content_type=None), 415, "the content-type is not given, it should be application/json"),
        (post(ELECT, content_type="text/plain"), 415, "the content-type is text/plain, it should be"),
        (post("/groups/C//elect"), 404, "no page '/groups/C//elect'"),
        (post("/groups/C/%ff/elect"), 404, "no page"),
        (post("/groups/C/g/h/elect"), 404, "no page"),
        (post("/groups/C/g/"), 404, "no page"),
    ],
)
async def test_a_call_that_is_not_right_is_refused_with_a_reason(
    token: Path, raw: bytes, status: int, expected: str
) -> None:
    calls = Calls()
    answer = await ask(raw, token, calls)
    assert (answer[0], calls.seen) == (status, [])
    assert expected in answer[2]["error"]


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8"])
async def test_json_is_known_by_its_type(token: Path, content_type: str) -> None:
    assert (await ask(post(ELECT, BODY, content_type=content_type), token))[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed", "error"),
    [
        ("POST", "/status", "get, head", "method POST is not supported, use GET"),
        ("GET", ELECT, "post", "method GET is not supported, use POST"),
        ("HEAD", ELECT, "post", None),
        ("PUT", "/config", "get, head, post", "method PUT is not supported, use GET or POST"),
    ],
)
async def test_another_method_is_told_which_are_allowed(
    token: Path, method: str, path: str, allowed: str, error: str | None
) -> None:
    async with port_with(Calls(), token) as port:
        answer = await exchange(port, f"{method} {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    if error is None:
        answer += b"null"
    status, headers, document = parsed(answer)
    assert (status, headers["allow"]) == (405, allowed)
    assert document == (None if error is None else {"error": error})


async def test_an_unknown_path_is_told_what_there_is(token: Path) -> None:
    _, _, document = await ask(post("/nope"), token)
    assert document == {
        "error": "no page '/nope'",
        "pages": ["/config", "/groups/{cluster}/{name}", "/status"],
        "actions": ["/config", "/groups/{cluster}/{name}/elect", "/slow"],
    }


async def test_a_challenge_names_the_scheme(token: Path) -> None:
    _, headers, _ = await ask(post(ELECT, secret=None), token)
    assert headers["www-authenticate"] == "bearer"


async def test_a_body_of_64_kib_is_read(token: Path) -> None:
    calls = Calls()
    body = {"reason": "x" * (65_536 - len(json.dumps({"reason": ""})))}
    assert (await ask(post(ELECT, body), token, calls))[0] == 200
    assert calls.seen[0][1] == body


async def test_a_refusal_arrives_although_the_body_is_still_being_sent(token: Path) -> None:
    # More than the buffers of both sides hold, so the peer is in the middle of sending when it is refused.
    raw = post(ELECT, b"x" * 800_000)
    async with port_with(Calls(), token) as port:
        assert parsed(await exchange(port, raw))[0] == 413


async def test_a_peer_that_waits_to_be_asked_for_its_body_is_asked(token: Path) -> None:
    head, _, body = post(ELECT, BODY, expect="100-continue").partition(b"\r\n\r\n")
    async with port_with(Calls(), token) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head + b"\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        writer.write(body)
        assert parsed(await reader.read())[0] == 200
        writer.close()


async def test_an_action_that_takes_too_long_has_an_unknown_outcome(token: Path) -> None:
    async with port_with(Calls(), token, ActionLimits(seconds=0.05)) as port:
        status, _, document = parsed(await exchange(port, post("/slow")))
    assert status == 504
    assert "nothing was decided within 0.05 s: outcome unknown, it may still happen" in document["error"]


async def test_only_so_many_actions_are_in_work(token: Path) -> None:
    calls = Calls()
    async with port_with(calls, token, ActionLimits(at_once=1)) as port, asyncio.TaskGroup() as group:
        first = group.create_task(exchange(port, post("/slow")), name="first")
        await calls.begun.wait()
        status, headers, document = parsed(await exchange(port, post("/slow")))
        assert (status, headers["retry-after"]) == (503, "1")
        assert document == {"error": "1 actions are in work, which is the most; nothing was done"}
        assert parsed(await exchange(port, b"GET /status HTTP/1.1\r\nhost: x\r\n\r\n"))[0] == 200
        calls.release.set()
        assert parsed(await first)[0] == 200
        assert parsed(await exchange(port, post("/slow")))[0] == 200


async def test_a_caller_that_leaves_frees_its_place(token: Path) -> None:
    calls = Calls()
    async with port_with(calls, token, ActionLimits(at_once=1)) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(post("/slow"))
        await calls.begun.wait()
        writer.transport.abort()
        calls.release.set()
        assert parsed(await exchange(port, post("/slow")))[0] == 200


PARTS = st.sampled_from([
    b"POST ", b"GET ", b"HEAD ", b"/groups/C/g/elect", b"/config", b"/status", b" HTTP/1.1\r\n", b" HTTP/1.0\r\n",
    b"\r\n", b"host: x\r\n", b"content-length: 2\r\n", b"content-length: 70000\r\n",
    b"content-type: application/json\r\n", b"{}", b"authorization: Bearer\r\n", b"authorization: Bearer x\r\n",
    b"transfer-encoding: chunked\r\n", b"2\r\n{}\r\n0\r\n\r\n", b"expect: 100-continue\r\n",
    b"connection: keep-alive\r\n", b"upgrade: x\r\n", b'{"brokerId": 1}',
])  # fmt: skip
STREAMS = st.lists(PARTS | st.binary(max_size=40), max_size=14).map(b"".join)


@st.composite
def damaged_posts(draw: st.DrawFn) -> bytes:
    """A whole call without the secret, with some bytes replaced."""
    raw = bytearray(post(ELECT, BODY, secret=draw(st.sampled_from(["x", SECRET[:-1], SECRET.upper()]))))
    for place in draw(st.lists(st.integers(0, len(raw) - 1), max_size=4)):
        raw[place] = draw(st.integers(0, 255))
    return bytes(raw)


@given(raw=STREAMS | damaged_posts())
@settings(max_examples=150, deadline=None)
def test_no_bytes_without_the_secret_change_anything(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    token = tmp_path_factory.getbasetemp() / "fuzz-token"
    token.write_text(SECRET)
    token.chmod(0o600)
    calls, complaints = Calls(), []

    async def send() -> bytes:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
        async with port_with(calls, token) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(raw)
            writer.write_eof()
            answer = await asyncio.wait_for(reader.read(), 10)
            writer.close()
            assert parsed(await exchange(port, b"GET /status HTTP/1.1\r\nhost: x\r\n\r\n"))[0] == 200
            return answer

    answer = asyncio.run(send())
    assert (calls.seen, complaints) == ([], [])
    assert not answer or answer.startswith(b"HTTP/1.1 ")
