"""`logherd topic`: list, show, create and delete topics, over the name service and all broker groups."""

import asyncio
from dataclasses import replace
from typing import Annotated

import typer

from logherd.cli.arguments import NameServerOption, Output, OutputOption, name_servers, show, table, topic_name
from logherd.kit.errors import LogHerdError

__all__ = ["topic"]

topic = typer.Typer(add_completion=False, no_args_is_help=True, help="List, show, create and delete topics.")


QUEUES = 8
"""Of a new topic, unless they are named."""


class TopicShrinks(LogHerdError):
    """Queues would be given up of which nobody has said that they are to be."""


NameArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Its name.", callback=topic_name)]


@topic.command("list")
def list_topics(
    name_server: NameServerOption = "127.0.0.1:9876",
    output: OutputOption = Output.TEXT,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also those of the system and of retries.")] = False,
) -> None:
    """List topics."""
    from logherd.client.admin import Admin
    from logherd.model.topic import DLQ_PREFIX, RETRY_PREFIX
    from logherd.service.metadata.reserved import is_system_topic, reply_topic

    async def ask() -> list[str]:
        async with Admin(name_servers(name_server)) as admin:
            names = sorted(await admin.topics())
            if everything:
                return names
            info = await admin.clusters()
        own = {*info.brokers, *info.clusters, *(reply_topic(cluster) for cluster in info.clusters)}
        hidden = (RETRY_PREFIX, DLQ_PREFIX)
        return [name for name in names if name not in own and not is_system_topic(name) and not name.startswith(hidden)]

    names = asyncio.run(ask())
    show(output, names, "\n".join(names) if names else "no topics")


@topic.command("show")
def show_topic(
    name: NameArgument, name_server: NameServerOption = "127.0.0.1:9876", output: OutputOption = Output.TEXT
) -> None:
    """Show what each queue of a topic holds."""
    from logherd.client.admin import Admin, QueueEnds

    async def ask() -> list[QueueEnds]:
        async with Admin(name_servers(name_server)) as admin:
            return await admin.topic_stats(name)

    ends = asyncio.run(ask())
    document = [
        {"broker": each.queue.broker_name, "queueId": each.queue.queue_id, "first": each.first, "next": each.next}
        for each in ends
    ]
    rows = [(each.queue.broker_name, each.queue.queue_id, each.first, each.next) for each in ends]
    show(output, document, table(("broker", "queue", "first", "next"), rows))


@topic.command("create")
def create_topic(
    name: NameArgument,
    name_server: NameServerOption = "127.0.0.1:9876",
    queues: Annotated[
        int | None, typer.Option(min=1, max=1024, help=f"Queues on each broker group; {QUEUES} if it is new.")
    ] = None,
    output: OutputOption = Output.TEXT,
    *,
    shrink: Annotated[
        bool, typer.Option("--shrink", help="Even if it has more now; clients see what is in those no more.")
    ] = False,
) -> None:
    """Create a topic on all broker groups, or change its number of queues; all else stays as it is.

    The exit code is 1 if it has more queues, unless that is meant (--shrink).
    """
    from logherd.client.admin import Admin
    from logherd.model.topic import TopicConfig

    async def order() -> list[int]:
        async with Admin(name_servers(name_server)) as admin:
            configs = await admin.topic_configs(name)
            present = max((each.queues for each in configs.values() if each), default=0)
            if queues is not None and present > queues and not shrink:
                raise TopicShrinks(
                    f"topic {name} has {present} queues, and {queues} were asked for: clients would see no more what "
                    "is in the others; say --shrink if that is meant"
                )
            for broker, config in configs.items():
                wanted = config or TopicConfig(name, present or QUEUES, present or QUEUES)
                if queues is not None:
                    wanted = replace(wanted, read_queues=queues, write_queues=queues)
                configs[broker] = wanted
                await admin.create_topic(wanted, brokers=[broker])
            return sorted({each.queues for each in configs.values() if each})

    counts = asyncio.run(order())
    text = f"topic {name} has {' or '.join(map(str, counts))} queue{'' if counts == [1] else 's'} on each broker group"
    show(output, {"topic": name, "queues": counts[-1]}, text)


@topic.command("delete")
def delete_topic(
    name: NameArgument,
    name_server: NameServerOption = "127.0.0.1:9876",
    output: OutputOption = Output.TEXT,
    *,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="That there is none is no failure.")] = False,
) -> None:
    """Delete a topic and its messages on all broker groups. The exit code is 1 if there is none of that name."""
    from logherd.client.admin import Admin
    from logherd.client.errors import NoRoute

    async def order() -> bool:
        async with Admin(name_servers(name_server)) as admin:
            return await admin.delete_topic(name)

    deleted = asyncio.run(order())
    if not deleted and not if_exists:
        raise NoRoute(f"there is no topic {name} (with --if-exists that is no failure)")
    text = f"topic {name} is deleted" if deleted else f"there is no topic {name}"
    show(output, {"topic": name, "deleted": deleted}, text)
