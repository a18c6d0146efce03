"""PROXY v2, byte for byte."""

from logherd_guardian.proxy import proxy_header

SIGNATURE = "0d0a0d0a000d0a515549540a"
NAMES = "e0" + "0005" + b"names".hex()


def test_the_header_of_a_v4_connection() -> None:
    header = proxy_header(("10.1.2.3", 40_000), ("192.168.0.9", 10_911), "names")
    assert header.hex() == SIGNATURE + "21" + "11" + "0014" + "0a010203" + "c0a80009" + "9c40" + "2a9f" + NAMES


def test_the_header_of_a_v6_connection() -> None:
    header = proxy_header(("2001:db8::1", 1), ("fe80::2%eth0", 65_535), "names")
    addresses = "20010db8000000000000000000000001" + "fe800000000000000000000000000002"
    assert header.hex() == SIGNATURE + "21" + "21" + "002c" + addresses + "0001" + "ffff" + NAMES


def test_a_mapped_v4_address_is_shown_as_v4() -> None:
    mapped = proxy_header(("::ffff:10.1.2.3", 5), ("::ffff:10.1.2.4", 6), "a")
    assert mapped == proxy_header(("10.1.2.3", 5), ("10.1.2.4", 6), "a")


def test_what_is_no_pair_of_addresses_is_local() -> None:
    local = SIGNATURE + "20" + "00" + "0008" + NAMES
    assert proxy_header(("somewhere", 1), ("10.0.0.1", 2), "names").hex() == local
    assert proxy_header(("10.0.0.1", 1), ("::1", 2), "names").hex() == local
    assert proxy_header(("", 1), ("", 2), "names").hex() == local
