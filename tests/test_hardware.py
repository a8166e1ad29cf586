"""Accelerators by name: ids, short names, amounts, and what an unknown name gets."""

from __future__ import annotations

import re
from typing import Any

import pytest

from planner import InputError
from planner.hardware import by_driver_name, gpu, gpus
from planner.units import GB, GIB, MIB


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("h100", "h100-sxm"), ("H100", "h100-sxm"), ("h100-sxm", "h100-sxm"), ("h100 sxm", "h100-sxm"), ("H100_SXM", "h100-sxm"),
        (" h100 ", "h100-sxm"), ("NVIDIA H100", "h100-sxm"), ("h100-pcie", "h100-pcie"), ("h200", "h200-sxm"),
        ("a100", "a100-80gb-sxm"), ("a100-80gb", "a100-80gb-sxm"), ("A100 40GB", "a100-40gb-sxm"), ("4090", "rtx-4090"),
        ("RTX 4090", "rtx-4090"), ("GeForce RTX 4090", "rtx-4090"), ("3090", "rtx-3090"), ("5090", "rtx-5090"),
        ("l4", "l4"), ("t4", "t4"), ("b200", "b200"), ("mi300x", "mi300x"), ("m3 max", "apple-m3-max"), ("2080ti", "rtx-2080-ti"),
        ("h100 80gb", "h100-sxm"), ("RTX 4090 24GB", "rtx-4090"), ("v100 16gb", "v100-16gb"), ("3080", "rtx-3080-10gb"),
        ("3080 12gb", "rtx-3080-12gb"), ("NVIDIA GeForce RTX 3080", "rtx-3080-10gb"), ("gaudi 3", "gaudi3"),
        ("w7900", "radeon-pro-w7900"),
        ("AMD Instinct MI300X", "mi300x"), ("7900 XTX", "rx-7900-xtx"), ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("GB10", "dgx-spark"),
        ("NVIDIA A100 80GB PCIe", "a100-80gb-pcie"), ("tesla t4", "t4"), ("rtx4060ti 8gb", "rtx-4060-ti-8gb"),
    ],
)  # fmt: skip
def test_names(name: str, expected: str) -> None:
    """An id or a common short name, in any case and spelling of blanks, is the common variant of that accelerator."""
    assert gpu(name).id == expected


def test_every_id_finds_its_own_row() -> None:
    """No alias hides a row, ids are unique, and an id is lower case with dashes so that it can be typed."""
    ids = [card.id for card in gpus()]
    assert len(set(ids)) == len(ids) >= 140
    for card in gpus():
        assert gpu(card.id) is card
        assert gpu(card.id.upper()).id == card.id
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9.]+)*", card.id)


def test_the_h100_is_not_80_gib() -> None:
    """The driver gives 81,559 MiB (79.65 GiB) and PyTorch 79.18 GiB of it, never the 80 on the box.

    Source: github.com/vllm-project/vllm issue 55169 (nvidia-smi table) and start-up logs of PyTorch's total.
    """
    card = gpu("h100")
    assert card.memory_bytes == 81_559 * MIB
    assert round(card.memory_bytes / GIB, 2) == 79.65
    assert card.torch_memory_bytes is not None
    assert round(card.torch_memory_bytes / GIB, 2) == 79.18
    assert card.usable_bytes == card.torch_memory_bytes
    assert card.status == "verified"


@pytest.mark.parametrize(
    ("name", "driver_mib", "torch_gib"),
    [
        ("h200", 143_771, 139.80),
        ("b200", 183_359, 178.35),
        ("a100-40gb", 40_960, 39.49),
        ("a100", 81_920, 79.15),
        ("t4", 15_360, 14.56),
    ],
)
def test_what_engines_can_use(name: str, driver_mib: int, torch_gib: float) -> None:
    """Other cards' driver and PyTorch totals. Source: public start-up logs and nvidia-smi tables."""
    card = gpu(name)
    assert card.memory_bytes == driver_mib * MIB
    assert card.usable_bytes / GIB == pytest.approx(torch_gib, abs=0.01)


def test_every_row_is_sane() -> None:
    """Each card has a vendor, a source, a known status, and a size that its vendor could mean."""
    for card in gpus():
        assert all((card.name, card.vendor, card.source)), card.id
        assert card.status in ("verified", "recalled", "nominal"), card.id
        assert type(card.memory_bytes) is int, card.id
        assert 2 * GIB <= card.memory_bytes <= 1024 * GIB, card.id
        assert card.usable_bytes <= card.memory_bytes, card.id
        assert card.bandwidth_gbs is None or 10 <= card.bandwidth_gbs <= 50_000, card.id
        for rate in (card.fp16_tflops, card.bf16_tflops, card.fp8_tflops, card.fp4_tflops, card.int8_tops):
            assert rate is None or 0.1 <= rate <= 20_000, card.id
        assert card.link_gbs is None or 50 <= card.link_gbs <= 2_000, card.id
        assert card.pcie_gbs in (None, 32, 64, 128, 256), card.id
        assert card.tdp_w is None or 30 <= card.tdp_w <= 2_000, card.id
        assert (card.supports is not None) == (card.generation is not None), card.id


def test_pytorch_sees_most_of_what_the_driver_gives() -> None:
    """On one device PyTorch's total is less than the driver's, by a few per cent at most; both are of the same device."""
    for card in gpus():
        if card.torch_memory_bytes is not None and card.status == "verified":
            assert 0.95 <= card.torch_memory_bytes / card.memory_bytes <= 1, card.id


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("96GiB", 96 * GIB),
        ("96 GiB", 96 * GIB),
        ("24 GB", 24 * GB),
        ("79.65 GiB", 85_523_536_281),
        ("512MiB", 512 * MIB),
    ],
)
def test_an_amount_is_a_card_of_that_size(text: str, expected: int) -> None:
    """A card that the table does not have is given by its memory, in the unit that was written."""
    card = gpu(text)
    assert (card.id, card.memory_bytes, card.usable_bytes, card.torch_memory_bytes) == (
        "custom",
        expected,
        expected,
        None,
    )
    assert text in card.name
    assert card.source


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "zzz",
        "h1000",
        "-5GiB",
        "1e9",
        "0",
        "5",
        "0.1GiB",
        "80 G",
        "none",
        "gpu",
        "9" * 6000 + "GiB",
        "x" * 10_000,
    ],
)
def test_unknown_names(name: str) -> None:
    """What is no card and no amount is an InputError about `gpu` of one short line."""
    with pytest.raises(InputError) as caught:
        gpu(name)
    assert caught.value.fields["field"] == "gpu"
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("h100-smx", "h100-sxm"),
        ("rtx-4900", "rtx-4090"),
        ("mi300", "mi300x"),
        ("a100-60gb", "a100-80gb"),
        ("rtx 4090ti", "rtx-4090"),
    ],
)
def test_near_names_are_suggested(name: str, expected: str) -> None:
    """A name that is nearly one gets the closest known names."""
    with pytest.raises(InputError) as caught:
        gpu(name)
    assert expected in str(caught.value)


@pytest.mark.parametrize("name", [None, 5, 80.5, ["h100"], b"h100", True], ids=repr)
def test_what_is_no_text(name: Any) -> None:
    """A value of another type is an InputError, not a traceback."""
    with pytest.raises(InputError):
        gpu(name)


@pytest.mark.parametrize(
    ("name", "expected", "memory_gib"),
    [
        ("apple-m3-max 128GB", "apple-m3-max", 128), ("m4-max-128", "apple-m4-max", 128), ("m4 max 64", "apple-m4-max-64gb", 64),
        ("Apple M4 Max 48 GB", "apple-m4-max-48gb", 48), ("m3max 36gb", "apple-m3-max-30-36gb", 36), ("m1-8", "apple-m1-8gb", 8),
        ("m4-max-32", "apple-m4-max-32", 36), ("m4 max 36gb", "apple-m4-max-32", 36),
        ("m3 ultra 256gb", "apple-m3-ultra-256gb", 256),
    ],
)  # fmt: skip
def test_devices_sold_in_several_sizes(name: str, expected: str, memory_gib: int) -> None:
    """A device and its size is that device with that memory, and its id finds it again; a size picks the variant sold with it."""
    card = gpu(name)
    assert (card.id, card.memory_bytes) == (expected, memory_gib * GIB)
    assert gpu(card.id) == card
    assert card.unified_memory
    assert memory_gib in card.memory_options_gb


def test_a_size_that_is_not_sold() -> None:
    """The error lists the sizes that are."""
    with pytest.raises(InputError, match="48, 64, 128 GB, not with 100") as caught:
        gpu("m4 max 100gb")
    assert caught.value.fields["field"] == "gpu"


def test_driver_names() -> None:
    """A driver's name gives all the devices that are called so."""
    assert [card.id for card in by_driver_name("NVIDIA H100 80GB HBM3")] == ["h100-sxm"]
    assert {card.id for card in by_driver_name("NVIDIA GeForce RTX 4060 Ti")} == {"rtx-4060-ti-8gb", "rtx-4060-ti-16gb"}
    assert by_driver_name("") == ()


def test_the_tables_are_read_once() -> None:
    """Both tables are parsed once a process, and a device is one object under all its names."""
    assert gpus() is not None
    assert gpu("h100") is gpu("H100")
