"""Prefill and decode on separate pools: the bytes that move by hand, the time that takes, the balance, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

import model_configs
from planner.cli import main
from planner.disaggregate import Disaggregation, Pool, disaggregate, link_rate
from planner.errors import EngineRefusal, InputError
from planner.hardware import gpu
from planner.latency import latency

LLAMA, DEEPSEEK = "meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3"
GEMMA, QWEN_NEXT = "google/gemma-3-27b-it", "Qwen/Qwen3-Next-80B-A3B-Instruct"
#: Bytes of a prompt of 4,096 tokens, by hand. Llama: 32 layers x 8 heads x (128 + 128) x 2 bytes a position. DeepSeek-V3: 61 x
#: (512 + 64) x 2. Gemma 3: 10 full layers of 16 x 256 x 2, and 52 that keep the last 1,023 of a window of 1,024. Qwen3-Next: 12
#: layers of 2 x 512 x 2, and 36 states of 8192 x 3 convolution and 32 x 128 x 128 recurrent elements in bfloat16, as in vLLM.
BY_HAND = {
    LLAMA: {"full": 4096 * 131072},
    DEEPSEEK: {"latent": 4096 * 61 * 1152},
    GEMMA: {"full": 10 * 4096 * 8192, "sliding": 52 * 1023 * 8192},
    QWEN_NEXT: {"full": 12 * 4096 * 2048, "state": 36 * 2 * (8192 * 3 + 32 * 128 * 128)},
}


def two(model: str, prefill: Pool, decode: Pool, prompt: int = 4096, link: str | float = "400Gb", **more: Any) -> Disaggregation:
    described = model_configs.read(f"catalogue:{model}")
    return disaggregate(described, prefill=prefill, decode=decode, link=link, prompt_tokens=prompt, output_tokens=512, **more)


@pytest.mark.parametrize("model", BY_HAND, ids=lambda name: name.rpartition("/")[2])
def test_only_what_later_tokens_read_moves(model: str) -> None:
    found = two(model, Pool("8xh200"), Pool("8xh200"), requests=8).moved
    assert {kind: size for kind, size in found.by_kind.items() if size} == BY_HAND[model]
    assert found.bytes == sum(BY_HAND[model].values())
    assert found.bytes <= found.block_bytes <= found.received_bytes


@pytest.mark.parametrize("name", ["sglang", "tensorrt-llm"])
def test_engines_move_the_same_of_a_plain_model(name: str) -> None:
    found = two(LLAMA, Pool("h100"), Pool("h100"), prompt=4000, engine=name).moved
    assert found.bytes == 4000 * 131072
    # SGLang's pages are one token, TensorRT-LLM's blocks 32.
    assert found.block_bytes == 4000 * 131072


def test_blocks_are_whole() -> None:
    """4,001 positions are 251 blocks of 16."""
    found = two(LLAMA, Pool("h100"), Pool("h100"), prompt=4001).moved
    assert (found.bytes, found.block_bytes) == (4001 * 131072, 251 * 16 * 131072)


def test_narrow_caches_move_less() -> None:
    narrow = {"kv_cache_dtype": "fp8"}
    assert two(LLAMA, Pool("h100", settings=narrow), Pool("h100", settings=narrow)).moved.bytes == 4096 * 131072 // 2


def test_ranks_receive_what_they_hold() -> None:
    """16 ranks hold 8 heads twice; 8 ranks hold the latent each."""
    found = two(LLAMA, Pool("h100"), Pool("h100", 16, {"tensor_parallel_size": 16})).moved
    assert found.received_bytes == 2 * found.bytes
    found = two(DEEPSEEK, Pool("8xh200"), Pool("8xh200"), requests=8).moved
    assert found.received_bytes == 8 * found.bytes


@pytest.mark.parametrize(
    ("link", "rate"), [("400Gb", 50e9), ("200 Gbps", 25e9), ("50GB", 50e9), ("50 GB/s", 50e9), (12.5e9, 12.5e9), ("1.6Tb", 200e9),
                       ("nvlink", 450e9), ("pcie", 64e9)],
)  # fmt: skip
def test_links(link: str | float, rate: float) -> None:
    assert link_rate(link, gpu("h100-sxm"), gpu("h200")) == pytest.approx(rate)


@pytest.mark.parametrize("link", ["", "fast", "0Gb", "-1GB", 0, True, "400"])
def test_links_that_are_none(link: Any) -> None:
    with pytest.raises(InputError, match="link"):
        link_rate(link, gpu("h100-sxm"))
    with pytest.raises(InputError, match="not known"):
        link_rate("nvlink", gpu("h100-sxm:3g.40gb"))


def test_time_of_the_transfer() -> None:
    """From all pairs of GPUs at 0.9 of the link to one at 0.3."""
    found = two(LLAMA, Pool("h100", 2), Pool("h100", 4))
    assert found.transfer_s.low == pytest.approx(found.moved.received_bytes / (2 * 50e9 * 0.9))
    assert found.transfer_s.high == pytest.approx(found.moved.received_bytes / (50e9 * 0.3))


def test_rates_and_balance_are_the_roofline_s() -> None:
    """requests a second = replicas / seconds of a prompt, and replicas x concurrency / (512 x seconds of a step)."""
    found = two(LLAMA, Pool("h100", 2, {"data_parallel_size": 2}), Pool("h100", 1), requests=64)
    model = model_configs.read(f"catalogue:{LLAMA}")
    prompt = latency(model, "h100", prompt_tokens=4096, output_tokens=1)
    step = latency(model, "h100", prompt_tokens=4096, output_tokens=512, concurrency=64)
    one, other = found.prefill.requests_per_s, found.decode.requests_per_s
    assert one is not None
    assert other is not None
    assert one.low == pytest.approx(2 / prompt.ttft_s.high)
    assert other.high == pytest.approx(64 / 512 / step.time_per_output_token_s.low)
    assert found.prefill_per_decode is not None
    assert found.prefill_per_decode.low == pytest.approx(other.low / one.high * 2)
    assert found.bound in ("prefill", "decode", "either")
    few = two(LLAMA, Pool("h100", 8, {"data_parallel_size": 8}), Pool("h100"), requests=1)
    assert few.bound == "decode"


def test_each_pool_has_a_verdict() -> None:
    """70 thousand million parameters in bfloat16 do not go on one H100."""
    large = "meta-llama/Llama-3.3-70B-Instruct"
    found = two(large, Pool("h100"), Pool("h100", 4), requests=4)
    assert not found.prefill.plan.fits
    assert found.decode.plan.fits
    assert not found.fits
    assert "--kv-transfer-config" in found.decode.command


def test_what_is_refused() -> None:
    with pytest.raises(EngineRefusal, match="no prefill and decode"):
        two(LLAMA, Pool("h100"), Pool("h100"), engine="llama.cpp")
    with pytest.raises(EngineRefusal, match="moves blocks as they are"):
        two(LLAMA, Pool("h100", settings={"kv_cache_dtype": "fp8"}), Pool("h100"))
    with pytest.raises(InputError, match="link"):
        two(LLAMA, Pool("h100"), Pool("h100"), link="fast")


def test_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    line = "--prefill-gpu h100 --decode-gpu 2xh100 --link 400Gb --prompt 4096 --output 512"
    words = ["disaggregate", f"catalogue:{LLAMA}", *line.split()]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "Moved for each request  512 MiB (536,870,912 B; full 512 MiB)" in out
    assert "prefill GPUs for each decode GPU" in out
    assert main([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["moved"]["bytes"] == 536870912
    assert data["decode"]["plan"]["split"]["tensor_parallel_size"] == 2
    assert main([*words, "--link", "fast"]) == 2
    assert "write what each GPU has" in capsys.readouterr().err
