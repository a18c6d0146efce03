"""Who a data directory is, over crashes and against every contradiction."""

import json
from random import Random

import pytest

from logherd.peers.errors import IdentityError
from logherd.peers.identity import Identity, keep_identity, make_identity, name_of, open_identity
from sim.disk import SimDisk, SimulatedCrash
from unit.peers.fakes import replica

ROOT = "/data"
PATH = f"{ROOT}/identity.json"
FOUNDERS = (replica("a"), replica("b"))


def new_disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory(ROOT)
    disk.sync_dir("/")
    return disk


def opened(disk: SimDisk, *, cluster: str = "c1", name: str = "a", log_empty: bool = True) -> Identity:
    return open_identity(disk, ROOT, cluster=cluster, name=name, log_empty=log_empty)


def content(disk: SimDisk) -> bytes:
    return disk.open(PATH).read(0, 1 << 20)


def put(disk: SimDisk, data: bytes) -> None:
    disk.unlink(PATH)
    disk.open(PATH, create=True).write(0, [data])


def test_an_identity_is_the_name_and_sixteen_digits() -> None:
    made = make_identity("ctl-0.ctl")
    assert name_of(made) == "ctl-0.ctl"
    assert len(made) == len("ctl-0.ctl") + 17
    assert make_identity("ctl-0.ctl") != made


@pytest.mark.parametrize("name", ["", ".a", "-a", "a b", "a/b", "a\n", "ä", "n" * 128])
def test_a_name_that_does_not_qualify_is_refused(name: str) -> None:
    with pytest.raises(IdentityError):
        make_identity(name)


@pytest.mark.parametrize("text", ["", "a", "a.1", "a.000000000000000", "a.000000000000000A", ".0000000000000001"])
def test_what_is_no_identity_has_no_name(text: str) -> None:
    with pytest.raises(IdentityError):
        name_of(text)


def test_a_new_directory_draws_its_incarnation_and_keeps_it() -> None:
    disk = new_disk()
    first = opened(disk)
    assert first == Identity(cluster="c1", replica=first.replica)
    assert opened(disk.crash(Random(1), power=True)) == first
    assert opened(new_disk()) != first


def test_the_file_is_what_the_text_says() -> None:
    disk = new_disk()
    keep_identity(disk, ROOT, Identity(cluster="c1", replica=replica("a"), founders=FOUNDERS, reset=2, founded=True))
    assert json.loads(content(disk)) == {
        "format": 1, "cluster": "c1", "name": "a", "incarnation": "0000000000000001",
        "founding": {"founders": ["a.0000000000000001", "b.0000000000000001"], "reset": 2}, "founded": True,
    }  # fmt: skip
    assert opened(disk, log_empty=False) == Identity(
        cluster="c1", replica=replica("a"), founders=FOUNDERS, reset=2, founded=True
    )


def test_whoever_is_not_among_the_founders_is_a_stranger() -> None:
    assert not Identity(cluster="c1", replica=replica("a")).stranger
    assert not Identity(cluster="c1", replica=replica("a"), founders=FOUNDERS).stranger
    assert Identity(cluster="c1", replica=replica("a", 2), founders=FOUNDERS).stranger


def test_another_cluster_or_name_is_refused_by_name() -> None:
    disk = new_disk()
    opened(disk)
    before = content(disk)
    with pytest.raises(IdentityError, match="belongs to the cluster 'c1', not to 'c2'"):
        opened(disk, cluster="c2")
    with pytest.raises(IdentityError, match="belongs to the node 'a', not to 'b'"):
        opened(disk, name="b")
    assert content(disk) == before


def test_a_member_whose_log_is_gone_is_refused() -> None:
    disk = new_disk()
    keep_identity(disk, ROOT, Identity(cluster="c1", replica=replica("a"), founders=FOUNDERS, founded=True))
    with pytest.raises(IdentityError, match="the log beside it is empty"):
        opened(disk)


def test_a_log_whose_identity_is_gone_is_refused() -> None:
    disk = new_disk()
    with pytest.raises(IdentityError, match="is gone, but the log beside it holds promises"):
        opened(disk, log_empty=False)
    assert disk.size(PATH) is None


def test_a_log_beside_a_new_identity_is_refused() -> None:
    disk = new_disk()
    opened(disk)
    with pytest.raises(IdentityError, match="knows no founders"):
        opened(disk, log_empty=False)


def test_an_interrupted_founding_opens_with_and_without_a_log() -> None:
    disk = new_disk()
    kept = keep_identity(disk, ROOT, Identity(cluster="c1", replica=replica("a"), founders=FOUNDERS))
    assert opened(disk) == kept
    assert opened(disk, log_empty=False) == kept


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b"\xff", b'{"format":1}', b"[" * 100_000, b'{"format":1,"cluster":"c1","name":"a"}',
     b'{"format":1,"cluster":"c1","name":"a","incarnation":"1"}',
     b'{"format":1,"cluster":"c1","name":"a","incarnation":"0000000000000001","founded":true}',
     b'{"format":1,"cluster":"c1","name":"a","incarnation":"0000000000000001","founding":{"founders":["b"],"reset":0}}'],
)  # fmt: skip
def test_a_damaged_file_is_refused_and_left_alone(data: bytes) -> None:
    disk = new_disk()
    put(disk, data)
    with pytest.raises(IdentityError):
        opened(disk)
    assert content(disk) == data


def test_a_later_format_is_refused_by_its_number() -> None:
    disk = new_disk()
    put(disk, b'{"format":2,"unheard":"of"}')
    with pytest.raises(IdentityError, match="is of format 2; this release knows 1"):
        opened(disk)


@pytest.mark.parametrize(("there", "field"), [(b'"format":1', b"promised"), (b'"reset":0', b"rebuilt")])
def test_what_a_later_release_adds_is_refused_by_name(there: bytes, field: bytes) -> None:
    """It would be gone with the next write."""
    disk = new_disk()
    keep_identity(disk, ROOT, Identity(cluster="c1", replica=replica("a"), founders=FOUNDERS))
    changed = content(disk).replace(there, there + b',"' + field + b'":7')
    put(disk, changed)
    with pytest.raises(IdentityError, match=f"unknown field `{field.decode()}`"):
        opened(disk, log_empty=False)
    assert content(disk) == changed


@pytest.mark.parametrize("power", [False, True])
def test_whenever_it_stops_the_incarnation_is_the_one_that_was_seen(power: bool) -> None:
    for seed in range(60):
        disk = new_disk()
        disk.crash_after(seed % 10 + 1)
        seen = None
        try:
            seen = opened(disk)
        except SimulatedCrash:
            pass
        disk = disk.crash(Random(seed), power=power)
        again = opened(disk)
        assert seen in (None, again)
        assert opened(disk.crash(Random(seed + 1), power=True)) == again
