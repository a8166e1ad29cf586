"""Cutting a config to fewer layers: the pattern stays, whatever words say where each kind of layer is."""

from __future__ import annotations

import pytest

import model_configs
from model_configs import catalogue
from planner.errors import InputError
from validation.cut import cut


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("meta-llama/Llama-3.1-8B", 3),  # a depth alone
        ("openai-community/gpt2", 5),  # a depth under another name
        ("google/gemma-3-12b-it", 7),  # a pattern that the class fills in
        ("openai/gpt-oss-20b", 4),  # a list of layer words
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", 6),  # layer numbers from one
        ("LiquidAI/LFM2-1.2B", 4),  # layer numbers from zero
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 8),  # flags a layer
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", 20),  # a pattern of letters
        ("meituan-longcat/LongCat-Flash-Chat", 4),  # two cache layers a block
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 12),  # an interval
        ("google-t5/t5-small", 2),  # a decoder's own depth
    ],
)
def test_the_first_layers_stay_as_they_are(name: str, layers: int) -> None:
    model = model_configs.read(f"catalogue:{name}")
    assert cut(model, layers).layers == model.layers[:layers]


def test_layers_at_the_end_shrink_in_proportion() -> None:
    """Gemma 3n E4B shares the last 15 of 35 layers: 9 of 21."""
    model = model_configs.read("catalogue:google/gemma-3n-E4B-it")
    assert [layer.kind for layer in cut(model, 21).layers].count("shared") == 9


def test_every_model_of_the_catalogue_can_be_halved() -> None:
    """Half of the layers of each model that has them all in its first half, and its description is that of those layers."""
    halved = 0
    for entry in catalogue.entries():
        try:
            model = model_configs.read(f"catalogue:{entry.id}")
        except Exception:  # refused models are other tests' business
            continue
        half = len(model.layers) // 2
        kinds = {layer.kind for layer in model.layers}
        if half and {layer.kind for layer in model.layers[:half]} == kinds:
            halved += len(cut(model, half).layers) == half
    assert halved > 100


@pytest.mark.parametrize(
    ("name", "layers", "says"),
    [
        ("meta-llama/Llama-3.1-8B", 0, "1 to 31 layers"),
        ("meta-llama/Llama-3.1-8B", 32, "1 to 31 layers"),
        ("google/gemma-3-12b-it", 4, "leave out the full layers .* 6 layers have every kind"),
        ("meituan-longcat/LongCat-Flash-Chat", 3, "in groups of 2"),
    ],
)
def test_a_cut_that_is_none_is_refused(name: str, layers: int, says: str) -> None:
    with pytest.raises(InputError, match=says):
        cut(model_configs.read(f"catalogue:{name}"), layers)
