"""The stock client for Python as a test program: one verb, a count of messages, JSON lines of what happened.

    python program.py --name-server 127.0.0.1:9876 --topic T --count 20 sync|async|oneway|batch|orderly|push|poll|keep

It is `rocketmq` of PyPI, ctypes over the C++ client; the client of RocketMQ 4 for Python.
`keep` sends with four threads and receives at the same time until its input ends, and tells all of it then.
"""

import argparse
import hashlib
import itertools
import json
import queue
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer, RecvMessage, SendResult
from rocketmq.exceptions import ProducerException

PAUSE_SECONDS = 0.02
ATTEMPTS = 10
_lock = threading.Lock()


def say(**line: Any) -> None:
    with _lock:
        print(json.dumps(line), flush=True)


def message(given: argparse.Namespace, text: str) -> Message:
    made = Message(given.topic)
    made.set_body(text.ljust(given.size, "x"))
    made.set_keys(f"key-{text}")
    made.set_property("said by", "Python")
    if given.tag != "*":
        made.set_tags(given.tag)
    return made


def answered(result: SendResult) -> None:
    say(status=int(result.status), msgId=result.msg_id, offset=result.offset)


def producing(given: argparse.Namespace) -> Producer:
    producer = Producer(f"{given.group}-producer")
    producer.set_namesrv_addr(given.name_server)
    producer.start()
    return producer


def send(given: argparse.Namespace) -> None:
    producer = producing(given)
    made = [message(given, f"python-{i}-") for i in range(given.count)]
    if given.verb == "batch":
        answered(insist(lambda: producer.send_batch(made)))
    elif given.verb == "async":
        send_all_at_once(producer, made, given.seconds)
    elif given.verb == "oneway":
        # An answer to the last one says that all before it on this connection have arrived.
        for each in made[:-1]:
            producer.send_oneway(each)
        insist(lambda: producer.send_sync(made[-1]))
    elif given.verb == "orderly":
        for i, each in enumerate(made):
            answered(insist(partial(producer.send_orderly, each, i % 2)))
    else:
        for each in made:
            answered(insist(partial(producer.send_sync, each)))
    producer.shutdown()


def insist(send: Callable[[], SendResult]) -> SendResult:
    """This client refuses a send at once, with each of its own attempts, while its heartbeats' thread connects."""
    for _ in range(ATTEMPTS - 1):
        try:
            return send()
        except ProducerException as error:
            print(f"sent again: {error}", file=sys.stderr)
            time.sleep(PAUSE_SECONDS)
    return send()


def send_all_at_once(producer: Producer, made: list[Message], seconds: float) -> None:
    """Without waiting for one before the next; what is refused is sent again, as in `insist`."""
    outcomes: queue.Queue[tuple[Message, SendResult | Exception]] = queue.Queue()

    def start(each: Message) -> None:
        producer.send_async(each, lambda result: outcomes.put((each, result)), lambda e: outcomes.put((each, e)))

    for each in made:
        start(each)
    left, again = len(made), ATTEMPTS
    while left:
        each, outcome = outcomes.get(timeout=seconds)
        if isinstance(outcome, Exception) and again:
            print(f"sent again: {outcome}", file=sys.stderr)
            again -= 1
            time.sleep(PAUSE_SECONDS)
            start(each)
            continue
        left -= 1
        if isinstance(outcome, Exception):
            say(error=str(outcome))
        else:
            answered(outcome)


def received(got: RecvMessage) -> None:
    say(
        msgId=got.id, queueId=got.queue_id, offset=got.queue_offset, tags=got.tags.decode(), keys=got.keys.decode(),
        said=got.get_property("said by").decode(), sha256=hashlib.sha256(got.body).hexdigest(),
    )  # fmt: skip


def consuming(given: argparse.Namespace, take: Callable[[RecvMessage], None]) -> PushConsumer:
    consumer = PushConsumer(given.group, orderly=given.verb == "orderly-push")
    consumer.set_namesrv_addr(given.name_server)
    consumer.subscribe(given.topic, take, given.tag)
    consumer.start()
    return consumer


def push(given: argparse.Namespace) -> None:
    taken = threading.Semaphore(0)

    def take(got: RecvMessage) -> None:
        received(got)
        taken.release()

    consumer = consuming(given, take)
    deadline = time.monotonic() + given.seconds
    for _ in range(given.count):
        taken.acquire(timeout=max(deadline - time.monotonic(), 0))
    consumer.shutdown()


def poll(given: argparse.Namespace) -> None:
    consumer = PullConsumer(given.group)
    consumer.set_namesrv_addr(given.name_server)
    consumer.start()
    seen, deadline = 0, time.monotonic() + given.seconds
    while seen < given.count and time.monotonic() < deadline:
        for got in consumer.pull(given.topic, given.tag):
            received(got)
            seen += 1
    consumer.shutdown()


def keep(given: argparse.Namespace) -> None:
    seen: list[str] = []
    consumer = consuming(given, lambda got: seen.append(got.body.decode()))
    producer = producing(given)
    sent, failed = list[str](), list[str]()
    ended = threading.Event()

    def work(thread: int) -> None:
        for i in itertools.count():
            if ended.is_set():
                return
            text = f"{thread}-{i}-".ljust(given.size, "x")
            try:
                if producer.send_sync(message(given, f"{thread}-{i}-")).status == 0:
                    sent.append(text)
                else:
                    failed.append(text)
            except Exception as error:
                failed.append(f"{text}: {error}")
            if i == 0:
                say(began=thread)
            time.sleep(PAUSE_SECONDS)

    with ThreadPoolExecutor(4) as threads:
        working = [threads.submit(work, thread) for thread in range(4)]
        sys.stdin.read()
        ended.set()
    for each in working:
        each.result()
    deadline = time.monotonic() + given.seconds
    while not set(seen) >= set(sent) and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
    say(sent=sent, failed=failed, seen=seen)
    consumer.shutdown()
    producer.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name-server", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", default="python-group")
    parser.add_argument("--tag", default="*")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("verb")
    given = parser.parse_args()
    {"push": push, "orderly-push": push, "poll": poll, "keep": keep}.get(given.verb, send)(given)


if __name__ == "__main__":
    main()
