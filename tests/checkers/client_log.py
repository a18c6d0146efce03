"""What a stock client logs of its connections: requests that it left waiting on one that it knew had ended.

When a connection ends, RocketMQ 5.3.3 fails what waits on it only if no other thread has asked for a new connection in
between ("has been removed from the channel table before"). If one has, each waits for its whole time-out, and then the
client closes the connection that has been gone all the while. No broker can do anything about that.

Source: apache/rocketmq 5.3.3: NettyRemotingClient, eventCloseChannel and invokeSync
"""

import re

__all__ = ["stranded_requests"]

_ENDED = re.compile(r"channelInactive, the channel\[addr=[^,\]]+, id=(\w+)\]")
_TIMED_OUT = re.compile(r"close socket because of timeout, \d+ms, channel\[addr=[^,\]]+, id=(\w+)\]")


def stranded_requests(log: str) -> int:
    """How many requests timed out on a connection that had ended before, by the text of `remoting.log`."""
    ended: set[str] = set()
    count = 0
    for line in log.splitlines():
        if found := _ENDED.search(line):
            ended.add(found[1])
        elif (found := _TIMED_OUT.search(line)) and found[1] in ended:
            count += 1
    return count
