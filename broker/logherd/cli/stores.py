"""`logherd store`: look into, repair, promote and hand over the store of a broker that does not run, or have it found a
group.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from logherd.cli import exits
from logherd.cli.arguments import Output, OutputOption, show, table
from logherd.cli.progress import progress

__all__ = ["plan_lines", "store"]

store = typer.Typer(add_completion=False, no_args_is_help=True, help="Verify, repair and export a store.")

DirectoryArgument = Annotated[
    Path,
    typer.Argument(metavar="DIR", exists=True, file_okay=False, help="The store, such as .logherd/GROUP/broker-1."),
]


@store.command("verify")
def verify_store(directory: DirectoryArgument, output: OutputOption = Output.TEXT) -> None:
    """Read a store in full and print what is in it and what is wrong. Changes nothing.

    The exit code is 3 if something is wrong.
    """
    from logherd.store.tools import verify

    with progress(f"reading {directory}") as seen:
        report = verify(directory, seen=seen)
    files = [asdict(row) | {"path": row.path.removeprefix(f"{directory}/")} for row in report.rows]
    rows = [
        (row["path"], row["kind"], row["records"], *(at if at >= 0 else "-" for at in (row["first"], row["last"])),
         _verdict(row["problems"]))
        for row in files
    ]  # fmt: skip
    problems = [f"{row['path']}: {problem}" for row in files for problem in row["problems"]]
    text = [table(("path", "kind", "records", "first", "last", "verdict"), rows), *problems]
    text.append(f"whole records end at {report.end_position}")
    document = {"whole": report.whole, "endPosition": report.end_position, "files": files}
    show(output, document, "\n".join(text))
    raise typer.Exit(exits.OK if report.whole else exits.DAMAGED)


@store.command("repair")
def repair_store(
    directory: DirectoryArgument,
    output: OutputOption = Output.TEXT,
    *,
    apply: Annotated[bool, typer.Option("--apply", help="Do it; copies of what is dropped are kept.")] = False,
) -> None:
    """Say what must be dropped so that a damaged store opens again; with --apply, do it.

    Without --apply the exit code is 3 if there is something to repair.
    """
    from logherd.app.group.repairing import repair_store as repair

    with progress(f"reading {directory}"):
        plan = repair(directory, apply=apply)
    show(output, {**asdict(plan), "droppedRecords": plan.dropped_records}, "\n".join(plan_lines(directory, plan)))
    raise typer.Exit(exits.DAMAGED if plan.steps and not plan.applied else exits.OK)


@store.command("export")
def export_store(
    directory: DirectoryArgument,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Copy to this empty folder; default: in place.")
    ] = None,
    output: OutputOption = Output.TEXT,
    *,
    rocketmq: Annotated[
        bool, typer.Option("--rocketmq", help="For RocketMQ 5.3, the only form that there is.")
    ] = False,
) -> None:
    """Make a store one that RocketMQ opens, with its files of topics, groups and offsets."""
    if not rocketmq:
        raise typer.BadParameter("say for whom: --rocketmq")
    from logherd.app.clock import SystemClock
    from logherd.store.tools import ensure_own, export_rocketmq

    ensure_own(directory)
    clock = SystemClock()
    with progress(f"reading {directory}"):
        report = export_rocketmq(directory, to, _rocketmq_config(directory), clock=clock)
    lines = [
        f"{report.directory}: {report.segments} log files, {report.queues} queues, {report.index_files} index files",
        *(f"note: {note}" for note in report.notes),
    ]
    show(output, {**asdict(report), "directory": str(report.directory)}, "\n".join(lines))


@store.command("promote")
def promote_store(directory: DirectoryArgument, output: OutputOption = Output.TEXT) -> None:
    """Make a store that follows a RocketMQ master a broker's own, with the master's topics, groups and offsets.

    Stop the follower and the master first: what the master stores from now on is not here. Then start the broker
    without `replication.classicHa.master`.
    """
    from logherd.app.classic.promotion import promote
    from logherd.app.clock import SystemClock

    clock = SystemClock()
    with progress(f"reading {directory}"):
        made = promote(directory, clock)
    seconds = (clock.now_ms() - made.pulled_ms) / 1000
    lines = [
        f"{directory}: the master's log is here up to position {made.position}",
        f"{made.topics} topics, {made.groups} groups, {made.offsets} offsets, as they were {seconds:.0f} s ago",
    ]
    if made.missing_bytes:
        lines.append(f"lost: {made.missing_bytes} bytes that the master had then and that did not arrive")
    show(output, asdict(made), "\n".join(lines))


@store.command("found")
def found_group(
    config: Annotated[
        Path,
        typer.Option("--config", exists=True, dir_okay=False, help="Settings of the replica that it is to become."),
    ],
    output: OutputOption = Output.TEXT,
) -> None:
    """Make the store of a broker that was alone, or of RocketMQ, the first replica of a new group (mode controller).

    `dataDir` of the settings names the store. Do it with one store of a group; all other replicas start with nothing.
    The first leader is elected once as many brokers as `replication.replicas` says are there: it is this one.
    """
    from logherd.app.clock import SystemClock
    from logherd.app.group.from_alone import make_first_replica
    from logherd.settings.load import load_broker_options

    options = load_broker_options(config)
    with progress(f"reading {options.data_dir}"):
        made = make_first_replica(options, SystemClock())
    lines = [
        f"broker {made.broker_id} of {made.group} begins with this log: {made.topics} topics, epoch {made.epoch}",
        f"it ends at position {made.position}; start all brokers of the group, and the others copy it",
    ]
    if made.bare_end:
        lines.append(f"up to position {made.bare_end} RocketMQ wrote it")
    show(output, asdict(made), "\n".join(lines))


def _rocketmq_config(directory: Path) -> dict[str, bytes]:
    """What RocketMQ keeps beside its log, from the records that hold it here. Raises StoreError, MetadataError."""
    from logherd.app.clock import SystemClock
    from logherd.model.host import encode_host
    from logherd.service.metadata import Metadata
    from logherd.service.metadata.rocketmq import export_config
    from logherd.service.metadata.store_log import StoreLog
    from logherd.store import MessageStore
    from logherd.store.files_os import OsFiles
    from logherd.store.tools import options_of

    clock = SystemClock()
    opened = MessageStore.open(directory, options_of(directory), OsFiles(), clock=clock)
    try:
        return export_config(Metadata.read(StoreLog(opened, clock, host=encode_host("127.0.0.1", 0)), clock))
    finally:
        opened.close()


def _verdict(problems: list[str]) -> str:
    return "whole" if not problems else "1 problem" if len(problems) == 1 else f"{len(problems)} problems"


def plan_lines(directory: Path, plan: Any) -> list[str]:
    """A repair for people, step by step. Of a replica it is told that it needs none: whoever repairs them all has lost
    what any of them had behind its damage."""
    if not plan.steps:
        return ["nothing to repair"]
    did = "did" if plan.applied else "would"
    lines = [
        f"{did}: {step.what} {step.path}"
        + (f", dropping {step.records} records in {step.bytes} bytes" if step.bytes else "")
        + (f", kept in {step.copy}" if step.copy else "")
        for step in plan.steps
    ]
    lines.append(f"the log {'ends' if plan.applied else 'would end'} at {plan.end_position}")
    if not plan.applied:
        if plan.changes_log and (directory / "replica.json").exists():
            lines.append(
                "this is a replica: started as it is it heals if another one of its group has what is damaged; "
                "repaired it is another store, and nothing that it acknowledged counts any more"
            )
        lines.append(f"to do it: logherd store repair {directory} --apply")
    return lines
