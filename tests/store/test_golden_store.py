"""One small store, byte for byte: a release that writes another one must know that it does, and still open this one."""

from hashlib import blake2b

from unit.store.helpers import SimClock, SimDisk, append, bodies, flush, open_store

GOLDEN: dict[str, tuple[int, str]] = {
    "/data/checkpoint": (4096, "8d4bdb09d899cc39"),
    "/data/commitlog/00000000000000000000": (8192, "fbd50b0126305395"),
    "/data/commitlog/00000000000000008192": (8192, "d29fb9c1a61f413d"),
    "/data/consumequeue/%RETRY%g/0/00000000000000000000": (140, "e91fb79bbba9fe03"),
    "/data/consumequeue/%RETRY%g/1/00000000000000000000": (140, "7f4bee8159799378"),
    "/data/consumequeue/Orders/0/00000000000000000000": (260, "818b6d39b847942c"),
    "/data/consumequeue/Orders/1/00000000000000000000": (260, "aae236f2104084d4"),
    "/data/index/20231114221320000": (568, "afa29d653ded8319"),
    "/data/index/20231114221321500": (568, "d1f85d1a6be12bea"),
    "/data/index/20231114221323000": (568, "1085241a28443b1e"),
    "/data/index/20231114221324750": (568, "3372ec1e1c2ef0bb"),
    "/data/index/20231114221326250": (568, "badc7613767a8a6e"),
    "/data/index/20231114221327750": (568, "f6a4aef30e8715e2"),
    "/data/index/20231114221329500": (308, "233284734deaa547"),
    "/data/queues": (269, "41900870822ce929"),
    "/data/store.json": (123, "cfa7e642a65eacea"),
}


def written_store():
    disk = SimDisk()
    store = open_store(disk, clock=SimClock())
    for number in range(40):
        append(
            store,
            "Orders" if number % 3 else "%RETRY%g",
            number % 2,
            body=b"body %d" % number * 9,
            properties=b"UNIQ_KEY\x017F000001%08d\x02KEYS\x01a b\x02TAGS\x01t%d\x02" % (number, number % 2),
            at=1_700_000_000_000 + 250 * number,
        )
    flush(store)
    store.close()
    return disk


def digests(disk):
    volatile = ("/data/lock", "/data/abort")
    return {
        path: (inode.size, blake2b(inode.content(), digest_size=8).hexdigest())
        for path, inode in sorted(disk.names.items()) if path not in volatile
    }  # fmt: skip


def test_a_store_is_written_byte_for_byte_as_in_this_format():
    assert digests(written_store()) == GOLDEN


def test_the_golden_store_is_opened_as_it_was_closed():
    store = open_store(written_store())
    assert store.recovery.notes == ("ours: the usual case",)
    assert sum(len(bodies(store, topic, queue)) for topic in ("Orders", "%RETRY%g") for queue in (0, 1)) == 40
