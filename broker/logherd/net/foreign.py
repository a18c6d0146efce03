"""Recognises, by its first bytes, a peer that speaks something else on our port, so that the log can name it."""

__all__ = ["foreign_protocol"]

_TLS_HANDSHAKE = 0x16
_PROXY_V2 = b"\r\n\r\n\x00\r\nQUIT\n"
_HTTP_METHODS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI ")


def foreign_protocol(start: bytes) -> str | None:
    """The name of the other protocol, or None for what may be a frame.

    A frame starts with its length, so its first byte is 0 or 1 within any sensible limit; one byte is enough to refuse.
    """
    if not start or start[0] <= 1:
        return None
    if start[0] == _TLS_HANDSHAKE:
        return "a TLS ClientHello; this port is plain"
    if start[0] == _PROXY_V2[0]:
        return "a PROXY protocol v2 preamble; none is expected here"
    if len(start) >= 3 and b"PROXY ".startswith(start[:6]):
        return "a PROXY protocol v1 preamble; none is expected here"
    if start[:4] in _HTTP_METHODS:
        return "an HTTP request; this is the remoting port"
    return None
