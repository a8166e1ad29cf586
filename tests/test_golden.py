"""Measured caches of every model type, compact enough to be here: bytes of real transformers runs against the planner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import model_configs
from planner.engines import transformers

GOLDEN = yaml.load(
    (Path(__file__).parent / "golden/transformers.yaml").read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
)
ENTRIES = {**GOLDEN["tiny"], **GOLDEN["real"]}


def predicted(model: Any, row: list[Any]) -> int:
    implementation, dtype, batch, _, new_tokens, held, encoder, _, *config = row
    kind, _, backend = implementation.partition("-")
    settings: dict[str, Any] = {"dtype": dtype, "cache_implementation": kind if kind in ("static", "quantized") else "dynamic"}
    if config:
        settings.update(config[0])
    assert kind != "quantized" or settings["backend"] == backend
    cache = transformers.cache_bytes(
        model, transformers.Settings(**settings), tokens=held, requests=batch, encoder_tokens=encoder,
        prompt_tokens=max(0, held - (new_tokens - 1)),
    )  # fmt: skip
    return cache.total_bytes


@pytest.mark.parametrize("name", ENTRIES)
def test_measured_bytes(name: str) -> None:
    """Every row of the entry: the bytes that real generation allocated are the bytes that the config words give."""
    entry = ENTRIES[name]
    model = model_configs.read(entry["config"])
    assert {tuple(map(str, row)): row[7] for row in entry["rows"]} == {
        tuple(map(str, row)): predicted(model, row) for row in entry["rows"]
    }


def test_the_extract_is_wide() -> None:
    """It has all implementations and at least 250 model types, so that a clone alone proves every kind."""
    types = {name.split("/")[1] for name in GOLDEN["tiny"]}
    kinds = {row[0] for entry in ENTRIES.values() for row in entry["rows"]}
    assert len(types) >= 250
    assert {"dynamic", "static", "quantized-quanto", "quantized-hqq", "quantized-fp8"} <= kinds
