import msgspec


def encode_header(h: msgspec.Struct) -> dict[str, str]:
    return {k: str(v) for k, v in msgspec.structs.asdict(h).items()}
