"""The checks themselves: what they must not take for right."""

from logherd.model.names import Epoch
from logherd.raft.record import Kind
from sim.groups.checks import is_flushed
from sim.groups.volume import GroupVolume


def test_what_replaces_a_flushed_record_is_not_flushed_because_the_old_one_was() -> None:
    volume = GroupVolume("s1", {})
    store = volume.store
    at = store.append(Kind.DATA, Epoch(1), b"1")
    old = store.append(Kind.DATA, Epoch(1), b"2")
    store.flush(store.begin_flush())
    assert is_flushed(volume, old)
    store.truncate(at)
    new = store.append(Kind.DATA, Epoch(2), b"3")
    assert new == old <= volume.disk.end
    assert not is_flushed(volume, new)
    assert is_flushed(volume, at)
    store.flush(store.begin_flush())
    assert is_flushed(volume, new)
