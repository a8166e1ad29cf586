"""What do the words that a config leaves out mean? The reader against the class rules of real architectures, by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.configs import layer_in_words, read, rows


def spelled_out(order: str, letters: Mapping[str, str]) -> list[str]:
    """The layers of an `order` such as "F (5S F)x10 2S"."""
    flat = re.sub(r"\(([^)]*)\)x(\d+)", lambda m: f" {m[1]} " * int(m[2]), str(order))
    return [letters[letter] for count, letter in re.findall(r"(\d*)([A-Z])", flat) for _ in range(int(count or 1))]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["id"])
def test_class_default(row: dict[str, Any]) -> None:
    """Words that a config leaves out mean what the model's own class fills in: kinds, windows, heads, widths, states."""
    found = [layer_in_words(layer) for layer in read(row["config"]).layers]
    assert found == spelled_out(row["order"], row["is"])


def test_the_golden_rows_are_well_formed() -> None:
    """Row names are unique and every letter of a row is used, so that no row passes by being misread."""
    assert len({row["id"] for row in rows()}) == len(rows())
    for row in rows():
        assert set(re.findall(r"[A-Z]", row["order"])) == set(row["is"]), row["id"]


def test_every_shared_layer_names_the_layer_it_reads() -> None:
    """Gemma 3n's last 15 layers read the last sliding and the last full layer before them, by their own word.

    Source: Gemma 3n's class, transformers 5.24: layers 18 and 19 are the last that keep a cache of their kind.
    """
    layers = read({"model_type": "gemma3n_text"}).layers
    assert [layer.shares for layer in layers[20:]] == [18, 18, 18, 18, 19] * 3
