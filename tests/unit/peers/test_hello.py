"""Hellos, refusals and the rules between them."""

import json
from dataclasses import fields, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logherd.peers.errors import CodecError
from logherd.peers.hello import (
    PROTOCOL_VERSION,
    REVISION,
    Hello,
    Refusal,
    RefusalCode,
    decode_hello,
    decode_refusal,
    encode_hello,
    encode_refusal,
    judge_hello,
)
from logherd.replication.messages import ClusterId, ReplicaId
from unit.peers.fakes import CLUSTER, hello_of, replica

OURS = hello_of("a", instance=1, to="b")
THEIRS = hello_of("b", instance=2, to="a")
FOUNDERS = (replica("a"), replica("b"), replica("c"))


def judged(
    theirs: Hello | int, ours: Hello = OURS, *, dialled: str | None = None, living: tuple[int, ...] = ()
) -> object:
    refusal = judge_hello(theirs, ours, dialled=dialled, known=("b", "c"), living=living)
    return None if refusal is None else refusal.code


def test_a_hello_has_the_bytes_of_version_one() -> None:
    hello = hello_of("b", instance=2**64 - 1, to="a", founded=FOUNDERS, nodes=("a", "b"))
    assert encode_hello(hello) == (
        b"\x01\x00\x01"
        b'{"cluster":{"name":"c1","reset":0},"sender":"b.0000000000000001","instance":18446744073709551615,'
        b'"segment_bytes":1048576,"founded":["a.0000000000000001","b.0000000000000001","c.0000000000000001"],'
        b'"software":"test","nodes":["a","b"],"bare_end":0,"about":"","revision":0,"to":"a","version":1}'
    )
    assert decode_hello(encode_hello(hello)) == hello


def test_a_hello_without_group_stays_without() -> None:
    assert decode_hello(encode_hello(THEIRS)) == THEIRS
    assert THEIRS.founded is None


def test_who_says_no_revision_is_of_the_first_release() -> None:
    data = json.loads(encode_hello(replace(THEIRS, revision=REVISION))[3:])
    assert data.pop("revision") == 1
    assert decode_hello(b"\x01\x00\x01" + json.dumps(data).encode()) == THEIRS
    assert THEIRS.revision == 0


def test_fields_of_a_later_release_are_passed_over() -> None:
    data = json.loads(encode_hello(THEIRS)[3:]) | {"later": [1]}
    assert decode_hello(b"\x01\x00\x01" + json.dumps(data).encode()) == THEIRS


def test_of_another_version_only_the_number_is_read() -> None:
    assert decode_hello(b"\x01\x00\x07\xff\xff") == 7


def changed(**changes: object) -> bytes:
    return b"\x01\x00\x01" + json.dumps(json.loads(encode_hello(THEIRS)[3:]) | changes).encode()


@pytest.mark.parametrize(
    "data",
    [b"", b"\x01", b"\x02\x00\x01{}", b"\x01\x00\x01", b"\x01\x00\x01{}", b"\x01\x00\x01[]", b"\x01\x00\x01\xff",
     b"\x01\x00\x01" + b"[" * 5_000, changed(sender="b"), changed(sender="../b.0000000000000001"),
     changed(sender="b.000000000000000G"), changed(founded=["x"]), changed(founded=[]), changed(instance=-1),
     changed(instance=2**64), changed(segment_bytes=-1), changed(cluster={"name": "", "reset": 0}),
     changed(bare_end=-1), changed(revision=-1), changed(revision=True),
     changed(cluster={"name": "c1", "reset": -1}), changed(software="s" * 256), changed(nodes=["n"] * 65),
     changed(version=2), changed(instance=1.5), changed(sender=None), changed(founded=[FOUNDERS[0]] * 65)],
)  # fmt: skip
def test_a_malformed_hello_is_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        decode_hello(data)


@given(st.binary(max_size=100))
def test_only_the_codecs_own_error_comes_out_of_any_bytes(data: bytes) -> None:
    for prefix in (b"", b"\x01\x00\x01", b"\x01\x00\x01{"):
        for decode in (decode_hello, decode_refusal):
            try:
                decode(prefix + data)
            except CodecError:
                pass


def test_only_the_codecs_own_error_comes_out_of_a_damaged_hello() -> None:
    whole = encode_hello(replace(THEIRS, founded=FOUNDERS))
    draw = Random(5)
    for _ in range(2_000):
        damaged = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            damaged[draw.randrange(3, len(damaged))] = draw.randrange(256)
        try:
            found = decode_hello(bytes(damaged))
        except CodecError:
            continue
        assert isinstance(found, Hello)
        judge_hello(found, OURS, dialled=None, known=("b", "c"), living=())


@pytest.mark.parametrize("code", RefusalCode)
def test_a_refusal_is_a_code_and_a_sentence(code: RefusalCode) -> None:
    refusal = Refusal(code, "this is the cluster 'ü'")
    assert encode_refusal(refusal) == bytes((2, code)) + "this is the cluster 'ü'".encode()
    assert decode_refusal(encode_refusal(refusal)) == refusal


def test_a_refusal_of_a_later_release_keeps_its_sentence() -> None:
    assert decode_refusal(b"\x02\xeewhy") == Refusal(RefusalCode.UNKNOWN, "why")


def test_a_long_sentence_is_cut() -> None:
    assert len(encode_refusal(Refusal(RefusalCode.CLUSTER, "é" * 5_000))) == 1026
    with pytest.raises(CodecError):
        decode_refusal(b"\x02\x03" + b"x" * 1025)


def test_equals_talk() -> None:
    assert judged(THEIRS) is None
    assert judged(THEIRS, dialled="b") is None
    assert judged(replace(THEIRS, founded=FOUNDERS), replace(OURS, founded=FOUNDERS[::-1])) is None


def test_another_protocol_version_is_refused() -> None:
    assert judged(PROTOCOL_VERSION + 1) is RefusalCode.VERSION


def test_another_cluster_is_refused() -> None:
    assert judged(replace(THEIRS, cluster=ClusterId("c2"))) is RefusalCode.CLUSTER


def test_another_reset_is_refused_between_members_only() -> None:
    rebuilt = replace(THEIRS, cluster=ClusterId(CLUSTER.name, 1), founded=FOUNDERS)
    assert judged(rebuilt, replace(OURS, founded=FOUNDERS)) is RefusalCode.RESET
    assert judged(rebuilt) is None
    assert judged(replace(rebuilt, founded=None), replace(OURS, founded=FOUNDERS)) is None


def test_a_node_that_was_not_meant_is_refused_on_both_sides() -> None:
    assert judged(replace(THEIRS, to="c")) is RefusalCode.ADDRESSEE
    assert judged(THEIRS, dialled="c") is RefusalCode.ADDRESSEE


def test_the_own_name_is_refused() -> None:
    assert judged(hello_of("a", incarnation=2, to="a")) is RefusalCode.SAME_NAME
    itself = judge_hello(replace(OURS, to="a"), OURS, dialled="a", known=("a",), living=())
    assert itself == Refusal(RefusalCode.SAME_NAME, "a has dialled itself")


def test_a_node_that_no_configuration_names_is_refused() -> None:
    assert judged(hello_of("d", to="a")) is RefusalCode.UNKNOWN_NODE


def test_other_segments_are_refused() -> None:
    assert judged(replace(THEIRS, segment_bytes=4096)) is RefusalCode.SEGMENT_BYTES


def test_a_replica_of_another_mode_is_refused_unless_one_of_them_does_not_say() -> None:
    """An epoch of mode static is above all that controllers ever come to, and whoever has heard of it keeps it."""
    controller, static = '{"mode":"controller"}', '{"mode":"static","address":"a:1"}'
    ours = replace(OURS, about=controller)
    assert judged(replace(THEIRS, about=static), ours) is RefusalCode.MODE
    assert judged(replace(THEIRS, about=controller), ours) is None
    for silent in ("", "{}", "[", '{"mode":1}', "[" * 4000):
        assert judged(replace(THEIRS, about=silent), ours) is None
        assert judged(replace(THEIRS, about=static), replace(OURS, about=silent)) is None


def test_members_of_another_founding_are_refused() -> None:
    other = (replica("a", 9), *FOUNDERS[1:])
    assert judged(replace(THEIRS, founded=other), replace(OURS, founded=FOUNDERS)) is RefusalCode.FOUNDERS
    assert judged(replace(THEIRS, founded=other)) is None


def test_unequal_lists_of_nodes_are_refused_while_nobody_has_founded() -> None:
    here, there = replace(OURS, nodes=("a", "b")), replace(THEIRS, nodes=("b", "a"))
    assert judged(there, here) is RefusalCode.NODES
    assert judged(replace(there, founded=FOUNDERS), here) is None
    assert judged(replace(there, nodes=()), here) is None


def test_a_second_living_process_of_a_name_is_refused() -> None:
    assert judged(THEIRS, living=(3,)) is RefusalCode.TWIN
    assert judged(THEIRS, living=(2, 3)) is RefusalCode.TWIN
    assert judged(replace(THEIRS, sender=replica("b", 7)), living=(3,)) is RefusalCode.TWIN


def test_a_reconnect_of_the_same_process_is_no_second_one() -> None:
    assert judged(THEIRS, living=(2, 2)) is None


def test_a_wiped_node_may_talk() -> None:
    assert judged(hello_of("b", incarnation=2, to="a"), replace(OURS, founded=FOUNDERS)) is None


def test_every_refusal_says_what_is_wrong_with_both_values() -> None:
    refusal = judge_hello(replace(THEIRS, segment_bytes=4096), OURS, dialled=None, known=("b",), living=())
    assert refusal is not None
    assert refusal.sentence == "segments have 1048576 bytes here and 4096 there"


def test_no_field_of_a_hello_goes_unchecked() -> None:
    """Whoever adds a field decides whether it is compared."""
    assert {field.name for field in fields(Hello)} == {
        "cluster", "sender", "instance", "segment_bytes", "founded", "software", "nodes", "bare_end", "about",
        "revision", "to", "version",
    }  # fmt: skip
    assert ReplicaId(OURS.sender) == replica("a")
