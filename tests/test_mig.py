"""MIG slices: their memory and shares against what nvidia-smi lists, the names they answer to, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import model_configs
from planner import mig
from planner.accelerators import table
from planner.capacity import plan
from planner.errors import EngineRefusal, InputError
from planner.hardware import gpu, node
from planner.units import GIB, MIB

GOLDEN = yaml.safe_load((Path(__file__).parent / "golden/mig.yaml").read_text("utf-8"))
LLAMA = "catalogue:meta-llama/Llama-3.1-8B"


@pytest.mark.parametrize("row", GOLDEN["lgip"], ids=lambda row: f"{row['gpu']}:{row['profile']}")
def test_slices_are_those_of_nvidia_smi(row: dict[str, Any]) -> None:
    """nvidia-smi prints GiB to two places, cut."""
    card, whole = gpu(f"{row['gpu']}:{row['profile']}"), table().gpus[row["gpu"]]
    assert int(card.usable_bytes / GIB * 100) / 100 == pytest.approx(row["gib"], abs=0.011)
    have, of = row["sms"]
    assert card.fp16_tflops == pytest.approx((whole.fp16_tflops or 0) * have / of)
    assert card.bandwidth_gbs == pytest.approx((whole.bandwidth_gbs or 0) * row["memory"])
    part = next(one for one in mig.slices()[row["gpu"]] if one.name == row["profile"])
    assert part.count == row["count"]
    assert part.count * part.low <= whole.memory_bytes


@pytest.mark.parametrize("row", GOLDEN["totals"], ids=lambda row: f"{row['gpu']}:{row['profile']}")
def test_totals_as_printed_lie_in_the_range(row: dict[str, Any]) -> None:
    low, high, _ = gpu(f"{row['gpu']}:{row['profile']}").memory_range
    for total in ([row["mib"] * MIB] if "mib" in row else []) + ([row["torch_gib"] * GIB] if "torch_gib" in row else []):
        assert low <= total <= high


def test_every_slice_is_of_a_known_card_and_says_where_from() -> None:
    for card, parts in mig.slices().items():
        assert card in table().gpus
        for part in parts:
            found = gpu(f"{card}:{part.name}")
            assert found.mig_profile == part.name
            assert found.usable_bytes <= found.memory_bytes < table().gpus[card].memory_bytes
            assert 0 < part.bandwidth_share <= 1
            assert 0 < part.compute_share <= 1
            assert found.source
            assert found.link_gbs is None
            assert found.figure("bandwidth_gbs") is not None


@pytest.mark.parametrize(
    "name",
    ["h100-sxm:3g.40gb", "h100:3g.40gb", "h100-mig-3g.40gb", "H100 3g.40gb", "NVIDIA H100 80GB HBM3 MIG 3g.40gb", "h100:3G.40GB"],
)
def test_a_slice_answers_to_its_names(name: str) -> None:
    assert gpu(name).id == "h100-sxm:3g.40gb"


def test_a_profile_of_one_kind_of_card_needs_no_card() -> None:
    assert gpu("mig-3g.71gb").id == "h200-sxm:3g.71gb"
    assert [card.id for card in node("7 x a30:1g.6gb").gpus] == ["a30:1g.6gb"] * 7


@pytest.mark.parametrize(
    ("name", "why"),
    [("mig-3g.40gb", "say which"), ("h100:9g.90gb", "h100-sxm:7g.80gb"), ("4090:1g.5gb", "no MIG"), ("mig-9g.9gb", "no card"),
     ("nosuch:1g.5gb", "no accelerator"), ("h100:400GiB", "no part")],
)  # fmt: skip
def test_slices_that_there_are_not(name: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        gpu(name)


def test_a_model_is_planned_on_a_slice() -> None:
    """Half of an H100 less than half the requests, because weights and runtime are the same."""
    model = model_configs.read(LLAMA)
    whole = plan(model, "vllm", {"max_model_len": 8192}, "h100-sxm", advice=False)
    half = plan(model, "vllm", {"max_model_len": 8192}, "h100-sxm:3g.40gb", advice=False)
    assert half.fits
    assert half.max_requests is not None
    assert whole.max_requests is not None
    assert 0 < half.max_requests < whole.max_requests / 2
    assert half.terms[0].bytes == int(39.5 * GIB)


@pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt-llm"])
def test_ranks_are_refused_on_slices(name: str) -> None:
    model = model_configs.read(LLAMA)
    with pytest.raises(EngineRefusal, match="one MIG slice"):
        plan(model, name, {"tensor_parallel_size": 2}, "h100-sxm:3g.40gb", 2, advice=False)


def test_several_slices_are_several_servers() -> None:
    """Where no split is said, replicas, each on its own slice."""
    found = plan(model_configs.read(LLAMA), "vllm", {"max_model_len": 8192}, "2xh100-sxm:3g.40gb", advice=False)
    assert (found.tensor_parallel_size, found.replicas) == (1, 2)
    for name in ("llama.cpp", "transformers"):
        with pytest.raises(EngineRefusal, match="one MIG slice"):
            plan(model_configs.read(LLAMA), name, None, "2xh100-sxm:3g.40gb", advice=False)


def test_a_given_part_of_a_card() -> None:
    """A vGPU has the amount that it was given, and no speed that could be counted on."""
    card = gpu("h100:40GiB")
    assert card.usable_bytes == 40 * GIB
    assert card.bandwidth_gbs is None
    assert card.supports == gpu("h100").supports
