"""Record golden frames from the real client and the real broker: `python -m compat.record_golden DIRECTORY`.

Run in `tests`. Each kind of frame is kept once: `CODE-direction-serialization-N.bin` with what it should
decode to in the `.json` beside it. Two frames are of one kind when request code, direction, serialisation, response
code, names of the fields and form of the body agree.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from compat.driver import CallFailed, Driver, message
from compat.frames import RESPONSE, describe
from compat.history import tell
from compat.processes import free_port
from compat.recorder import Note, Recorder, free_alias
from compat.rocketmq import RocketMQOptions, start_rocketmq
from compat.server import Server
from compat.toolchain import HERE, JAVA_DIRECTORY, build_go, compile_java

KEPT_OF_A_KIND = 1
BODY_MAX = 6_000
# A broker says where its store is; the recorded one says nothing about the machine.
NEUTRAL = Path("/tmp/rocketmq")


def record(serialization: str, notes: list[Note]) -> None:
    """Play everything through recorders, client and broker both with this serialisation."""
    classes = compile_java(JAVA_DIRECTORY / "src" / "main" / "java")
    option = f"-Drocketmq.serialize.type={serialization}"
    name_port = free_port()
    name_alias = free_alias(name_port, free_port)
    directory = NEUTRAL / serialization.lower()
    shutil.rmtree(directory, ignore_errors=True)
    options = RocketMQOptions(
        jvm=(*RocketMQOptions().jvm, option), extra={"namesrvAddr": f"127.0.0.1:{name_alias}"}
    )  # fmt: skip
    ports: list[Recorder] = [Recorder(name_alias, name_port, notes=notes)]
    try:
        with start_rocketmq(classes, directory, options, name_port=name_port) as real:
            broker_alias = free_alias(real.broker_port, free_port)
            swap = (str(real.broker_port).encode(), str(broker_alias).encode())
            ports[0].replace = (b"127.0.0.1:" + swap[0], b"127.0.0.1:" + swap[1])
            ports.append(Recorder(broker_alias, real.broker_port, notes=notes))
            seen = Server(name_alias, broker_alias)
            with Driver(classes, directory / "driver", options=[option]) as driver:
                clients(driver, seen)
                tell(driver, seen)
            if serialization == "JSON":
                others(seen, directory)
            real.stop()
    finally:
        for port in ports:
            port.close()
        shutil.rmtree(directory, ignore_errors=True)


def clients(driver: Driver, server: Server) -> None:
    """The client calls that the told history does not make."""
    call, topic, where = driver.call, "Golden", {"nameServer": server.name_server}
    call("producer.start", name="g", group="golden-producers", compressOver=512, **where)
    messages = [message(f"golden {i}", tags="TagA", keys=f"key-{i}", shard=i) for i in range(3)]
    for mode in ("sync", "async", "oneway", "batch", "ordered"):
        call("producer.send", name="g", topic=topic, mode=mode, messages=messages)
    (sent,) = call("producer.send", name="g", topic=topic, mode="sync", messages=[message("z" * 2000)])
    kinds: dict[str, dict[str, Any]] = {
        "orderly": {"orderly": True}, "broadcast": {"broadcast": True}, "refuse": {"refuse": True},
        "last": {"from": "last"},
    }  # fmt: skip
    for name, options in kinds.items():
        call("consumer.push", name=name, group=f"golden-{name}", topic=topic, **options, **where)
        if name != "last":
            call("consumer.received", name=name, count=10, timeoutMs=30_000)
        call("consumer.stop", name=name)
    call("consumer.lite", name="lite", group="golden-lite", topic=topic, **where)
    call("consumer.poll", name="lite", count=10, timeoutMs=30_000)
    call("consumer.commit", name="lite")
    call("consumer.stop", name="lite")
    place: dict[str, Any] = {"topic": topic, "queueId": sent["queueId"], **where}
    for offset in (0, 9999):
        call("query.pull", offset=offset, expression="TagA", count=32, **place)
    call("query.byTime", timestamp=1, **place)
    call("query.offsets", **place)
    call("query.key", key="key-1", **place)
    call("offset.commit", offset=1, **place)
    call("offset.fetch", **place)
    # The id names the broker's own port; asked through the recorder's, it passes by the recorder.
    through = f"{sent['offsetMsgId'][:8]}{server.broker_port:08X}{sent['offsetMsgId'][16:]}"
    call("query.id", msgId=through, **place)
    try:
        call("producer.send", name="g", topic="bad name!", mode="sync", messages=messages)
    except CallFailed:
        pass
    call("query.stop")
    call("producer.stop", name="g")


def others(server: Server, directory: Path) -> None:
    """The clients that speak only JSON here: Go, and Java 5.2.0 for request-reply."""
    program = build_go(HERE / "go")
    for verb in ("sync", "batch", "oneway", "push"):
        flags = [f"-nameserver={server.name_server}", "-topic=GoldenGo", "-count=2", "-tag=A", "-group=golden-go"]
        subprocess.run([str(program), *flags, verb], check=True, timeout=60, stdout=subprocess.DEVNULL)
    reply = HERE / "java-5.2.0"
    classes = compile_java(reply / "src" / "main" / "java", pom=reply / "pom.xml")
    server.create_topic("GoldenReply")
    with Driver(classes, directory / "reply", main="dev.logherd.compat.ReplyDriver") as driver:
        driver.call("start", nameServer=server.name_server, topic="GoldenReply")
        driver.call("request", text="question", timeoutMs=30_000)


def keep(notes: list[Note], directory: Path) -> int:
    """Write one or two frames of each kind; how many were written."""
    directory.mkdir(parents=True, exist_ok=True)
    asked: dict[tuple[tuple[int, int], bool, int], int] = {}
    kinds: dict[tuple[Any, ...], int] = {}
    numbers: dict[str, int] = {}
    for note in notes:
        plain = describe(note.raw)
        if plain["flag"] & RESPONSE:
            request_code = asked.get((note.connection, not note.from_client, plain["opaque"]))
            if request_code is None:
                continue
        else:
            request_code = plain["code"]
            asked[note.connection, note.from_client, plain["opaque"]] = request_code
        expected = describe(note.raw, request_code)
        # Our own harness asks as "OTHER"; only real clients and brokers are golden.
        if expected["language"] == "OTHER" or expected["bodyLength"] > BODY_MAX:
            continue
        kind = (
            request_code, expected["direction"], expected["serialize"], expected["code"], expected["language"],
            frozenset(expected["extFields"]), expected["bodyForm"],
        )  # fmt: skip
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] > KEPT_OF_A_KIND:
            continue
        name = f"{request_code}-{expected['direction']}-{expected['serialize'].lower()}"
        numbers[name] = numbers.get(name, 0) + 1
        stem = f"{name}-{numbers[name]}"
        (directory / f"{stem}.bin").write_bytes(note.raw)
        (directory / f"{stem}.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
    return sum(numbers.values())


def main() -> None:
    directory = Path(sys.argv[1])
    if directory.exists():
        raise SystemExit(f"{directory} exists; golden frames are replaced on purpose only, so remove it first")
    notes: list[Note] = []
    for serialization in ("JSON", "ROCKETMQ"):
        record(serialization, notes)
    print(f"{keep(notes, directory)} frames in {directory}")


if __name__ == "__main__":
    main()
