"""What a full disk has left for metadata, of segments of every length."""

import pytest

from logherd.store import LogOptions

MIB = 1 << 20


@pytest.mark.parametrize("mib", [1, 2, 8, 16, 32, 64, 128, 256, 1024, 4096])
def test_h4_a_group_has_room_for_metadata_and_clients_have_some_of_each_segment(mib: int) -> None:
    options = LogOptions(segment_bytes=mib * MIB)
    kept = options.kept_bytes(options.segment_bytes)
    usable = kept - options.foreign_bytes(options.segment_bytes)
    assert usable == min(8 * MIB, options.segment_bytes // 8)
    assert options.segment_bytes - kept >= options.segment_bytes * 3 // 8


@pytest.mark.parametrize("mib", [1, 8, 64, 128, 1024])
def test_no_record_of_another_replica_needs_a_further_segment_before_it_is_waited_for(mib: int) -> None:
    options = LogOptions(segment_bytes=mib * MIB)
    longest = options.foreign_bytes(options.segment_bytes)
    assert options.record_bytes_limit <= longest <= options.foreign_record_bytes_max
