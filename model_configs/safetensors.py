"""How many parameters and bytes a checkpoint holds, from safetensors headers or from the counts the Hub keeps of them.

A safetensors file is 8 bytes (little-endian length N), N bytes of JSON {name: {dtype, shape, data_offsets}}, then data:
the first bytes of a 5 GB shard say everything about its size.

Source: safetensors format, https://huggingface.co/docs/safetensors/index#format
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from model_configs.json_text import strict_json
from planner.errors import BadContent, NoWeights, TooLarge

SINGLE_FILE: Final = "model.safetensors"
INDEX_FILE: Final = "model.safetensors.index.json"
MAX_HEADER_BYTES: Final = 25_000_000  # what huggingface_hub and the safetensors library's own readers accept
MAX_INDEX_BYTES: Final = 25_000_000
MAX_TOTAL_BYTES: Final = 64_000_000  # headers of one checkpoint together; some 400,000 tensors at 150 bytes each
MAX_SHARDS: Final = 1_000
MAX_DIMENSIONS: Final = 64  # torch's own limit; without one a hostile shape's product is minutes of big-integer work
FIRST_READ_BYTES: Final = 100_000  # holds the whole header of most files, so that one request is enough
PARALLEL_READS: Final = 8

DTYPE_BITS: Final[Mapping[str, int]] = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4, "C64": 64, "I64": 64, "U64": 64, "I32": 32, "U32": 32,
    "I16": 16, "U16": 16, "I8": 8, "U8": 8, "BOOL": 8,
}  # fmt: skip
# Source: enum Dtype of the safetensors crate

# Where only these occur nothing is quantised, and the Hub's counts are stored elements. Otherwise they are not: the Hub
# multiplies packed integers by values per element and leaves scales out (huggingface.js parse-safetensors-metadata.ts,
# getQuantizationMultiplier and shouldSkipTensor), so bytes worked out from them would be wrong in both directions.
WHOLE_FLOATS: Final = frozenset({"F64", "F32", "F16", "BF16"})

Read = Callable[[str, int, int], bytes]
"""(file name, first byte, end byte) -> those bytes, fewer where the file ends. Raises NoWeights if there is no file."""


class TensorTotal(NamedTuple):
    """Stored elements and bytes of a group of tensors."""

    params: int
    bytes: int


@dataclass(frozen=True)
class HubWeights:
    """The size of a checkpoint as it is stored.

    `bytes` is exact (tensor data without file headers). `params` are *stored elements*: a packed quantised checkpoint
    (GPTQ and AWQ in I32, MXFP4 and bitsandbytes in U8, MLX in U32) holds several weights in each, and its scales count.
    `tensors` is by module prefix ("model.vision_tower", "lm_head") and is empty where no header was read.
    """

    params: int
    bytes: int
    params_by_dtype: Mapping[str, int]
    source: str
    commit: str
    bytes_by_dtype: Mapping[str, int] = field(default_factory=dict)
    tensors: Mapping[str, TensorTotal] = field(default_factory=dict)

    @property
    def plain(self) -> bool:
        """Whether nothing is quantised, so that stored elements are parameters."""
        return WHOLE_FLOATS.issuperset(self.params_by_dtype)


def from_counts(parameters: object, commit: str) -> HubWeights | None:
    """Size from the Hub's `safetensors.parameters` {dtype: count}: bytes = sum(count * bits / 8).

    None where the counts would not give the stored bytes, see WHOLE_FLOATS. The Hub leaves 0-dimensional tensors out,
    so a checkpoint with scalars is a few bytes larger.
    """
    if not isinstance(parameters, dict) or not parameters or not WHOLE_FLOATS.issuperset(parameters):
        return None
    if not all(_is_count(count) for count in parameters.values()):
        return None
    sizes = {dtype: count * DTYPE_BITS[dtype] // 8 for dtype, count in parameters.items()}
    return HubWeights(
        params=sum(parameters.values()),
        bytes=sum(sizes.values()),
        params_by_dtype=MappingProxyType(dict(parameters)),
        bytes_by_dtype=MappingProxyType(sizes),
        source="safetensors counts in the Hub's API",
        commit=commit,
    )


def from_headers(read: Read, commit: str) -> HubWeights:
    """Size from the header of `model.safetensors`, or of every shard that `model.safetensors.index.json` names.

    One request a file, two where the header is longer than FIRST_READ_BYTES, never a tensor. Raises NoWeights (neither
    file), BadContent (a header that contradicts itself) and TooLarge (more header than any known model has).
    """
    claim = _Allowance()
    try:
        groups = [_header(read, SINGLE_FILE, claim)]
    except NoWeights:
        names = _shard_names(read(INDEX_FILE, 0, MAX_INDEX_BYTES + 1))
        with ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="hub-header") as pool:
            groups = list(pool.map(lambda name: _shard(read, name, claim), names))
    params: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    prefix_params: Counter[str] = Counter()
    prefix_sizes: Counter[str] = Counter()
    for group in groups:
        for (dtype, prefix), total in group.items():
            params[dtype] += total.params
            sizes[dtype] += total.bytes
            prefix_params[prefix] += total.params
            prefix_sizes[prefix] += total.bytes
    return HubWeights(
        params=params.total(),
        bytes=sizes.total(),
        params_by_dtype=MappingProxyType(dict(params)),
        bytes_by_dtype=MappingProxyType(dict(sizes)),
        source=f"safetensors headers of {len(groups)} file{'s' if len(groups) > 1 else ''}",
        commit=commit,
        tensors=MappingProxyType({name: TensorTotal(prefix_params[name], prefix_sizes[name]) for name in prefix_sizes}),
    )


class _Allowance:
    """How much header one checkpoint may still have, across the threads that read its shards."""

    def __init__(self) -> None:
        self._left = MAX_TOTAL_BYTES
        self._lock = Lock()

    def __call__(self, size: int) -> None:
        with self._lock:
            self._left -= size
            if self._left < 0:
                raise TooLarge(f"the safetensors headers are together larger than {MAX_TOTAL_BYTES:,} bytes")


def _shard_names(raw: bytes) -> list[str]:
    if len(raw) > MAX_INDEX_BYTES:
        raise TooLarge(f"{INDEX_FILE} is larger than {MAX_INDEX_BYTES:,} bytes", limit_bytes=MAX_INDEX_BYTES)
    index = strict_json(raw, INDEX_FILE)
    weight_map = index.get("weight_map") if isinstance(index, dict) else None
    names = set(weight_map.values()) if isinstance(weight_map, dict) and _all_text(weight_map.values()) else set()
    if not names or len(names) > MAX_SHARDS:
        raise BadContent(f"{INDEX_FILE} must name between 1 and {MAX_SHARDS:,} files in weight_map")
    for name in names:
        # The name becomes a URL path, and whoever wrote the repository chose it.
        if not name.endswith(".safetensors") or ".." in name or name.startswith("/") or len(name) > 255:
            raise BadContent(f"{INDEX_FILE} names {name[:80]!r}, which is not a safetensors file of this repository")
    return sorted(names)


def _shard(read: Read, name: str, claim: _Allowance) -> Mapping[tuple[str, str], TensorTotal]:
    try:
        return _header(read, name, claim)
    except NoWeights:
        raise BadContent(f"{INDEX_FILE} names {name}, which is not in the repository") from None


def _header(read: Read, name: str, claim: _Allowance) -> Mapping[tuple[str, str], TensorTotal]:
    """(dtype, prefix) -> totals of one file."""
    raw = read(name, 0, FIRST_READ_BYTES)
    if len(raw) < 8:
        raise BadContent(f"{name} is too small to be a safetensors file")
    length = int.from_bytes(raw[:8], "little")
    if length > MAX_HEADER_BYTES:
        raise BadContent(f"{name} claims a header of {length:,} bytes; the format allows {MAX_HEADER_BYTES:,}")
    claim(length)
    end = 8 + length
    if len(raw) < end:
        raw += read(name, len(raw), end)
    if len(raw) < end:
        raise BadContent(f"{name} ends inside its own header")
    header = strict_json(raw[8:end], f"the header of {name}")
    if not isinstance(header, dict):
        raise BadContent(f"the header of {name} is not a JSON object")
    return _totals(name, ((tensor, about) for tensor, about in header.items() if tensor != "__metadata__"))


def _totals(name: str, tensors: Iterable[tuple[str, Any]]) -> Mapping[tuple[str, str], TensorTotal]:
    totals: dict[tuple[str, str], TensorTotal] = {}
    for tensor, about in tensors:
        match about:
            case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [begin, end]} if _are_counts(*shape, begin, end):
                params, size = math.prod(shape), end - begin
            case _:
                raise BadContent(f"the header of {name} describes {tensor[:80]!r} without dtype, shape and offsets")
        bits = DTYPE_BITS.get(dtype)  # a dtype newer than the table still has exact offsets
        if size < 0 or (bits is not None and size != -(-params * bits // 8)):
            raise BadContent(f"the header of {name} gives {tensor[:80]!r} {size} bytes for {params} {dtype[:20]}")
        key = (dtype, _prefix(tensor))
        before = totals.get(key, TensorTotal(0, 0))
        totals[key] = TensorTotal(before.params + params, before.bytes + size)
    return totals


def _prefix(tensor: str) -> str:
    """The module a tensor belongs to, two names deep: "model.layers.0.mlp.up_proj.weight" -> "model.layers"."""
    modules = tensor.split(".")[:-1] or [tensor]
    depth = next((at for at, part in enumerate(modules[:2]) if part.isdigit()), 2)
    return ".".join(modules[:depth]) or tensor


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _are_counts(*values: object) -> bool:
    """Whether these are a shape and two offsets."""
    return len(values) <= MAX_DIMENSIONS + 2 and all(map(_is_count, values))


def _all_text(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)
