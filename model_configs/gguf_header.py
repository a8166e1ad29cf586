"""The header of a GGUF file: metadata and tensor descriptions, read from the beginning and never past it.

A GGUF file is "GGUF", a version, two counts, that many key-value pairs, that many tensor descriptions, then the tensor
data. The header has no length field, so its end is known only when all of it has been read: bytes are asked for in
growing pieces. Counts are believed only as far as bytes follow them, and lists of the tokenizer are stepped over.

The reader of the `gguf` package is not used for this: it needs a file of the full size, follows any count that a file
claims, and takes seconds for a vocabulary. Its table of tensor types is (gguf_weights.py).

Source: GGUF specification, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from planner.errors import BadContent

Read = Callable[[int, int], bytes]
"""(first byte, end byte) -> those bytes, fewer where the file ends."""

MAGIC: Final = b"GGUF"
FIRST_READ_BYTES: Final = 256 * 1024
MAX_READ_BYTES: Final = 8 * 1024**2
MAX_HEADER_BYTES: Final = 96 * 1024**2  # vocabularies of 260,000 tokens with merges make some 15 MB
MAX_PAIRS: Final = 100_000
MAX_TENSORS: Final = 1_000_000
MAX_DIMENSIONS: Final = 8
MAX_KEPT_ITEMS: Final = 4_096  # of an array: one entry a layer, never a vocabulary

_SCALARS: Final[Mapping[int, tuple[str, int]]] = {
    0: ("B", 1), 1: ("b", 1), 2: ("H", 2), 3: ("h", 2), 4: ("I", 4), 5: ("i", 4), 6: ("f", 4), 7: ("?", 1),
    10: ("Q", 8), 11: ("q", 8), 12: ("d", 8),
}  # fmt: skip
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class TensorInfo:
    """One tensor as the header describes it: its shape and the number of its ggml type."""

    name: str
    shape: tuple[int, ...]
    type: int

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Header:
    """Metadata (arrays longer than 4,096 left out, their length kept) and tensors of one file; `size` is its length in bytes."""

    metadata: dict[str, Any]
    tensors: tuple[TensorInfo, ...]
    array_lengths: dict[str, int]
    size: int


class _Cursor:
    """Bytes from the beginning of a file, fetched as they are needed."""

    def __init__(self, read: Read, name: str) -> None:
        self.read, self.name = read, name
        self.data, self.at, self.order = bytearray(), 0, "<"
        self._next = FIRST_READ_BYTES

    def need(self, count: int) -> None:
        """Make `count` bytes available from here. BadContent where the file or the limit ends before."""
        end = self.at + count
        if end > MAX_HEADER_BYTES:
            raise BadContent(f"the header of {self.name} is longer than {MAX_HEADER_BYTES:,} bytes, which no model's is")
        while len(self.data) < end:
            upto = max(end, len(self.data) + self._next)
            self._next = min(2 * self._next, MAX_READ_BYTES)
            more = self.read(len(self.data), upto)
            if not more:
                raise BadContent(f"{self.name} ends inside its own header, after {len(self.data):,} bytes: it is not all there")
            self.data += more

    def take(self, count: int) -> bytes:
        self.need(count)
        found = bytes(self.data[self.at : self.at + count])
        self.at += count
        return found

    def scalar(self, kind: int) -> Any:
        code, size = _SCALARS[kind]
        return struct.unpack(self.order + code, self.take(size))[0]

    def u32(self) -> int:
        return int(self.scalar(4))

    def u64(self) -> int:
        return int(self.scalar(10))

    def skip_string(self) -> None:
        length = self.u64()
        self.need(length)
        self.at += length

    def string(self, what: str, limit: int) -> str:
        length = self.u64()
        if length > limit:
            raise BadContent(f"{self.name} has {what} of {length:,} bytes; {limit:,} is the most that makes sense")
        return self.take(length).decode("utf-8", "replace")


def read_header(read: Read, name: str) -> Header:
    """The header that `read` gives the bytes of. `name` is what messages call the file.

    Errors: BadContent for what is not a GGUF file, ends early, contradicts itself or claims sizes that no header has.
    """
    cursor = _Cursor(read, name)
    if cursor.take(4) != MAGIC:
        raise BadContent(f"{name} is not a GGUF file: it does not begin with GGUF")
    version = cursor.u32()
    if version & 0xFFFF == 0:  # written on a big-endian machine
        cursor.order, version = ">", int.from_bytes(version.to_bytes(4, "little"), "big")
    if version not in (2, 3):
        raise BadContent(f"{name} is of GGUF version {version}; versions 2 and 3 can be read")
    tensors, pairs = cursor.u64(), cursor.u64()
    if pairs > MAX_PAIRS or tensors > MAX_TENSORS:
        raise BadContent(f"{name} claims {pairs:,} metadata pairs and {tensors:,} tensors, which no model has")
    metadata: dict[str, Any] = {}
    lengths: dict[str, int] = {}
    for _ in range(pairs):
        key = cursor.string("a metadata key", 65_535)
        if key in metadata or key in lengths:
            raise BadContent(f"{name} says {key[:80]!r} twice")
        found = _value(cursor, cursor.u32(), lengths, key)
        if key not in lengths or lengths[key] <= MAX_KEPT_ITEMS:
            metadata[key] = found
    infos = tuple(_tensor(cursor) for _ in range(tensors))
    if len({info.name for info in infos}) != len(infos):
        raise BadContent(f"{name} describes a tensor twice")
    return Header(metadata, infos, lengths, cursor.at)


def _value(cursor: _Cursor, kind: int, lengths: dict[str, int], key: str) -> Any:
    if kind == _STRING:
        return cursor.string(f"a value of {key[:80]!r}", 8 * 1024**2)
    if kind != _ARRAY:
        if kind not in _SCALARS:
            raise BadContent(f"{cursor.name} gives {key[:80]!r} a type that GGUF does not have: {kind}")
        return cursor.scalar(kind)
    inner, count = cursor.u32(), cursor.u64()
    lengths[key] = count
    if inner == _STRING:
        if count > MAX_KEPT_ITEMS:
            for _ in range(count):
                cursor.skip_string()
            return None
        return [cursor.string(f"an entry of {key[:80]!r}", 1024**2) for _ in range(count)]
    if inner not in _SCALARS:
        raise BadContent(f"{cursor.name} gives {key[:80]!r} an array of a type that no model uses: {inner}")
    code, size = _SCALARS[inner]
    if count > MAX_KEPT_ITEMS:
        cursor.need(count * size)
        cursor.at += count * size
        return None
    return list(struct.unpack(f"{cursor.order}{count}{code}", cursor.take(count * size)))


def _tensor(cursor: _Cursor) -> TensorInfo:
    name = cursor.string("a tensor name", 1_024)
    dimensions = cursor.u32()
    if dimensions > MAX_DIMENSIONS:
        raise BadContent(f"{cursor.name} gives {name[:80]!r} {dimensions} dimensions; ggml has at most 4")
    shape = tuple(cursor.u64() for _ in range(dimensions))
    kind = cursor.u32()
    cursor.u64()  # offset of the data
    if math.prod(shape) >= 2**63:
        raise BadContent(f"{cursor.name} gives {name[:80]!r} more elements than any file can hold")
    return TensorInfo(name, shape, kind)
