"""How the page writes quantities: GiB where a person reads, the exact bytes beside it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from planner.units import GIB, KIB, MIB, format_bytes
from ui.i18n import t

#: No TiB on an axis or in a column: memory is talked about in GiB, also beyond 1,024 of them.
_SIZES = (("GiB", GIB), ("MiB", MIB), ("KiB", KIB), ("B", 1))


def size(count: float) -> str:
    """Bytes for reading, "10.00 GiB"; needs are not rounded here, because the exact count always stands beside."""
    return format_bytes(round(count))


def span(low: float, high: float) -> str:
    """A range of bytes, "1.20 to 3.40 GiB": the unit once where both have it."""
    first, last = size(low), size(high)
    number, name = first.split()
    return t("capacity.range", low=number if last.split()[1] == name else first, high=last)


def exact(count: float) -> str:
    """Bytes to the last one: "10,737,418,240 bytes"; an average with ten digits."""
    return t("unit.byte") if count == 1 else t("unit.bytes", count=f"{count:,}" if isinstance(count, int) else f"{count:,.10g}")


def unit(largest: float) -> tuple[str, int]:
    """The name and size of the unit that `largest` is read best in, for a whole axis or column."""
    return next(((name, scale) for name, scale in _SIZES if largest >= scale), _SIZES[-1])


def cell(count: int) -> int | float:
    """A count for a table, which holds 64-bit numbers; an absurd config can make one larger."""
    return count if abs(count) < 2**63 else float(count)


def tokens(count: int) -> str:
    """A token count for an axis: 128K where it is a multiple of 1,024, else written out."""
    for letter, scale in (("M", MIB), ("K", KIB)):
        if count and count % scale == 0:
            return f"{count // scale:,}{letter}"
    return f"{count:,}"


def csv_text(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as a CSV file's text."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([head, *rows])
    return written.getvalue()
