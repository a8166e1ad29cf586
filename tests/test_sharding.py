"""Weights of a rank against what engines print after loading, and the laws that every split keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

import model_configs
from planner.errors import EngineRefusal, InputError
from planner.model import Model
from planner.sharding import weights_per_rank
from planner.units import GIB
from planner.weights import WeightItem, Weights

LLAMA = "meta-llama/Llama-3.1-8B"


def read(name: str) -> Model:
    return model_configs.read(f"catalogue:{name}")


@pytest.mark.parametrize(
    ("model", "ranks", "stages", "printed", "digits"),
    [
        (LLAMA, 1, 1, 14.99, 0.006), (LLAMA, 2, 1, 7.51, 0.006), (LLAMA, 4, 1, 3.77, 0.006),
        (LLAMA, 1, 2, 7.51, 0.006), (LLAMA, 1, 4, 4.26, 0.006),
        ("Qwen/Qwen3-8B", 1, 1, 15.2683, 0.006), ("mistral-community/pixtral-12b", 1, 1, 23.87, 0.006),
        ("openai/whisper-large-v3", 1, 1, 2.88, 0.006), ("openai/gpt-oss-20b", 1, 1, 13.47, 0.02),
        ("openai/gpt-oss-120b", 1, 1, 64.38, 0.25), ("MiniMaxAI/MiniMax-M2", 4, 1, 53.75, 0.1),
        ("mistralai/Mistral-Small-3.2-24B-Instruct-2506", 1, 1, 44.76, 0.01),
    ],
)  # fmt: skip
def test_weights_as_vllm_prints_them(model: str, ranks: int, stages: int, printed: float, digits: float) -> None:
    """"Model loading took": Llama by llm-d's runs of 0.19.0, the others from public logs."""
    found = weights_per_rank(read(model), tensor_parallel_size=ranks, pipeline_parallel_size=stages)
    assert found.stages[0].bytes / GIB == pytest.approx(printed, abs=digits)


def test_embeddings_are_on_the_first_stage_and_the_head_on_the_last() -> None:
    first, middle, _, last = weights_per_rank(read(LLAMA), pipeline_parallel_size=4).stages
    names = [{part.name for part in stage.parts} for stage in (first, middle, last)]
    assert "embeddings" in names[0]
    assert not {"embeddings", "lm_head"} & names[1]
    assert "lm_head" in names[2]
    assert [len(stage.layers) for stage in (first, middle, last)] == [8, 8, 8]


def test_a_tied_head_is_copied_to_the_last_stage() -> None:
    model = read("google/gemma-3-1b-it")
    last = weights_per_rank(model, pipeline_parallel_size=2).stages[-1]
    assert "lm_head" in {part.name for part in last.parts}
    assert "lm_head" not in {part.name for part in weights_per_rank(model).stages[0].parts}


@pytest.mark.parametrize("name", [LLAMA, "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-120b", "Qwen/Qwen3-Next-80B-A3B-Instruct",
                                  "google/gemma-3-27b-it", "tiiuae/Falcon-H1-7B-Instruct"])  # fmt: skip
def test_ranks_together_never_hold_less_than_the_model(name: str) -> None:
    """tp x the share of a rank is at least the whole, stages together too, and low <= bytes <= high everywhere."""
    model = read(name)
    assert model.weight_bytes is not None
    for ranks in (1, 2, 4, 8):
        for stages in (1, 2, 3):
            found = weights_per_rank(model, tensor_parallel_size=ranks, pipeline_parallel_size=stages)
            assert ranks * sum(found.bytes_by_stage) >= model.weight_bytes
            assert all(part.low <= part.bytes <= part.high for stage in found.stages for part in stage.parts)
            assert found.bytes == max(found.bytes_by_stage)


def test_experts_are_shared_out_over_data_parallel_ranks_too() -> None:
    model = read("deepseek-ai/DeepSeek-V3")
    alone = weights_per_rank(model, tensor_parallel_size=1, data_parallel_size=8, expert_parallel=True)
    tensor = weights_per_rank(model, tensor_parallel_size=8, expert_parallel=True)
    whole = weights_per_rank(model)
    assert tensor.bytes < alone.bytes < whole.bytes / 5, "attention is whole on each replica, experts are not"
    assert weights_per_rank(model, tensor_parallel_size=8, data_parallel_size=1).bytes >= whole.bytes // 8


def test_key_and_value_projections_are_repeated_beyond_their_heads() -> None:
    model = read(LLAMA)
    sixteen = weights_per_rank(model, tensor_parallel_size=16)
    layers = next(part.bytes for part in sixteen.stages[0].parts if part.name == "layers")
    repeated = 32 * 4096 * 2 * 128 * 2 / 2  # half a head of keys and values a rank more than an even share
    assert layers >= 6_979_588_096 * 2 / 16 + repeated


def test_a_total_without_items_is_still_split() -> None:
    """A checkpoint known as one number: embeddings and head by their size, the rest over the layers."""
    model = read(LLAMA)
    total = model.weight_bytes or 0
    bare = replace(model, weights=Weights((WeightItem("checkpoint", total // 2, total, "exact", "its headers"),)))
    for ranks, stages in ((1, 1), (2, 1), (1, 4)):
        split = {"tensor_parallel_size": ranks, "pipeline_parallel_size": stages}
        assert weights_per_rank(bare, **split).bytes == pytest.approx(weights_per_rank(model, **split).bytes, rel=1e-3)


def test_what_cannot_be_split_is_said() -> None:
    model = read(LLAMA)
    with pytest.raises(InputError, match="not known"):
        weights_per_rank(replace(model, weights=None))
    with pytest.raises(EngineRefusal, match="pipeline stages"):
        weights_per_rank(model, pipeline_parallel_size=33)


def test_towers_are_counted_whole_and_say_so() -> None:
    found = weights_per_rank(read("google/gemma-3-27b-it"), tensor_parallel_size=4)
    assert found.confidence == "estimated"
    assert "tower" in found.source
    assert found.low < found.bytes
