"""The admin port answers probes and survives what is not HTTP."""

import asyncio
import json
import socket

import pytest

from logherd.app import admin_http
from logherd.app.admin_http import AdminHttp
from logherd.app.admin_routes import Routes
from logherd.kit.errors import InvariantError


async def ask(raw: bytes) -> bytes:
    http = AdminHttp(Routes({"/ready": lambda: (200, {"ready": True}), "/down": lambda: (503, {"ready": False})}))
    port = await http.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(raw)
    if not raw:
        writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    http.close()
    return answer


@pytest.mark.parametrize(
    ("raw", "status", "document"),
    [
        (b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n", 200, {"ready": True}),
        (b"GET /ready?x=1 HTTP/1.1\r\nHost: x\r\n\r\n", 200, {"ready": True}),
        (b"GET /down HTTP/1.1\r\nHost: x\r\n\r\n", 503, {"ready": False}),
        (b"GET /nope HTTP/1.1\r\nHost: x\r\n\r\n", 404, {"error": "no page '/nope'", "pages": ["/down", "/ready"]}),
        (
            b"POST /ready HTTP/1.1\r\nHost: x\r\ncontent-length: 0\r\n\r\n",
            405,
            {"error": "method POST is not supported, use GET"},
        ),
    ],
)
def test_pages_answer_json(raw: bytes, status: int, document: object) -> None:
    head, _, body = asyncio.run(ask(raw)).partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert json.loads(body) == document


def test_a_head_request_has_no_body() -> None:
    head, _, body = asyncio.run(ask(b"HEAD /ready HTTP/1.1\r\nHost: x\r\n\r\n")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert body == b""


def test_garbage_gets_a_400_and_the_connection_ends() -> None:
    assert asyncio.run(ask(b"\x00\x00\x00\x07garbage\r\n\r\n")).startswith(b"HTTP/1.1 400")


def test_an_empty_connection_ends_without_an_answer() -> None:
    assert asyncio.run(ask(b"")) == b""


def test_a_head_beyond_8_kib_is_refused() -> None:
    raw = b"GET /ready HTTP/1.1\r\nHost: x\r\nx-long: " + b"a" * 10_000 + b"\r\n\r\n"
    assert asyncio.run(ask(raw)).startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize("path", ["/status", "/group", "/metrics"])
@pytest.mark.parametrize("error", [TypeError("of a version"), InvariantError("the log is broken")])
async def test_a_read_that_fails_costs_its_reader_the_answer_and_a_broken_rule_is_for_who_runs_the_loop(
    path: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context.get("exception")))

    def page() -> tuple[int, object]:
        raise error

    async def later(*_: object) -> tuple[int, object]:
        return page()

    http = AdminHttp(Routes({"/status": page}, views={"/group": later}, scrape=later))
    port = await http.start("127.0.0.1", 0)
    for _ in range(2):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()
    http.close()
    if isinstance(error, InvariantError):
        assert (complaints, answer) == ([error] * 2, b"")
        return
    head, _, body = answer.partition(b"\r\n\r\n")
    assert (complaints, head.split()[1]) == ([], b"500")
    assert json.loads(body) == {"error": "internal error (TypeError), see the log"}
    assert [line.message for line in caplog.records] == ["a page failed by a defect"]


async def test_a_page_that_cannot_be_written_down_is_no_reason_to_end() -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context.get("exception")))
    http = AdminHttp(Routes({"/status": lambda: (200, {"dataDir": "\udcff"})}))
    port = await http.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    http.close()
    assert (complaints, answer.split()[1]) == ([], b"500")


async def test_who_reads_no_answer_is_closed_at_the_deadline_and_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_http, "_SECONDS_MAX", 0.1)
    size = 16 << 20  # more than the kernel takes
    http = AdminHttp(Routes({"/status": lambda: (200, "x" * size)}))
    port = await http.start("127.0.0.1", 0)
    loop = asyncio.get_running_loop()
    with socket.socket() as peer:
        peer.settimeout(0)
        await loop.sock_connect(peer, ("127.0.0.1", port))
        await loop.sock_sendall(peer, b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(5):
            while not http._open:
                await asyncio.sleep(0)
            while http._open:
                await asyncio.sleep(0)
            read = 0
            try:
                while more := await loop.sock_recv(peer, 1 << 20):
                    read += len(more)
            except ConnectionResetError:
                pass
    http.close()
    assert 0 < read < size
