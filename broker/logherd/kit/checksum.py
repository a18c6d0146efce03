"""CRC-32 as zlib computes it, with the processor's own instructions: eight times as fast from a KiB on.

Every replica checks each record twice and each message of its peers once, so it is a tenth of what a record costs.
"""

from isal.isal_zlib import crc32

__all__ = ["crc32"]
