"""The store's share of descriptors comes first."""

import pytest

from logherd.app.descriptors import TooFewDescriptors, share_descriptors


@pytest.mark.parametrize("granted", [64, 256, 1024, 4096, 20_000, 1 << 20])
@pytest.mark.parametrize("segments", [5, 50, 400])
def test_shares_never_exceed_what_is_granted(granted: int, segments: int) -> None:
    try:
        shares = share_descriptors(granted, segments=segments, connections=5000)
    except TooFewDescriptors:
        assert granted <= 1024
        return
    used = 24 + 2 * segments + 2 * shares.cached_files + shares.broker_connections + shares.name_connections
    assert used <= granted
    assert 4 <= shares.cached_files <= 512
    assert 8 <= shares.broker_connections <= 5000
    assert 8 <= shares.name_connections <= 5000


def test_enough_descriptors_allow_what_the_settings_do() -> None:
    shares = share_descriptors(20_000, segments=100, connections=5000)
    assert (shares.cached_files, shares.broker_connections) == (512, 5000)
    assert share_descriptors(-1, segments=100, connections=7).broker_connections == 7


def test_what_is_needed_is_named() -> None:
    with pytest.raises(TooFewDescriptors, match="with 20 log files it needs 88"):
        share_descriptors(70, segments=20, connections=5000)
    assert share_descriptors(88, segments=20, connections=5000).broker_connections == 8
