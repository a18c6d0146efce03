"""The store's share of descriptors comes first."""

import json
import resource
from pathlib import Path

import pytest
from msgspec.structs import replace

from logherd.app.controllers.controller import shares_of
from logherd.app.descriptors import TooFewDescriptors, grant_descriptors, relays_for, share_descriptors, shares_for
from logherd.app.guarded.relay import WAITING_MAX
from logherd.settings.load import load_broker_options, load_controller_options
from logherd.settings.options import BrokerOptions, Endpoint
from logherd.store.index_set import INDEX_FILES_OPEN_MAX


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


class Granted:
    """What the system grants: a soft and a hard limit. Up to `most` it lets the soft one be raised."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, most: int = 1 << 20) -> None:
        self.soft, self.hard, self.most = soft, hard, most
        monkeypatch.setattr(resource, "getrlimit", lambda _: (self.soft, self.hard))
        monkeypatch.setattr(resource, "setrlimit", self.set)

    def set(self, _: int, limits: tuple[int, int]) -> None:
        if not 0 <= limits[0] <= self.most:
            raise ValueError("not allowed to raise maximum limit")
        self.soft, self.hard = limits


@pytest.mark.parametrize(
    ("soft", "hard", "granted"),
    [(1024, 4096, 4096), (4096, 4096, 4096), (1024, 1 << 30, 1024), (1024, resource.RLIM_INFINITY, 1024)],
)
def test_the_limit_is_raised_as_far_as_the_system_lets_it_and_believed_as_far(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, granted: int
) -> None:
    system = Granted(monkeypatch, soft, hard)
    assert (grant_descriptors(), system.soft) == (granted, granted)


@pytest.fixture
def options(tmp_path: Path) -> BrokerOptions:
    path = tmp_path / "broker.json"
    path.write_text(
        json.dumps({"brokerGroup": "g", "dataDir": str(tmp_path / "data"), "limits": {"connections": 5000}})
    )
    return load_broker_options(path)


def hold(options: BrokerOptions, name: str, count: int) -> None:
    directory = Path(options.data_dir) / name
    directory.mkdir(parents=True)
    for number in range(count):
        (directory / f"{number:020d}").touch()


def test_clients_get_what_the_files_leave_that_the_store_holds_and_those_that_its_log_will_begin(
    monkeypatch: pytest.MonkeyPatch, options: BrokerOptions
) -> None:
    Granted(monkeypatch, 1024, 1280)
    assert shares_for(options) == share_descriptors(1280, segments=20, connections=5000), "no store yet"
    hold(options, "commitlog", 100)
    assert shares_for(options) == share_descriptors(1280, segments=120, connections=5000)
    hold(options, "index", 1000)
    kept = INDEX_FILES_OPEN_MAX
    assert shares_for(options) == share_descriptors(1280, segments=120 + kept, connections=5000), "few are kept open"
    Granted(monkeypatch, 128, 128)
    with pytest.raises(TooFewDescriptors, match=f"with {100 + kept + 4} log files"):
        shares_for(options)


def test_connections_that_a_guardian_holds_over_are_kept_from_clients(
    monkeypatch: pytest.MonkeyPatch, options: BrokerOptions
) -> None:
    assert relays_for(options.guardian) == 0
    guardian = replace(options.guardian, relay_listen=Endpoint("127.0.0.1", 0))
    Granted(monkeypatch, 1280, 1280)
    without, shares = shares_for(options), shares_for(replace(options, guardian=guardian))
    assert 0 < without.broker_connections - shares.broker_connections <= WAITING_MAX
    used = 24 + WAITING_MAX + 2 * 20 + 2 * shares.cached_files + shares.broker_connections + shares.name_connections
    assert used <= 1280


def test_links_of_other_brokers_are_kept_from_clients(monkeypatch: pytest.MonkeyPatch, options: BrokerOptions) -> None:
    Granted(monkeypatch, 1280, 1280)
    without, shares = shares_for(options), shares_for(options, links=16)
    assert 0 < without.broker_connections - shares.broker_connections <= 16
    used = 24 + 16 + 2 * 20 + 2 * shares.cached_files + shares.broker_connections + shares.name_connections
    assert used <= 1280


@pytest.mark.parametrize(("snapshot", "files"), [("64MiB", 64), ("1GiB", 260), ("4GiB", 1028)])
def test_a_controllers_clients_leave_what_its_log_needs_before_the_second_snapshot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, snapshot: str, files: int
) -> None:
    path = tmp_path / "controller.json"
    member = {"name": "c-0", "peer": "127.0.0.1:1", "address": "127.0.0.1:2"}
    path.write_text(json.dumps({
        "nodeName": "c-0", "controllers": [member], "dataDir": str(tmp_path), "snapshotBytes": snapshot,
    }))  # fmt: skip
    options = load_controller_options(path)
    Granted(monkeypatch, 4096, 4096)
    assert shares_of(options) == share_descriptors(4096, segments=files, connections=5000)
    Granted(monkeypatch, 2 * files, 2 * files)
    with pytest.raises(TooFewDescriptors, match=f"with {files} log files"):
        shares_of(options)
