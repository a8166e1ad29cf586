"""Machines by name: cloud instances, counts of accelerators, and mixtures of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import InputError
from planner.hardware import MOST_GPUS, gpu, instances, node
from planner.units import GIB


def test_every_instance_names_a_known_accelerator() -> None:
    """Each of the 156 instances has an accelerator of the table, a sane host, and says which of its figures were looked up."""
    rows = instances()
    assert len(rows) == len({row.name.lower() for row in rows}) == 156
    assert Counter(row.provider for row in rows) == {"aws": 66, "gcp": 39, "azure": 21, "oci": 17, "lambda": 13}
    for row in rows:
        assert gpu(row.gpu).id == row.gpu, row.name
        assert 1 <= row.count <= 16, row.name
        assert (row.vcpus is None) == (row.ram_gib is None) == (row.host_status is None), row.name
        assert row.vcpus is None or 4 <= row.vcpus <= 448, row.name
        assert {row.gpu_status, row.count_status, row.host_status} <= {"verified", "recalled", None}, row.name
        assert row.source, row.name
        assert "$" not in row.source, row.name
        assert (row.source == "not looked up") == ("verified" not in (row.gpu_status, row.count_status, row.host_status)), (
            row.name
        )


@pytest.mark.parametrize("row", instances(), ids=lambda row: row.name)
def test_every_instance_is_found(row: Any) -> None:
    """By its own name in any case, and with its provider before it."""
    for name in (row.name, row.name.upper(), f"{row.provider}:{row.name}"):
        found = node(name)
        assert found.instances == (row,)
        assert [card.id for card in found.gpus] == [row.gpu] * row.count
        assert row.name in found.name
        assert row.source in found.source


@pytest.mark.parametrize(
    ("text", "kind", "count"),
    [
        ("p5.48xlarge", "h100-sxm", 8), ("aws:p5.48xlarge", "h100-sxm", 8), ("p5en.48xlarge", "h200-sxm", 8),
        ("g5.xlarge", "a10g", 1),
        ("a2-ultragpu-4g", "a100-80gb-sxm", 4), ("a3-highgpu-8g", "h100-sxm", 8), ("g2-standard-24", "l4", 2),
        ("Standard_ND96isr_H100_v5", "h100-sxm", 8), ("nd96isr_h100_v5", "h100-sxm", 8),
        ("Standard_NC24ads_A100_v4", "a100-80gb-pcie", 1),
        ("BM.GPU.MI300X.8", "mi300x", 8), ("BM.GPU.B4.8", "a100-40gb-sxm", 8), ("gpu_8x_b200_sxm6", "b200", 8),
        ("n1 + nvidia-tesla-t4", "t4", 1),
    ],
)  # fmt: skip
def test_instances_of_each_provider(text: str, kind: str, count: int) -> None:
    """Source: the providers' instance tables, as data/instances.yaml names them."""
    found = node(text)
    assert (found.gpus[0].id, len(found.gpus), found.mixed) == (kind, count, False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h100", {"h100-sxm": 1}), ("8xh100", {"h100-sxm": 8}), ("8 x H100", {"h100-sxm": 8}), ("8×H100", {"h100-sxm": 8}),
        ("8*h100", {"h100-sxm": 8}), ("8 h100", {"h100-sxm": 8}), ("H100 x8", {"h100-sxm": 8}), ("h100x8", {"h100-sxm": 8}),
        ("a10x4", {"a10": 4}), ("mi300x", {"mi300x": 1}), ("8xmi300x", {"mi300x": 8}), ("2x7900xtx", {"rx-7900-xtx": 2}),
        ("2x4090+1x3090", {"rtx-4090": 2, "rtx-3090": 1}), ("4090, 3090", {"rtx-4090": 1, "rtx-3090": 1}),
        ("2x p5.48xlarge", {"h100-sxm": 16}), ("g5.12xlarge + 4090", {"a10g": 4, "rtx-4090": 1}), ("2x96GiB", {"custom": 2}),
        ("2x m4-max-64", {"apple-m4-max-64gb": 2}), ("Ryzen AI Max+ 395 (Radeon 8060S)", {"strix-halo": 1}),
        ("4 4090", {"rtx-4090": 4}),
        (f"{MOST_GPUS}xh100", {"h100-sxm": MOST_GPUS}),
    ],
)  # fmt: skip
def test_counts_and_mixtures(text: str, expected: dict[str, int]) -> None:
    """A count before or after a name, a sum of them in the order written, and machines by the dozen."""
    found = node(text)
    assert Counter(card.id for card in found.gpus) == expected
    assert list(dict.fromkeys(card.id for card in found.gpus)) == list(expected)
    assert found.mixed == (len(expected) > 1)
    assert found.name
    assert found.source


def test_amounts_of_two_sizes_are_mixed() -> None:
    """Two custom cards of different size are two kinds."""
    assert node("24GiB+16GiB").mixed
    assert not node("24GiB+24 GiB").mixed
    assert [card.memory_bytes for card in node("24GiB+16GiB").gpus] == [24 * GIB, 16 * GIB]


def test_a_node_knows_its_machines() -> None:
    """Two of an instance are two hosts, in order."""
    found = node("2 x g5.12xlarge + p5.48xlarge")
    assert [machine.name for machine in found.instances] == ["g5.12xlarge", "g5.12xlarge", "p5.48xlarge"]
    assert len(found.gpus) == 16
    assert node("8xh100").instances == ()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("p5.48xl", "p5.48xlarge"), ("aws:p5.49xlarge", "p5.48xlarge"), ("azure:p5.48xlarge", "p5.48xlarge"),
        ("8xh100-smx", "h100-sxm"),
        ("standard_nd96isr_h100_v6", "Standard_ND96isr_H100_v5"), ("2x4090+1x3091", "3090"), ("m4 max 100gb", "48, 64, 128 GB"),
    ],
)  # fmt: skip
def test_near_names_are_suggested(text: str, hint: str) -> None:
    """The closest accelerators and instances, as they are written."""
    with pytest.raises(InputError) as caught:
        node(text)
    assert hint in str(caught.value)
    assert caught.value.fields["field"] == "gpu"


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "+", ",", "x", "8x", "x8", "8 x", "0xh100", "-1xh100", "1.5xh100", "9" * 150 + "xh100", f"{MOST_GPUS + 1}xh100",
        "2x2xh100", "4096xh100+h100", "600xp5.48xlarge", "h100+", "+h100", "h100++h100", "h100;rm -rf", "8xh1000", "1e9xh100",
        "x" * 10_000,
        "h100\n\nh100x", "\x00", "8x\u202eh100", "aws:", ":p5.48xlarge", "5", "0.1GiB", "8x0.1GiB",
    ],
)  # fmt: skip
def test_what_names_no_machine(text: str) -> None:
    """One short line about the field `gpu`, whatever is written."""
    with pytest.raises(InputError) as caught:
        node(text)
    assert caught.value.fields["field"] == "gpu"
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [None, 8, 8.0, ["h100"], b"h100", True], ids=repr)
def test_what_is_no_text(text: Any) -> None:
    """A value of another type is an InputError too."""
    with pytest.raises(InputError):
        node(text)


@settings(derandomize=True, database=None, deadline=None, max_examples=150)
@given(st.text(max_size=40) | st.from_regex(r"[0-9x+ ,.*:a-z-]{1,24}", fullmatch=True))
def test_any_text_is_a_node_or_an_input_error(text: str) -> None:
    """No text makes anything else than accelerators or an InputError."""
    try:
        found = node(text)
    except InputError:
        return
    assert 1 <= len(found.gpus) <= MOST_GPUS
