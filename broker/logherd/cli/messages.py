"""`logherd send` and `logherd receive`: single messages by hand and in scripts, over the native client."""

import asyncio
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from itertools import count as counted
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logherd.cli.arguments import (
    NameServerOption,
    Output,
    OutputOption,
    end_with,
    key_names,
    name_servers,
    show,
    tag_name,
    tag_names,
    topic_name,
)

if TYPE_CHECKING:
    from logherd.client.consumer import Received

__all__ = ["receive", "send"]

send = typer.Typer(add_completion=False)
receive = typer.Typer(add_completion=False)

STDIN = "-"


class Start(StrEnum):
    """Where to begin."""

    COMMITTED = "committed"
    FIRST = "first"
    LAST = "last"


@send.command()
def send_command(
    topic: Annotated[
        str, typer.Argument(help="Topic; made at the first send if the broker allows that.", callback=topic_name)
    ],
    bodies: Annotated[list[str], typer.Argument(metavar="BODY...", help="Texts to send; - reads lines from input.")],
    name_server: NameServerOption = "127.0.0.1:9876",
    tag: Annotated[str | None, typer.Option(help="Tag, which consumers can filter by.", callback=tag_name)] = None,
    keys: Annotated[
        list[str] | None, typer.Option("--key", help="Key to find it by; may be given again.", callback=key_names)
    ] = None,
    queue_key: Annotated[str | None, typer.Option(help="Messages with equal queue keys share a queue.")] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Send messages and print where each was stored. A message is stored when its line is printed."""
    from logherd.client.errors import Refused, SendFailed
    from logherd.client.producer import Outgoing, Producer

    async def send_all() -> None:
        async with Producer(name_servers(name_server)) as producer:
            for body in _texts(bodies):
                message = Outgoing(body.encode(), tag=tag, keys=tuple(keys or ()))
                sent = await producer.send(topic, message, key=queue_key)
                if sent.code:  # RocketMQ's: not flushed, or not copied, in time
                    last = Refused(sent.code, None, sent.queue.broker_name)
                    raise SendFailed(topic, attempts=1, unknown=True, last=last)
                document = {
                    "topic": topic, "broker": sent.queue.broker_name, "queueId": sent.queue.queue_id,
                    "queueOffset": sent.queue_offset, "id": sent.unique_key, "offsetId": sent.offset_message_id,
                }  # fmt: skip
                place = f"{sent.queue.broker_name} queue {sent.queue.queue_id} offset {sent.queue_offset}"
                show(output, document, f"stored in {topic} at {place}, id {sent.unique_key}")

    with _interruptible() if STDIN in bodies else nullcontext():
        asyncio.run(send_all())


@receive.command()
def receive_command(
    topic: Annotated[str, typer.Argument(help="Topic to read.", callback=topic_name)],
    name_server: NameServerOption = "127.0.0.1:9876",
    group: Annotated[str, typer.Option(help="Consumer group, whose progress is kept.")] = "logherd-receive",
    tags: Annotated[
        list[str] | None, typer.Option("--tag", help="Only this tag; may be given again.", callback=tag_names)
    ] = None,
    start: Annotated[Start, typer.Option("--from", help="Where to begin.")] = Start.COMMITTED,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many messages.")] = None,
    wait: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="End after so long without one.")] = 2.0,
    body_bytes_max: Annotated[
        int, typer.Option(min=1, max=1 << 30, metavar="BYTES", help="What a compressed body may become.")
    ] = 4 << 20,
    output: OutputOption = Output.TEXT,
    *,
    follow: Annotated[bool, typer.Option("--follow", help="Do not end when nothing comes.")] = False,
) -> None:
    """Print the messages of all queues of a topic and commit the group's progress.

    The exit code is 1 if --count was given and fewer came, or if a queue could not be read to its end.
    """
    from logherd.client.consumer import Consumer, ConsumerOptions

    options = ConsumerOptions(body_bytes_max=body_bytes_max)

    async def receive_all() -> list[str]:
        got = 0
        async with Consumer(name_servers(name_server), group, tags=tags, options=options) as consumer:
            await consumer.assign(topic, start=start.value)
            while count is None or got < count:
                most = 32 if count is None else min(32, count - got)
                received = await consumer.poll(messages_max=most, seconds=wait)
                for each in received:
                    show(output, _document(each), _text(each))
                got += len(received)
                await consumer.commit()  # also over messages with other tags, of which none is received
                if not received and not follow:
                    break
            if count == got:
                return []
            short = [] if count is None else [f"{got} of {count} messages came, and none more for {wait:g} s"]
            return short + [
                f"not read to its end: queue {each.queue_id} of broker {each.broker_name}, {why}"
                for each, why in consumer.faults.items()
            ]

    end_with(asyncio.run(receive_all()))


def _texts(bodies: Iterable[str]) -> Iterable[str]:
    for body in bodies:
        if body == STDIN:
            yield from _lines()
        else:
            yield body


def _lines() -> Iterator[str]:
    """Lines of the input, each when it is there. Raises: Unsendable for one that is no text."""
    from logherd.client.errors import Unsendable

    for number in counted(1):
        line = sys.stdin.buffer.readline()
        if not line:
            return
        try:
            yield line.decode(sys.stdin.encoding).rstrip("\n")
        except UnicodeDecodeError as error:
            words = f"not sent: line {number} of the input is no {error.encoding} text: {error.reason}"
            raise Unsendable(words) from error


@contextmanager
def _interruptible() -> Iterator[None]:
    """Have Ctrl-C end a wait for input, too: asyncio's own handler asks the task to end, and the task reads on."""
    heard = signal.getsignal(signal.SIGINT)
    if heard is signal.default_int_handler:  # as asyncio asks; by a shell that does not wait for us it is ignored
        signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, heard)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.default_int_handler(number, frame)


def _document(received: "Received") -> dict[str, Any]:
    message = received.message
    return {
        "topic": message.topic, "broker": received.queue.broker_name, "queueId": message.queue_id,
        "queueOffset": message.queue_offset, "id": message.message_id, "offsetId": message.offset_message_id,
        "tag": message.tag, "keys": message.keys, "storedMs": message.store_timestamp,
        "body": message.body.decode(errors="replace"),
    }  # fmt: skip


def _text(received: "Received") -> str:
    message = received.message
    extra = f" [{message.tag}]" if message.tag else ""
    return f"{message.queue_id}:{message.queue_offset}{extra} {message.body.decode(errors='replace')}"
