"""What an accelerator offers: the range of its memory, what its generation supports, and where each figure comes from."""

from __future__ import annotations

import statistics

import pytest

from planner.accelerators import table
from planner.hardware import Gpu, gpu, gpus
from planner.units import GB, GIB, MIB


def test_every_figure_says_how_far_it_can_be_trusted() -> None:
    """Each known figure has a status and a source of its own, written out; a verified one has been read somewhere."""
    for card in gpus():
        assert card.figures[0].name == "memory_bytes", card.id
        assert card.figures[0].value == card.memory_bytes, card.id
        for figure in card.figures:
            assert figure.value == getattr(card, figure.name), (card.id, figure)
            assert figure.status in ("verified", "recalled", "nominal"), (card.id, figure)
            assert figure.source, (card.id, figure)
            assert "$" not in figure.source, (card.id, figure)
            assert (figure.status == "verified") <= (figure.source != "not looked up"), (card.id, figure)
    bandwidth = gpu("h100").figure("bandwidth_gbs")
    assert bandwidth is not None
    assert (bandwidth.value, bandwidth.status) == (3350, "verified")
    assert gpu("t4").figure("fp8_tflops") is None


@pytest.mark.parametrize("card", gpus(), ids=lambda card: card.id)
def test_memory_range_holds_what_is_known(card: Gpu) -> None:
    """The range holds the figure to plan with and all that PyTorch was seen to print, and never passes the size on the box."""
    low, high, confidence = card.memory_range
    assert 0 < low <= card.usable_bytes <= high
    assert all(low <= seen <= high for seen in card.torch_seen_bytes)
    assert high <= (card.memory_bytes if card.status != "nominal" else card.memory_bytes * GIB // GB)
    assert confidence in ("measured", "estimated")
    assert (confidence == "measured") <= (card.torch_memory_bytes is not None)
    assert card.range_source


def test_pytorch_lies_where_the_range_says() -> None:
    """Of the NVIDIA cards with both totals, PyTorch's is 0.2 to 1.1 GiB below the driver's, usually half a GiB: the range that a
    card without PyTorch's total gets holds all of them. AMD's two totals are the same."""
    for vendor, at_least in (("NVIDIA", 30), ("AMD", 10)):
        known = [card for card in gpus() if card.vendor == vendor and card.torch_memory_bytes and card.status != "nominal"]
        gaps = [(card.memory_bytes - card.usable_bytes) / GIB for card in known]
        rule = table().below_driver_gib[vendor]
        assert len(gaps) >= at_least
        assert rule["least"] <= min(gaps) <= max(gaps) <= rule["most"]
        assert statistics.median(gaps) == pytest.approx(rule["usual"], abs=0.05)


def test_a_card_without_pytorchs_total() -> None:
    """RTX 4080: 16,376 MiB of driver total, so 14.89 to 15.79 GiB, 15.49 to plan with. RTX PRO 5000: only 48 GB on the box, which
    is 44.70 GiB if the vendor means 10**9 and 48 if it means 2**30."""
    low, high, confidence = gpu("4080").memory_range
    assert (round(low / GIB, 2), round(high / GIB, 2), confidence) == (14.89, 15.79, "estimated")
    assert round(gpu("4080").usable_bytes / GIB, 2) == 15.49
    low, high, _ = gpu("rtx-pro-5000").memory_range
    assert (round(low / GIB, 2), round(high / GIB, 2)) == (43.60, 47.80)


def test_an_amount_is_exact() -> None:
    """What the person gives is what is planned with."""
    assert gpu("96 GiB").memory_range == (96 * GIB, 96 * GIB, "exact")
    assert gpu("96 GiB").range_source == "given by the person"


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("m1 pro 16gb", 10_922.67 * MIB), ("m2 max 32gb", 21_845.34 * MIB), ("m2 max 96gb", 73_728 * MIB),
        ("m3 pro 36gb", 28_991.03e6),
        ("m4 max 48gb", 38_654.71e6), ("m1 max 64gb", 51_539.61e6), ("m3 max 128gb", 103_079.22e6), ("m3 pro 18gb", 14_302.25e6),
        ("m4 32gb", 26_800.60e6), ("m4 pro 48gb", 40_200.90e6), ("m3 max 64gb", 55_662.79e6), ("m4 max 128gb", 115_448.73e6),
        ("m3 ultra 512gb", 498_216.21e6),
    ],
)  # fmt: skip
def test_apple_working_sets(name: str, printed: float) -> None:
    """What llama.cpp printed as recommendedMaxWorkingSetSize, older and newer macOS, lies in the range to a ten-thousandth.

    Source: ggml-org/llama.cpp issue 3213, ollama/ollama issue 434 and public logs (data/gpus.yaml, apple_working_set).
    """
    low, high, confidence = gpu(name).memory_range
    assert low * 0.9999 <= printed <= high * 1.0001
    assert confidence == "estimated"
    assert gpu(name).usable_bytes == low


@pytest.mark.parametrize(
    ("name", "bf16", "fp8_native", "kv_fp8", "fp4", "flash"),
    [
        ("t4", False, False, "storage", False, (1,)), ("a100", True, False, "storage", False, (2,)),
        ("4090", True, True, "storage", False, (2,)), ("h100", True, True, "native", False, (2, 3, 4)),
        ("b200", True, True, "native", True, (4,)), ("5090", True, True, "storage", True, (2,)),
        ("mi300x", True, True, "native", False, (2,)),
        ("mi210", True, False, "no", False, (2,)), ("7900xtx", True, False, "no", False, None),
        ("v100", False, False, "storage", False, ()),
    ],
)  # fmt: skip
def test_what_a_generation_supports(
    name: str, bf16: bool, fp8_native: bool, kv_fp8: str, fp4: bool, flash: tuple[int, ...] | None
) -> None:
    """Formats and kernels by generation. Source: `generations` in data/gpus.yaml, each row with its own."""
    supports = gpu(name).supports
    assert supports is not None
    assert (supports.bf16, supports.fp8_native, supports.kv_fp8, supports.fp4_native) == (bf16, fp8_native, kv_fp8, fp4)
    assert supports.flash_attention == flash
    assert supports.status in ("verified", "recalled")


def test_rates_follow_the_generation() -> None:
    """bf16 runs at the rate of fp16 where the generation has it and has no rate where it does not; likewise fp8 and fp4."""
    assert gpu("h100").bf16_tflops == gpu("h100").fp16_tflops == 989
    assert gpu("t4").bf16_tflops is None
    assert gpu("m4 max").bf16_tflops is None, "not known"
    for card in gpus():
        if card.supports:
            assert card.bf16_tflops is None or card.supports.bf16, card.id
            assert card.fp8_tflops is None or card.supports.fp8_native, card.id
            assert card.fp4_tflops is None or card.supports.fp4_native, card.id
        if (card.generation or "").startswith("sm"):
            assert card.generation == f"sm{(card.compute_capability or '').replace('.', '')}", card.id
