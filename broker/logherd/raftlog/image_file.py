"""One image as a file of its own, `images/<20-digit position>-<20-digit epoch>`: a codec, no file.

    0 magic "LHIMAGE\\0" | 8 version u16 | 10 reserved u16 | 12 length u32 | 16 crc32 | 20 description     big-endian
    then the image's own bytes, whose length and CRC-32 the description says

The description is compact JSON: {"identity","epoch","position","seal","checksum","size","note"}, the note in base64.
"""

from struct import Struct

import msgspec

from logherd.kit.checksum import crc32
from logherd.model.names import Epoch, Position
from logherd.replication.epochs import Point
from logherd.replication.log import Image
from logherd.store.errors import StoreVersionError

__all__ = ["decode_image", "encode_image_head", "image_name", "image_place"]

_MAGIC = b"LHIMAGE\0"
_VERSION = 1
_HEAD = Struct(">8sHHII")
_DIGITS = 20


class _Description(msgspec.Struct, frozen=True):
    identity: str
    epoch: int
    position: int
    seal: int
    checksum: int
    size: int
    note: bytes


def image_name(point: Point) -> str:
    """The file's name; names sort as the images' ages do."""
    return f"{point.position:0{_DIGITS}d}-{point.epoch:0{_DIGITS}d}"


def image_place(name: str) -> Position | None:
    """The position that a name says; None if this is no image's name."""
    position, dash, epoch = name.partition("-")
    whole = dash == "-" and len(position) == len(epoch) == _DIGITS and (position + epoch).isascii()
    return Position(int(position)) if whole and (position + epoch).isdigit() else None


def encode_image_head(image: Image) -> bytes:
    """Everything before the image's own bytes."""
    point = image.point
    description = msgspec.json.encode(
        _Description(image.identity, point.epoch, point.position, image.seal, image.checksum, image.size, image.note)
    )
    return _HEAD.pack(_MAGIC, _VERSION, 0, len(description), crc32(description)) + description


def decode_image(data: bytes, path: str) -> tuple[Image, bytes] | None:
    """The image and its bytes; None if the file is damaged. Raises: StoreVersionError."""
    if len(data) < _HEAD.size:
        return None
    magic, version, _, length, checksum = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        return None
    if version != _VERSION:
        raise StoreVersionError(f"{path}: an image of version {version}; this release knows version {_VERSION}")
    text, content = data[_HEAD.size : _HEAD.size + length], data[_HEAD.size + length :]
    if len(text) != length or crc32(text) != checksum:
        return None
    said = msgspec.json.decode(text, type=_Description)
    if len(content) != said.size or crc32(content) != said.checksum:
        return None
    point = Point(Epoch(said.epoch), Position(said.position))
    return Image(said.identity, point, said.seal, said.checksum, said.size, said.note), content
