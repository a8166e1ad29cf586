"""The roofline of time: figures worked by hand, published speeds inside the ranges, laws, and what is refused."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

import model_configs
from model_configs import catalogue
from planner.cache import architecture_bytes
from planner.errors import InputError, PlannerError
from planner.hardware import gpu, gpus
from planner.latency import Latency, Range, latency
from planner.latency_efficiency import table
from planner.latency_experts import active
from planner.latency_pairs import Blocks, Capped, Chunks, Constant, Reads
from planner.latency_work import work
from planner.model import Model
from planner.weights import WeightItem, Weights


def read(name: str) -> Model:
    return model_configs.read(f"catalogue:{name}")


LLAMA_7B = "meta-llama/Llama-2-7b-hf"
GPT_FAST = "github.com/pytorch-labs/gpt-fast README at 0f925b5"


def at(name: str, card: str, prompt: int = 5, output: int = 200, **other: Any) -> Latency:
    return latency(read(name), card, prompt_tokens=prompt, output_tokens=output, **other)


def test_llama_2_7b_by_hand() -> None:
    """N = 6,738,415,616 parameters less 131,072,000 of the embeddings, which are looked up: 13.21 GB, 2 N FLOPs a token, and
    attention of 32 layers x 2 x 32 heads x (128 + 128) = 524,288 FLOPs a position. On an A100 of 2,039 GB/s no step can be
    shorter than 13,214,687,232 / 2.039e12 = 6.48 ms.

    Source: the parameters of Llama 2, arXiv 2307.09288; Kaplan et al., arXiv 2001.08361, section 2.1.
    """
    found = at(LLAMA_7B, "a100", 100, 1)
    used = 6_738_415_616 - 131_072_000
    assert found.active_params == Range(used, used)
    assert found.decode_flops_per_token == Range(2 * used + 524_288 * 101, 2 * used + 524_288 * 101)
    assert found.weight_bytes == Range(2 * used, 2 * used)
    assert found.time_per_output_token_s.low > 2 * used / 2.039e12 > 0.00648
    head = 32_000 * 4096
    assert found.prefill_flops.low == 2 * (used - head) * 100 + 2 * head + 524_288 * (100 * 101 // 2)
    assert found.bound == "memory"
    assert found.confidence == "estimated"


@pytest.mark.parametrize(
    ("model", "card", "ranks", "tokens_per_s"),
    [
        (LLAMA_7B, "a100", 1, 104.9), (LLAMA_7B, "a100", 2, 168.84), (LLAMA_7B, "a100", 4, 254.02), (LLAMA_7B, "a100", 8, 328.43),
        ("meta-llama/Llama-2-70b-hf", "a100", 2, 21.32), ("meta-llama/Llama-2-70b-hf", "a100", 4, 38.01),
        ("meta-llama/Llama-2-70b-hf", "a100", 8, 62.50), (LLAMA_7B, "mi250x", 1, 76.33),
    ],
)  # fmt: skip
def test_published_decoding_speeds_are_inside_the_range(model: str, card: str, ranks: int, tokens_per_s: float) -> None:
    """Source: the README's tables of batch 1, prompts of 5 tokens, bf16, tensor parallelism."""
    assert GPT_FAST.split()[0] in table()["factors"]["bandwidth_16_bit"]["source"]
    assert tokens_per_s in at(model, card, tensor_parallel_size=ranks).output_tokens_per_s


@pytest.mark.parametrize(("params_bits", "tokens_per_s", "read_gb_per_s"), [(8, 155.58, 1069.20), (4, 196.80, 862.69)])
def test_published_speeds_of_packed_weights(params_bits: int, tokens_per_s: float, read_gb_per_s: float) -> None:
    """The bytes are those that the README's bandwidth and speed imply. Source: as above, one A100-80GB."""
    model = read(LLAMA_7B)
    item = WeightItem("layers", 6_607_343_616, int(read_gb_per_s / tokens_per_s * 1e9), "exact", "test")
    packed = replace(model, weights=Weights((item, WeightItem("lm_head", 1, 1, "exact", "test"))))
    assert active(packed).bits_per_parameter == pytest.approx(params_bits * 1.05, rel=0.32)
    assert tokens_per_s in latency(packed, "a100", prompt_tokens=5, output_tokens=200).output_tokens_per_s


def test_figures_that_no_factor_was_taken_from() -> None:
    """llama.cpp on Apple machines, Llama 7B in F16: 92.15 ms a token on an M2 Pro, 1,265 prompt tokens a second on an M2 Ultra.

    Source: github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference issue 1; github.com/ggml-org/llama.cpp pull 3084.
    """
    assert 0.09215 in at(LLAMA_7B, "apple-m2-pro").time_per_output_token_s
    assert 512 / 1265.30 in at(LLAMA_7B, "apple-m2-ultra", 512, 1).ttft_s


@pytest.mark.parametrize(
    ("model", "billions", "tolerance"),
    [
        ("mistralai/Mixtral-8x7B-v0.1", 12.9, 0.02), ("deepseek-ai/DeepSeek-V3", 37, 0.02), ("openai/gpt-oss-120b", 5.1, 0.02),
        ("openai/gpt-oss-20b", 3.6, 0.02), ("Qwen/Qwen3-235B-A22B", 22, 0.03), ("moonshotai/Kimi-K2-Instruct", 32, 0.02),
        ("zai-org/GLM-4.5", 32, 0.04), ("zai-org/GLM-4.5-Air", 12, 0.08), ("tencent/Hunyuan-A13B-Instruct", 13, 0.03),
        ("databricks/dbrx-instruct", 36, 0.02), ("ai21labs/AI21-Jamba-1.5-Mini", 12, 0.02),
        ("ai21labs/AI21-Jamba-1.5-Large", 94, 0.02),
        ("MiniMaxAI/MiniMax-M2", 10, 0.05), ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", 12, 0.03),
        ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", 17, 0.06), ("Qwen/Qwen3-Coder-480B-A35B-Instruct", 35, 0.02),
        ("google/gemma-4-26B-A4B", 3.8, 0.02), ("deepseek-ai/DeepSeek-V2-Lite", 2.4, 0.03),
    ],
)  # fmt: skip
def test_active_parameters_are_those_that_makers_state(model: str, billions: float, tolerance: float) -> None:
    """The makers' own rounded figures; some count the embeddings, which are looked up and not computed with.

    Source: the model cards and papers, in whose names several of the figures stand.
    """
    found = active(read(model)).params
    assert found.low == found.high == pytest.approx(billions * 1e9, rel=tolerance)


def test_experts_that_compute_nothing_make_a_range() -> None:
    """LongCat-Flash activates 18.6 to 31.3 billion, 27 on average. Source: arXiv 2509.01322, abstract."""
    found = active(read("meituan-longcat/LongCat-Flash-Chat")).params
    assert found.low == pytest.approx(27e9, rel=0.01)
    assert found.high == pytest.approx(31.3e9, rel=0.01)


def test_a_mixture_whose_choice_is_not_stated_is_a_range_and_says_so() -> None:
    model = read("moonshotai/Kimi-Linear-48B-A3B-Instruct")
    found = latency(model, "h100", prompt_tokens=10, output_tokens=10)
    assert 3e9 in found.active_params
    assert any("256 experts" in text for text in found.warnings)
    told = replace(model, config={**model.config, "num_experts_per_token": 8})
    assert active(told).params.high == pytest.approx(3e9, rel=0.1)


def test_a_batch_reads_more_experts_and_never_more_than_there_are() -> None:
    model = read("Qwen/Qwen3-30B-A3B")
    used = active(model)
    sizes = [used.bytes_read(1 << i) for i in range(20)]
    assert all(a.low <= b.low and a.high <= b.high for a, b in itertools.pairwise(sizes))
    assert model.weight_bytes is not None
    assert sizes[-1].high <= model.weight_bytes
    # One token reads 8 of 128 experts in each layer: 48 layers x 3 x 2048 x 768 x 120 parameters are left alone, 2 bytes each.
    assert used.stored_bytes.high - sizes[0].high == pytest.approx(48 * 3 * 2048 * 768 * 120 * 2, rel=1e-9)


READS: list[Reads] = [
    Constant(5), Capped(), Capped(1), Capped(7), Capped(1000), Chunks(1), Chunks(5), Blocks(1), Blocks(4), Blocks(4, 3),
    Blocks(3, 1),
]  # fmt: skip


@pytest.mark.parametrize("reads", READS, ids=str)
def test_sums_of_positions_are_those_of_counting(reads: Reads) -> None:
    total = totals = 0
    for length in range(1, 80):
        total += reads.at(length)
        totals += total
        assert (reads.total(length), reads.totals(length)) == (total, totals)
        assert reads.between(length - 1, length) == reads.at(length)


def test_a_window_bounds_attention_and_latents_are_read_as_they_lie() -> None:
    """Gemma 3 27B at 131,072 positions: 52 layers read 1,024 of them, 10 read all; 2 x 32 heads x 256 FLOPs a position.
    DeepSeek-V3: 61 layers x 2 x 128 heads x (2 x 512 + 64) a position when decoding.

    Source: config.json of both; DeepSeek-V2, arXiv 2405.04434, section 2.1.
    """
    gemma = work(read("google/gemma-3-27b-it"))
    more = gemma.decode_flops(131_071, 1).low - gemma.decode_flops(1023, 1).low
    assert more == 10 * 2 * 32 * 256 * (131_072 - 1024)
    deepseek = work(read("deepseek-ai/DeepSeek-V3"))
    assert deepseek.decode_flops(1000, 1).low - deepseek.decode_flops(999, 1).low == 61 * 2 * 128 * (2 * 512 + 64)


def test_cache_bytes_are_exact_and_split_as_heads_are() -> None:
    """One GPU reads every byte of the cache; 8 KV heads over 16 ranks are one a rank; a latent is whole on each of them."""
    llama, deepseek = read("meta-llama/Llama-3.1-8B"), read("deepseek-ai/DeepSeek-V3")
    whole = architecture_bytes(llama, 1000, 3).total_bytes
    assert work(llama).read_bytes(1000, 3, None, 0, 1) == Range(whole, whole)
    assert work(llama).read_bytes(1000, 3, None, 0, 16).high == whole / 8
    assert work(llama).read_bytes(1000, 3, "fp8", 0, 1).high == whole / 2
    latent = architecture_bytes(deepseek, 1000).total_bytes
    assert work(deepseek).read_bytes(1000, 1, None, 0, 8).high == latent
    sparse = work(read("deepseek-ai/DeepSeek-V3.2")).read_bytes(100_000, 1, None, 0, 1)
    assert sparse.low < sparse.high / 2


def test_what_the_cache_saves() -> None:
    """From a prompt of one token, n tokens project n positions with the cache and n (n + 1) / 2 without.

    Source: the definition; each step without a cache is a prefill of everything so far.
    """
    for length in (1, 2, 100, 4096):
        found = at(LLAMA_7B, "a100", 1, length).savings
        assert (found.with_projected_tokens, found.without_projected_tokens) == (length, length * (length + 1) // 2)
        assert found.time_ratio.low >= 1
    by_hand = sum(work(read(LLAMA_7B)).prefill_flops(t).low for t in range(7, 7 + 50))
    assert at(LLAMA_7B, "a100", 7, 50).savings.without_flops.low == by_hand


def test_measured_gains_grow_with_the_answer_and_stay_below_what_flops_allow() -> None:
    """Small models on a CPU, prompt of 16 tokens: 1.55 to 17.09 times faster at 16 to 1,024 new tokens.

    Source: measured with transformers 5.24, one thread, random weights, greedy.
    """
    measured = {16: 1.55, 64: 1.95, 128: 2.9, 256: 4.31, 512: 8.81, 1024: 17.09}
    small = {
        "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 4,
        "intermediate_size": 688, "vocab_size": 1000,
    }  # fmt: skip
    done = [latency(model_configs.read(small), "a100", prompt_tokens=16, output_tokens=n).savings.flops_ratio for n in measured]
    assert done == sorted(done)
    assert all(ours >= theirs for ours, theirs in zip(done, measured.values(), strict=True))


@pytest.mark.parametrize(
    "name", ["meta-llama/Llama-3.1-8B", "google/gemma-3-27b-it", "deepseek-ai/DeepSeek-V3", "tiiuae/Falcon-H1-7B-Instruct"]
)
def test_laws(name: str) -> None:
    """More tokens take longer, more requests give more tokens a second and longer steps, a faster card is faster."""
    base = at(name, "h100", 1000, 100)
    assert at(name, "h100", 2000, 100).ttft_s.low >= base.ttft_s.low  # equal where reading the weights outlasts both
    assert at(name, "h100", 2000, 100).ttft_s.high > base.ttft_s.high
    assert at(name, "h100", 50_000, 100).time_per_output_token_s.high > base.time_per_output_token_s.high
    assert at(name, "h200", 1000, 100).time_per_output_token_s.low < base.time_per_output_token_s.low
    longer = at(name, "h100", 1000, 200)
    assert longer.total_s.low > base.total_s.low
    assert longer.savings.flops_ratio > base.savings.flops_ratio
    for a, b in itertools.pairwise(base.curve):
        assert a.time_per_output_token_s.low <= b.time_per_output_token_s.low
        assert a.output_tokens_per_s.low <= b.output_tokens_per_s.low * (1 + 1e-12)
    assert [point.concurrency for point in base.curve] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    half = at(name, "h100", 1000, 100, kv_cache_dtype="fp8")
    assert half.kv_bytes.high < base.kv_bytes.high


def test_the_crossover_is_where_computing_takes_over() -> None:
    """Short requests of a dense model: 2 N B / peak = 2 N / bandwidth at B = peak / bandwidth = 312e12 / 2.039e12 = 153, less
    or more by the factors. Long ones never, because their caches outweigh their FLOPs."""
    early, late = at(LLAMA_7B, "a100", 1, 1).crossover_concurrency
    assert early is not None
    assert late is not None
    assert early < 153 < late
    assert at(LLAMA_7B, "a100", 4000, 1).crossover_concurrency == (None, None)


def test_every_model_and_every_card_gives_a_range_or_a_reason() -> None:
    for entry in catalogue.entries():
        found = at(entry.id, "h100", 1000, 100, concurrency=3)
        for value in (found.ttft_s, found.time_per_output_token_s, found.total_s, found.prefill_flops, found.active_params):
            assert 0 < value.low <= value.high < float("inf"), entry.id
        assert 0 <= found.kv_bytes.low <= found.kv_bytes.high
    model = read("meta-llama/Llama-3.1-8B")
    for card in gpus():
        if card.bandwidth_gbs and (card.fp16_tflops or card.bf16_tflops):
            assert latency(model, card, prompt_tokens=10, output_tokens=10).ttft_s.low > 0
        else:
            with pytest.raises(InputError, match="not known"):
                latency(model, card, prompt_tokens=10, output_tokens=10)


def test_every_factor_has_a_source_and_how_it_is_known() -> None:
    for name, row in table()["factors"].items():
        assert row["low"] <= row["high"], name
        assert row["kind"] in ("measured", "observed", "assumed")
        assert len(row["source"]) > 40
    assert all(factor.source for factor in at(LLAMA_7B, "a100", tensor_parallel_size=2).factors)


@pytest.mark.parametrize(
    "given",
    [
        {"prompt_tokens": 0}, {"prompt_tokens": -1}, {"prompt_tokens": True}, {"prompt_tokens": 1.5}, {"prompt_tokens": "9"},
        {"prompt_tokens": 10**13}, {"prompt_tokens": 2 * 10**9}, {"output_tokens": 0}, {"concurrency": 0}, {"concurrency": None},
        {"tensor_parallel_size": 0}, {"tensor_parallel_size": 3}, {"kv_cache_dtype": "fp7"}, {"gpu": "24GiB"},
        {"gpu": "no such card"}, {"encoder_tokens": -1},
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_is_refused(given: dict[str, Any]) -> None:
    asked = {"gpu": "a100", "prompt_tokens": 10, "output_tokens": 10, **given}
    with pytest.raises(PlannerError):
        latency(read(LLAMA_7B), **asked)


def test_unknown_weights_are_refused_and_limits_are_said() -> None:
    model = read(LLAMA_7B)
    with pytest.raises(InputError, match="weights of"):
        latency(replace(model, weights=None), "a100", prompt_tokens=1, output_tokens=1)
    assert any("limit of 4,096" in text for text in at(LLAMA_7B, "a100", 4000, 200).warnings)
    assert latency(model, gpu("a100"), prompt_tokens=10**9, output_tokens=1, concurrency=10**12).ttft_s.low > 0
