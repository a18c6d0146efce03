"""Which queue a key belongs to: as RocketMQ's SelectMessageQueueByHash, so that Java producers and Spark agree.

Source: apache/rocketmq: client/.../producer/selector/SelectMessageQueueByHash.java
"""

from typing import Any

import numpy as np
import pyarrow as pa

from logherd.kit.javahash import java_hash

__all__ = ["hashes_of"]


def hashes_of(keys: pa.Array) -> Any:
    """Java's `String.hashCode` of each key (a string array without nulls), as i64 without a sign."""
    count = len(keys)
    if not count:
        return np.zeros(0, np.int64)
    edges = np.frombuffer(keys.buffers()[1], np.int32, count + 1, keys.offset * 4)
    data = np.frombuffer(keys.buffers()[2] or b"", np.uint8)[edges[0] : edges[-1]]
    starts, ends = edges[:-1] - edges[0], edges[1:] - edges[0]
    if (data > 0x7F).any():
        found = np.array([java_hash(key) for key in keys.to_pylist()], np.int64)
        return np.abs(found)
    lengths = ends - starts
    powers = np.ones(int(lengths.max()) + 1, np.uint32)
    with np.errstate(over="ignore"):
        powers[1:] = np.multiply.accumulate(np.full(len(powers) - 1, 31, np.uint32))
        places = np.repeat(ends, lengths) - 1 - np.arange(len(data))
        terms = data * powers[places]
        sums = np.concatenate(([0], np.cumsum(terms, dtype=np.uint32)))
        found = (sums[ends] - sums[starts]).astype(np.uint32).view(np.int32).astype(np.int64)
    return np.abs(found)
