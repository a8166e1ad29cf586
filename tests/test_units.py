"""Bytes, units and rounding: what a person writes becomes a whole number of bytes, and needs are never rounded down."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.units import GB, GIB, KB, KIB, MB, MIB, TB, TIB, ceil_div, format_bytes, parse_bytes, round_up

EXACT = settings(derandomize=True, database=None, deadline=None)


def test_the_two_families_of_units() -> None:
    """Binary units are powers of 1,024 and decimal ones of 1,000; they are different constants (IEC 80000-13)."""
    assert (KIB, MIB, GIB, TIB) == (1_024, 1_048_576, 1_073_741_824, 1_099_511_627_776)
    assert (KB, MB, GB, TB) == (1_000, 1_000_000, 1_000_000_000, 1_000_000_000_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0), ("1", 1), ("1024", 1024), ("7b", 7), ("80GiB", 85_899_345_920), ("80 GiB", 85_899_345_920),
        ("  80   gib  ", 85_899_345_920), ("80 GB", 80_000_000_000), ("512MiB", 536_870_912), ("512mb", 512_000_000),
        ("1.5KiB", 1_536), ("0.5 KiB", 512), ("2 TiB", 2_199_023_255_552), ("2TB", 2_000_000_000_000),
        ("79.65 GiB", 85_523_536_281), ("79.18GiB", 85_018_877_624), ("1.9B", 1), ("0.1B", 0), ("007 KB", 7_000),
        ("0.0000000000000000000000000001 TiB", 0), ("9007199254740993", 9_007_199_254_740_993),
        ("8388608.0000001 GiB", 9_007_199_254_741_099),
    ],
)  # fmt: skip
def test_parse_bytes(text: str, expected: int) -> None:
    """Amounts in any unit and case, with a fraction rounded down to a byte, and exact beyond a float's 53 bits.

    79.65 x 2**30 = 85,523,536,281.6 and 79.18 x 2**30 = 85,018,877,624.32; 0.0000001 x 2**30 = 107.37.
    """
    assert parse_bytes(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", " ", "-1", "-80GiB", "+5", "1e3", "GiB", "1.", ".5GiB", "1,024", "80 G", "80GiBs", "80 Gibibytes", "x", "nan", "inf",
     "80GiB 1", "1.2.3GiB", "0x10", "1_000", "80\u00a0GiB?", "²GiB", "80 GiB\n5"],
)  # fmt: skip
def test_parse_bytes_refuses(text: str) -> None:
    """Anything else is a ValueError that shows what was given: nothing is guessed from half an amount."""
    with pytest.raises(ValueError, match="amount of memory"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 B"), (1, "1 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (1536, "1.50 KiB"), (MIB, "1.00 MiB"),
        (GIB, "1.00 GiB"), (80 * GIB, "80.00 GiB"), (85_520_809_984, "79.65 GiB"), (85_017_493_504, "79.18 GiB"),
        (100 * GIB, "100 GiB"), (TIB, "1.00 TiB"), (-GIB, "-1.00 GiB"), (-5, "-5 B"),
    ],
)  # fmt: skip
def test_format_bytes(count: int, expected: str) -> None:
    """The largest binary unit that fits, with its sign; 81,559 MiB read as 79.65 GiB, as nvidia-smi's H100 has."""
    assert format_bytes(count) == expected


@pytest.mark.parametrize("count", [KIB * KIB - 1, GIB - 1, TIB - 1, GIB - 1024, 1 - GIB])
def test_format_bytes_never_reaches_the_next_unit(count: int) -> None:
    """A byte short of a GiB reads as 1.00 GiB (or 1,023.99 MiB), not as "1,024.00 MiB"."""
    assert "1,024" not in format_bytes(count)
    assert "1024" not in format_bytes(count)


@EXACT
@given(st.integers(-(2**60), 2**60))
def test_a_formatted_amount_reads_back(count: int) -> None:
    """What is shown, read back, is within half of its last digit: no unit is mixed up."""
    text = format_bytes(abs(count)).replace(",", "")
    digits = len(re.sub(r"^\d+\.?|\s.*$", "", text))
    unit = parse_bytes("1" + text.split()[1])
    assert abs(parse_bytes(text) - abs(count)) <= unit * 10**-digits / 2 + 1
    assert format_bytes(-abs(count)).lstrip("-") == format_bytes(abs(count))


@EXACT
@given(st.integers(0, 10**30), st.integers(1, 10**15))
def test_needs_round_up(value: int, step: int) -> None:
    """ceil_div and round_up never fall short, never exceed by a whole step, and stay exact for any size."""
    assert (ceil_div(value, step) - 1) * step < value <= ceil_div(value, step) * step
    assert round_up(value, step) == ceil_div(value, step) * step
    assert round_up(round_up(value, step), step) == round_up(value, step)


@EXACT
@given(st.integers(0, 2**70), st.sampled_from(["", "B", "KiB", "MiB", "GiB", "TiB", "KB", "MB", "GB", "TB"]))
def test_whole_amounts_are_exact(count: int, unit: str) -> None:
    """A whole number of any unit is exactly that many of its bytes."""
    size = {"": 1, "B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4, "KB": 10**3, "MB": 10**6, "GB": 10**9,
            "TB": 10**12}[unit]  # fmt: skip
    assert parse_bytes(f"{count}{unit}") == count * size == parse_bytes(f"{count}.000 {unit}")
