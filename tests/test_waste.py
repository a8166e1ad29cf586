"""What paging loses and what a shared prefix saves, by hand-worked numbers and by laws over the whole catalogue."""

from __future__ import annotations

import pytest

import model_configs
from model_configs import catalogue
from planner.cache import CacheBytes
from planner.engines import ENGINES, engine
from planner.engines.waste import Waste, allocated, shared_block, shared_prefix_saving, shares_prefixes, waste
from planner.errors import InputError, PlannerError
from planner.model import Model

LLAMA = "meta-llama/Llama-3.1-8B"  # 32 layers x 8 heads x (128 + 128) x 2 B = 131,072 B a position
GEMMA = "google/gemma-3-27b-it"  # 52 sliding (window 1,024), 10 full; 16 heads x (128 + 128) x 2 B = 8,192 B a layer
HYBRID = "Qwen/Qwen3-Next-80B-A3B-Instruct"


def read(name: str) -> Model:
    return model_configs.read(f"catalogue:{name}")


def of(name: str, model: str, tokens: int, requests: int = 1, gpu: str | None = None, **settings: object) -> Waste:
    known = engine(name)
    return waste(read(model), known, known.Settings(**settings), tokens, requests, gpu)


def total(name: str, model: str, tokens: int, requests: int = 1, **settings: object) -> int:
    known = engine(name)
    return allocated(read(model), known, known.Settings(**settings), tokens, requests).total_bytes


def saving(name: str, model: str, prefix: int, requests: int, **settings: object) -> int:
    known = engine(name)
    return shared_prefix_saving(read(model), known, known.Settings(**settings), prefix, requests)


# Hand-worked


def test_a_thousand_tokens_in_blocks_of_sixteen_lose_eight_positions_a_request() -> None:
    """63 blocks hold 1,008 positions: 8 x 131,072 B = 1 MiB a request."""
    found = of("vllm", LLAMA, 1_000, 5)
    assert found == Waste(total_bytes=5 * 1_008 * 131_072, block_bytes=5 * 8 * 131_072)
    assert found.needed_bytes == 5 * 1_000 * 131_072


def test_whole_blocks_lose_nothing() -> None:
    assert of("vllm", LLAMA, 1_008).lost_bytes == 0
    assert of("vllm", LLAMA, 1_009).lost_bytes == 15 * 131_072


def test_each_rank_loses_its_share() -> None:
    """TP 2: 4 heads a rank, half the bytes; TP 16: one of 8 heads, repeated, an eighth."""
    assert of("vllm", LLAMA, 1_000, tensor_parallel_size=2).lost_bytes == 8 * 65_536
    assert of("vllm", LLAMA, 1_000, tensor_parallel_size=16).lost_bytes == 8 * 16_384


def test_the_waste_is_in_the_stored_dtype() -> None:
    assert of("vllm", LLAMA, 1_000, kv_cache_dtype="fp8").lost_bytes == 8 * 65_536


@pytest.mark.parametrize(
    ("name", "settings", "lost"),
    [
        ("transformers", {}, 0),
        ("sglang", {}, 0),  # pages of one token
        ("sglang", {"page_size": 64}, 24),  # 16 pages: 1,024
        ("tensorrt-llm", {}, 24),  # 32 blocks of 32
        ("tensorrt-llm", {"tokens_per_block": 64}, 24),
        ("tgi", {}, 0),  # flashinfer: one token
        ("tgi", {"attention": "paged"}, 8),  # 16
        ("tgi", {"attention": "flashdecoding"}, 24),  # 256
        ("llama.cpp", {}, 24),  # cells in steps of 256
    ],
)
def test_positions_lost_in_the_last_block(name: str, settings: dict[str, object], lost: int) -> None:
    assert of(name, LLAMA, 1_000, 3, **settings) == Waste((1_000 + lost) * 3 * 131_072, block_bytes=3 * lost * 131_072)


def test_a_context_allocated_at_the_start_is_reserved_not_lost_in_blocks() -> None:
    """llama.cpp with n_ctx 8,192 and 1,000 tokens asked for: 7,192 cells wait."""
    assert of("llama.cpp", LLAMA, 1_000, n_ctx=8_192) == Waste(8_192 * 131_072, reserved_bytes=7_192 * 131_072)


def test_a_static_cache_is_reserved() -> None:
    found = of("transformers", LLAMA, 1_000, cache_implementation="static", max_cache_len=1_500)
    assert found == Waste(1_500 * 131_072, reserved_bytes=500 * 131_072)


def test_a_windows_tokens_in_flight_are_reserved_and_short_groups_are_padding() -> None:
    """gemma-3 at 131,072 tokens on an H100 (8,192 batched tokens, two batches in flight).

    A window layer is given ceil((1,023 + 16,384) / 16) + 1 = 1,089 blocks = 17,424 positions and holds 1,023 of them. The 52
    window layers are dealt to 6 groups of at most 10, the block being 10 pages wide: 8 pages of each of 1,089 blocks are padding.
    """
    found = of("vllm", GEMMA, 131_072, gpu="h100")
    assert found.reserved_bytes == 52 * (17_424 - 1_023) * 8_192
    assert found.padding_bytes == 8 * 1_089 * 16 * 8_192
    assert found.block_bytes == found.alignment_bytes == 0
    assert found.needed_bytes == (52 * 1_023 + 10 * 131_072) * 8_192


def test_a_layer_kept_in_full_holds_every_position() -> None:
    """TGI knows no window: what the architecture would drop is held all the same, in blocks of 256."""
    found = of("tgi", GEMMA, 10_000, attention="flashdecoding")
    assert found == Waste(62 * 10_240 * 8_192, block_bytes=62 * 240 * 8_192)


def test_pages_made_equal_are_alignment() -> None:
    """A gated-delta state in vLLM is padded to the page of the attention blocks (576 tokens of 2 heads x 512 x 2 B)."""
    found = of("vllm", HYBRID, 1_152, 1)
    state = 8_192 * 3 * 2 + 32 * 128 * 128 * 2
    blocks = 3  # one in use, one for prefix caching, one for a prefill checkpoint
    page = 576 * 2 * 512 * 2
    assert found.alignment_bytes == 36 * blocks * (page - state)
    assert found.block_bytes == 0


def test_sglangs_padding_slot_serves_nobody() -> None:
    """One state slot more than the requests use: the same bytes however many requests there are."""
    one, ten = of("sglang", HYBRID, 1_000, 1), of("sglang", HYBRID, 1_000, 10)
    assert one.padding_bytes == ten.padding_bytes > 0
    assert one.lost_bytes == one.padding_bytes


# Shared prefixes


def test_a_shared_prefix_is_counted_once_in_whole_blocks() -> None:
    """1,000 tokens fill 62 blocks of 16 = 992 positions; 9 of 10 requests need none of their own."""
    assert saving("vllm", LLAMA, 1_000, 10) == 9 * 992 * 131_072
    assert saving("sglang", LLAMA, 1_000, 10) == 9 * 1_000 * 131_072
    assert saving("sglang", LLAMA, 1_000, 10, page_size=64) == 9 * 960 * 131_072
    assert saving("tensorrt-llm", LLAMA, 1_000, 10) == 9 * 992 * 131_072
    assert saving("tgi", LLAMA, 1_000, 10) == 9 * 1_000 * 131_072
    assert saving("tgi", LLAMA, 1_000, 10, attention="flashdecoding") == 9 * 768 * 131_072


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("transformers", {}), ("llama.cpp", {}), ("vllm", {"enable_prefix_caching": False}),
        ("sglang", {"disable_radix_cache": True}), ("tensorrt-llm", {"enable_block_reuse": False}),
        ("tgi", {"attention": "paged"}),
    ],
)  # fmt: skip
def test_without_prefix_caching_nothing_is_saved(name: str, settings: dict[str, object]) -> None:
    known = engine(name)
    assert not shares_prefixes(read(LLAMA), known, known.Settings(**settings))
    assert saving(name, LLAMA, 1_000, 10, **settings) == 0


def test_less_than_a_block_or_one_request_saves_nothing() -> None:
    assert saving("vllm", LLAMA, 15, 10) == 0
    assert saving("vllm", LLAMA, 16, 10) == 9 * 16 * 131_072
    assert saving("vllm", LLAMA, 1_000, 1) == 0


def test_only_layers_that_keep_every_position_share() -> None:
    """gemma-3: the 10 full layers, whose group is as wide as the pool's block."""
    assert saving("vllm", GEMMA, 4_096, 4) == 3 * 4_096 * 10 * 8_192


def test_a_hybrid_shares_its_large_attention_blocks() -> None:
    known = engine("vllm")
    model = read(HYBRID)
    assert shared_block(model, known, known.Settings()) == 576
    assert saving("vllm", HYBRID, 575, 4) == 0
    assert saving("vllm", HYBRID, 1_200, 4) == 3 * 1_152 * 12 * 2 * 512 * 2


def test_the_prefix_must_be_a_count() -> None:
    with pytest.raises(InputError):
        saving("vllm", LLAMA, -1, 10)


# Laws


def answers() -> list[tuple[str, str]]:
    return [(entry.id, name) for entry in catalogue.entries()[::4] for name in ENGINES]


@pytest.mark.parametrize(("model", "name"), answers())
def test_the_parts_add_up_and_none_is_negative(model: str, name: str) -> None:
    described, known = read(model), engine(name)
    settings = known.Settings()
    for tokens in (1, 1_000, 40_001):
        try:
            cache: CacheBytes = allocated(described, known, settings, tokens, 3, encoder_tokens=700)
        except PlannerError:
            return  # what an engine refuses has no bytes to lose
        found = waste(described, known, settings, tokens, 3, encoder_tokens=700)
        parts = (found.block_bytes, found.reserved_bytes, found.padding_bytes, found.alignment_bytes)
        assert found.total_bytes == cache.total_bytes
        assert all(part >= 0 for part in parts)
        assert sum(parts) + found.needed_bytes == cache.total_bytes
        assert found.needed_bytes >= 0
        assert 0 <= shared_prefix_saving(described, known, settings, tokens, 3) <= cache.total_bytes
