"""`logherd bench`: a pipelined load over the native client, to see what a broker can do."""

import asyncio
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from logherd.cli import exits
from logherd.cli.arguments import NameServerOption, Output, OutputOption, name_servers, show
from logherd.cli.topics import QUEUES
from logherd.kit.errors import LogHerdError

if TYPE_CHECKING:
    from logherd.client.report import LoadReport

__all__ = ["bench"]

bench = typer.Typer(add_completion=False, no_args_is_help=True, help="Load a broker and print what it did.")


class TooFewQueues(LogHerdError):
    """More are to be loaded than the topic has."""


TOPIC = "logherd-bench"
ROUTE_SECONDS = 10.0
REQUEST_BYTES_MAX = 15 << 20
"""No broker takes larger bodies or batches (`store.messageSizeMax`)."""

QueuesOption = Annotated[
    int | None, typer.Option(min=1, max=1024, help=f"Queues to load; all that the topic has, {QUEUES} if it is new.")
]
ConnectionsOption = Annotated[int, typer.Option(min=1, help="Connections.")]
SecondsOption = Annotated[float, typer.Option(min=0.1, max=86_400, help="Time that is measured; a day at most.")]


@bench.command("send")
def bench_send(
    name_server: NameServerOption = "127.0.0.1:9876",
    size: Annotated[int, typer.Option(min=1, help="Bytes of each body.")] = 1024,
    window: Annotated[int, typer.Option(min=1, help="Messages in flight.")] = 1024,
    batch: Annotated[int, typer.Option(min=1, max=1024, help="Messages of each request.")] = 1,
    connections: ConnectionsOption = 4,
    queues: QueuesOption = None,
    seconds: SecondsOption = 10.0,
    output: OutputOption = Output.TEXT,
) -> None:
    """Send as fast as a window of messages in flight allows.

    The exit code is 1 if a request was refused or not answered, or nothing was stored.
    """
    if window < connections * batch:
        raise typer.BadParameter(
            f"{window} messages in flight are fewer than {connections} connections times {batch} messages of a request",
            param_hint="--window",
        )
    if size * batch > REQUEST_BYTES_MAX:
        raise typer.BadParameter(
            f"a request would have {size * batch} bytes of bodies, at most {REQUEST_BYTES_MAX} are allowed",
            param_hint="--size",
        )
    from logherd.client.send_load import SendLoad, run_send_load

    async def load() -> "LoadReport":
        host, port, broker, count = await _broker_of_topic(name_server, queues)
        return await run_send_load(
            SendLoad(
                host=host, port=port, topic=TOPIC, queues=count, size=size, window=window, batch=batch,
                connections=connections, seconds=seconds, broker_name=broker,
            )
        )  # fmt: skip

    _report(asyncio.run(load()), output, done="stored")


@bench.command("pull")
def bench_pull(
    name_server: NameServerOption = "127.0.0.1:9876",
    connections: ConnectionsOption = 2,
    queues: QueuesOption = None,
    messages: Annotated[int, typer.Option(min=1, help="Most messages of one answer.")] = 32,
    seconds: SecondsOption = 10.0,
    output: OutputOption = Output.TEXT,
) -> None:
    """Read what `bench send` has stored, again and again.

    The exit code is 1 if a pull was refused or not answered, or nothing was read.
    """
    from logherd.client.pull_load import PullLoad, run_pull_load

    async def load() -> "LoadReport":
        host, port, _, count = await _broker_of_topic(name_server, queues)
        return await run_pull_load(
            PullLoad(
                host=host, port=port, topic=TOPIC, queues=count, connections=connections, messages_max=messages,
                seconds=seconds,
            )
        )  # fmt: skip

    _report(asyncio.run(load()), output, done="read")


async def _broker_of_topic(name_server: str, queues: int | None) -> tuple[str, int, str, int]:
    """Make the topic, if there is none; host, port and name of one broker that has it, and how many queues to load."""
    from logherd.client.admin import Admin
    from logherd.client.peers import parse_address
    from logherd.model.topic import TopicConfig

    async with Admin(name_servers(name_server)) as admin:
        configs = await admin.topic_configs(TOPIC)
        count = queues or QUEUES
        if not any(configs.values()):
            await admin.create_topic(TopicConfig(name=TOPIC, read_queues=count, write_queues=count))
        route = await admin.wait_for_route(TOPIC, seconds=ROUTE_SECONDS)
    broker, address = min(route.addresses.items())
    config = configs.get(broker)
    if config is not None:
        present = min(config.read_queues, config.write_queues)
        count = queues or present
        if count > present:
            raise TooFewQueues(
                f"topic {TOPIC} has {present} queue{'' if present == 1 else 's'} on {broker}, and {count} are to be "
                f"loaded; make it larger with `logherd topic create {TOPIC} --queues {count}`"
            )
    return (*parse_address(address), broker, count)


def _report(report: "LoadReport", output: Output, *, done: str) -> None:
    """Print it, and end with a sentence and a code if it tells of anything else than success."""
    document = {**asdict(report), "rate": report.rate, "clientUsPerMessage": report.client_us_per_message}
    show(output, document, report.text())
    faults = [] if report.messages else [f"no message was {done}"]
    if report.refused:
        why = f" ({report.refusal})" if report.refusal else ""
        faults.append(f"requests refused: {sum(report.refused.values())}{why}")
    if report.lost:
        faults.append(f"requests without an answer: {report.lost}")
    if faults:
        sys.stderr.write(f"logherd: {'; '.join(faults)}\n")
        raise typer.Exit(exits.FAILED)
