"""The kept logs of SGLang, TensorRT-LLM, llama.cpp and Ollama, tried in place: all figures of their index, and the rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.units import GIB, MIB
from tests.logs.checked import check, said
from validation.logs import Log

#: What the right explanation of each rests on, in our words and its numbers.
RULES = {
    "15": ("16 layers x 2 heads x (256 + 256)", "8,192 B of keys", "5 layers x 512 B", "not the tokens", "2^30", "falls from"),
    "19": ("24 layers x 8 heads x (64 + 64)", "49,152 B", "trial cache", "4,128", "200,000 would be 9.16 GiB", "not the setting"),
    "23": ("1 layer x 4,096 B a token x 262,144", "KV 16,384 + states 149.625 x 3", "dry run", "cut to whole MiB"),
    "27": ("48 layers x 4,096 x 2,048 B = 384.0 MiB", "10.1 GiB + 384.0 MiB", "only commit counts", "4,096 is the default"),
    "30": ("12 layers x 131,072 cells x 2,048 B", "pad(128 + 2,048, 256) = 2,304", "12 layers x 2,304 cells"),
    "31": ("98,304 B = 1,669,816.4", "49,152 B", "halves of one pool", "152.88", "leaves 77.32", "74.01", "204.64"),
}
SCALES = {"gb": GIB, "gib": GIB, "mib": MIB}
#: Figures of the index that are settings or no figures of memory.
SETTINGS = {"at_tokens"}


def numbers(found: Mapping[str, Any], unit: str = "") -> Iterator[tuple[float, str]]:
    """The figures of an index entry with their units, which stand at the end of a name, or of one further out."""
    for name, value in found.items():
        own = name.rpartition("_")[2] if name.rpartition("_")[2] in (*SCALES, "bytes", "tokens", "cells") else unit
        if isinstance(value, Mapping):
            yield from numbers(value, own)
        elif isinstance(value, list):
            yield from ((one, own) for one in value)
        elif isinstance(value, int | float) and name not in SETTINGS:
            yield value, own


def printed(log: Log, value: float, unit: str) -> bool:
    """Whether the log has the figure: in bytes of its unit within the print's digits, in any unit where the index names none."""
    scales = [SCALES[unit]] if unit in SCALES else [1, GIB, MIB]
    return any(abs(figure.value - value * scale) <= figure.slack + 1 for figure in log.all for scale in scales)


@pytest.mark.parametrize("number", RULES)
def test_kept(truth: Path, number: str) -> None:
    folder = truth / "logs"
    index = yaml.safe_load((folder / "INDEX.yaml").read_text(encoding="utf-8"))
    entry = next(row for row in index if row["file"].startswith(number))
    log, found = check((folder / entry["file"]).read_text(encoding="utf-8"))
    assert log.engine == entry["engine"]
    assert [(value, unit) for value, unit in numbers(entry["figures"]) if not printed(log, value, unit)] == []
    assert found.agrees, [line for line in found.lines if not line.agrees]
    text = said(found)
    assert [words for words in RULES[number] if words not in text] == []
