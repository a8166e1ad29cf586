"""Storage formats of cached keys and values: bits an element, and the scales that go with them.

Sub-byte and scaled formats are counted as bits plus scale bytes per group, never as a rounded "0.5 bytes".
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import InputError, shown
from planner.units import ceil_div


@dataclass(frozen=True)
class StorageFormat:
    """How one cached element is stored. `group` elements share `group_bytes` of scales and zero points (0: none)."""

    name: str
    bits: int
    group: int = 0
    group_bytes: int = 0
    source: str = "IEEE 754 and bfloat16 widths"

    def bytes(self, elements: int) -> int:
        """Bytes of `elements` elements: ceil(elements x bits / 8) + ceil(elements / group) x group_bytes."""
        scales = ceil_div(elements, self.group) * self.group_bytes if self.group else 0
        return ceil_div(elements * self.bits, 8) + scales


_OCP = "OCP 8-bit floating point specification: one byte, per-tensor scales outside the cache"
_GROUPS = "transformers 5.24 QuantizedCache, groups of 64 with a bfloat16 scale and zero point (measured)"
FORMATS: dict[str, StorageFormat] = {
    f.name: f
    for f in (
        StorageFormat("float64", 64),
        StorageFormat("float32", 32),
        StorageFormat("float16", 16),
        StorageFormat("bfloat16", 16),
        StorageFormat("fp8", 8, source=_OCP),
        StorageFormat("fp8_e4m3", 8, source=_OCP),
        StorageFormat("fp8_e5m2", 8, source=_OCP),
        StorageFormat("int8", 8, 64, 4, _GROUPS),
        StorageFormat("int4", 4, 64, 4, _GROUPS),
        StorageFormat("int2", 2, 64, 4, _GROUPS),
    )
}
_SPELLINGS = {"fp32": "float32", "f32": "float32", "float": "float32", "fp16": "float16", "f16": "float16", "half": "float16",
              "bf16": "bfloat16"}  # fmt: skip
#: Bytes of the dtypes that do not follow the KV storage format.
FIXED_BYTES = {"float32": 4, "int64": 8, "int32": 4}


def storage_format(name: str) -> StorageFormat:
    """The format called `name` (common short names too). InputError naming the known ones otherwise."""
    key = _SPELLINGS.get(name.lower(), name.lower()) if isinstance(name, str) else ""
    if key not in FORMATS:
        raise InputError(f"{shown(name)} is not a KV dtype; it is one of {', '.join(FORMATS)}", field="kv_cache_dtype")
    return FORMATS[key]
