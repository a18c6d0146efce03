"""What a benchmark samples while it measures must be true, and cheap enough not to be seen in what it measures."""

import os
from pathlib import Path

from bench.sampling import Sampler, anonymous_bytes

SIZE = 64 << 20


def _walked_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))


def test_anonymous_memory_is_what_the_page_tables_say() -> None:
    held = b"x" * SIZE
    assert abs(anonymous_bytes(os.getpid()) - _walked_bytes(os.getpid())) < SIZE // 16
    assert len(held) == SIZE


def test_a_sampler_sees_the_highest_anonymous_memory() -> None:
    with Sampler([os.getpid()], every_s=0.001) as sampler:
        held = b"x" * SIZE
        # What else this process holds may shrink at any time: other tests ran in it.
        there = anonymous_bytes(os.getpid())
        while sampler.anonymous_max < there - SIZE // 4:  # ends with the next sample
            pass
        assert len(held) == SIZE
        del held
    assert there - SIZE // 4 <= sampler.anonymous_max < there + SIZE
