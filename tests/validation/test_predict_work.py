"""The working memory of a forward pass, and blocks that a cache leaves, followed tensor by tensor on the CPU.

The expected figures are those of live storages while transformers generates; the prediction sees only the config.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import model_configs
from planner.engines import transformers
from validation.measure_build import Built, build
from validation.measure_generate import generate
from validation.measure_memory import LiveTensors
from validation.predict import Case, predict
from validation.predict_work import MODELLED


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Small shapes gain nothing from more, and lose much where cores are shared."""
    torch.set_num_threads(1)


_PLAIN = {"hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32,
          "intermediate_size": 768, "vocab_size": 500}  # fmt: skip
_WINDOW = {"mistral": 64, "gemma3_text": 64}


def _built(model_type: str) -> tuple[Any, Built]:
    layers = {"num_hidden_layers": 6} if model_type == "gemma3_text" else {}
    model = model_configs.read({"model_type": model_type, **_PLAIN, **layers, "sliding_window": _WINDOW.get(model_type)})
    return model, build(model, "bfloat16", torch.device("cpu"))


@pytest.mark.parametrize("model_type", MODELLED)
def test_peaks_are_within_five_percent_of_live_tensors(model_type: str) -> None:
    """Above the weights, for a prompt of 512 whole and in parts of 128, growing and static."""
    model, built = _built(model_type)
    for cache, chunk in (("dynamic", None), ("dynamic", 128), ("static", None)):
        settings = transformers.Settings(dtype="bfloat16", cache_implementation=cache)  # type: ignore[arg-type]
        found = predict(model, settings, Case(2, 515, 4, chunk=chunk, expandable=True))
        reading = generate(built, settings, 2, 512, 4, chunk=chunk).reading
        assert found.peak_known
        assert reading.after - reading.before == found.allocated_low_bytes
        for ours, theirs in (
            (found.prefill_peak_bytes, reading.prefill_peak), (found.decode_peak_bytes, reading.decode_peak),
        ):  # fmt: skip
            assert ours == pytest.approx(theirs - reading.before, rel=0.05), (cache, chunk)


def test_live_tensors_are_followed_until_they_are_freed() -> None:
    """4,000 bytes are 8 blocks of 512; a view is nothing new; the larger of two that lived together is the peak."""
    there = torch.zeros(1000)
    with LiveTensors([there]) as live:
        there.view(10, 100)
        first = torch.ones(1000)
        first[:10]
        assert live.live == 4096
        second = first + 1
        assert live.live == live.peak == 8192
        del first
        assert live.live == 4096
        del second
    assert (live.live, live.peak) == (0, 8192)
