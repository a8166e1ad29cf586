"""One token's row of a layer in words: heads and widths, as a person would multiply them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

#: Heads on the rank, and the widths of a key and of a value.
Row = tuple[int | None, int | None, int | None]


def row_words(rows: Iterable[tuple[Row, int]], stored: str) -> str:
    """"16 layers x 2 heads x (256 + 256) in fp8_e4m3 = 1,024 B" for each kind of row with its bytes."""
    said = []
    for (row, size), count in Counter(rows).items():
        heads, keys, values = row
        many = f"{count} layers x " if count > 1 else "1 layer x "
        if heads and keys and values is not None:
            widths = f"({keys} + {values})" if values else str(keys)
            many += f"{heads} head{'s' if heads > 1 else ''} x {widths} in {stored} = "
        said.append(f"{many}{size:,} B")
    return ", ".join(said)
