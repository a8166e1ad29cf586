"""With and without the cache: equal tokens in full precision, curves at growing lengths, and what is said where they part."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

import model_configs
from planner.engines import transformers
from tests.validation.models import MODELS
from validation import measure_speed
from validation.measure_build import build
from validation.progress import Progress


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Small shapes gain nothing from more, and lose much where cores are shared."""
    torch.set_num_threads(1)


def test_greedy_tokens_are_equal_with_and_without_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """float32, two families; every length has both times, and the curves have all their points."""
    monkeypatch.setattr(measure_speed, "CURVES", {"cpu": (8, 24)})
    for name in ("grouped", "gated delta and full"):
        model = model_configs.read(MODELS[name])
        built = build(model, "float32", torch.device("cpu"))
        settings = transformers.Settings(dtype="float32")
        found = measure_speed.curves(built, model, settings, (10, 4), Progress("none"))
        assert [row.new_tokens for row in found.curve] == [4, 10]
        assert all(row.same for row in found.curve), name
        assert all(row.speedup for row in found.curve)
        assert [row.tokens for row in found.first_token] == [row.tokens for row in found.later_token] == [8, 24]
        quantized = {row.backend: row for row in found.quantized}
        if name == "grouped":
            # Keys and values of 3 layers, 24 positions, 2 heads of 16, a byte each, and a float32 scale for both.
            assert quantized["fp8"].measured_bytes == quantized["fp8"].predicted_bytes == 3 * (24 * 2 * 16 * 2 + 8)
            assert quantized["fp8"].full_bytes == 3 * 24 * 2 * 16 * 2 * 4
        else:
            assert "fp8" not in quantized
            assert any(note.startswith("fp8: transformers quantizes") for note in found.notes)


def test_where_tokens_part_the_first_and_the_gap_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the cache 5, 6, 7 and without 5, 9, 7: they part at the second, whose logits are 0.25 apart."""
    logits = torch.zeros(1, 10)
    logits[0, 6], logits[0, 9] = 1.0, 0.75
    cached = SimpleNamespace(sequences=torch.tensor([[1, 5, 6, 7]]), logits=(logits, logits, logits))
    uncached = SimpleNamespace(sequences=torch.tensor([[1, 5, 9, 7]]))

    def timed(built: Any, settings: Any, prompt: int, new: int, logits: bool = False) -> Any:
        return (2.0, cached) if settings else (6.0, uncached)

    monkeypatch.setattr(measure_speed, "timed", timed)
    found = measure_speed.both(SimpleNamespace(), transformers.Settings(), 1, 3, False)  # type: ignore[arg-type]
    assert (found.same, found.first_difference, found.logit_gap, found.speedup) == (False, 1, 0.25, 3.0)


def test_what_would_take_too_long_is_not_run_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """10 s at 100 new tokens foretell 1,000 s at 1,000."""
    same = SimpleNamespace(sequences=torch.arange(2000)[None])
    built = SimpleNamespace(model=SimpleNamespace(device=torch.device("cpu")), encoder=True)
    monkeypatch.setattr(measure_speed, "timed", lambda *given, **more: (10.0, same))
    model = SimpleNamespace(max_context=None)
    settings = transformers.Settings(dtype="float32")
    monkeypatch.setattr(measure_speed, "CURVES", {"cpu": ()})
    monkeypatch.setattr(measure_speed.transformers, "cache_bytes", lambda *given, **more: SimpleNamespace(total_bytes=1))
    found = measure_speed.curves(built, model, settings, (100, 1000), Progress("none"))  # type: ignore[arg-type]
    assert [row.uncached_s for row in found.curve] == [10.0, None]
    assert "1,000 new tokens without a cache were not run: some 1,000 s were foretold." in found.notes
