"""Bytes and rounding: the two families of units, and which way each quantity rounds.

Inside the planner memory is an integer number of bytes. Screens show GiB (1024**3), because that is what engines print;
a vendor's "80 GB" is 10**9 and is a different constant.
"""

from __future__ import annotations

import re
from typing import Final

KIB: Final = 1024
MIB: Final = 1024**2
GIB: Final = 1024**3
TIB: Final = 1024**4
KB: Final = 10**3
MB: Final = 10**6
GB: Final = 10**9
TB: Final = 10**12

_UNITS: Final = {
    "": 1, "b": 1, "kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB, "kb": KB, "mb": MB, "gb": GB, "tb": TB,
}  # fmt: skip


def ceil_div(numerator: int, denominator: int) -> int:
    """The quotient rounded up: what a need takes."""
    return -(-numerator // denominator)


def round_up(value: int, multiple: int) -> int:
    """The smallest multiple of `multiple` that is at least `value`."""
    return ceil_div(value, multiple) * multiple


def parse_bytes(text: str) -> int:
    """Bytes of "80GiB", "79.65 GiB", "80 GB", "512MiB" or a bare number of bytes, rounded down.

    Raises ValueError for a negative number, an unknown unit, or anything else that is not an amount of memory.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError(f"{text!r} is not an amount of memory; write it like 80GiB, 24 GB or 512MiB")
    whole, _, fraction = match[1].partition(".")
    scale: int = 10 ** len(fraction)
    return int(whole + fraction) * unit // scale


def format_bytes(count: int) -> str:
    """A count of bytes as a person reads it: 3 significant places in B, KiB, MiB, GiB or TiB."""
    sign, size = ("-", -count) if count < 0 else ("", count)
    for name, unit in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        # From where two digits would round up to the unit, so that nothing prints as 1,024.00 of the smaller one.
        if size >= unit or (unit > KIB and size >= unit - unit // 204_800):
            value = size / unit
            digits = 0 if value >= 100 and size % unit == 0 else 2
            return f"{sign}{value:,.{digits}f} {name}"
    return f"{sign}{size} B"
