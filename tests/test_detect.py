"""The GPUs of this machine, with a stand-in for NVML that answers as the driver does."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from planner.detect import Detection, detected
from planner.units import GIB, MIB


class NVMLError(Exception):
    """The root of NVML's errors, as in nvidia-ml-py."""


class FakeNvml(ModuleType):
    """NVML over a list of (name, total bytes, free bytes); a total of None is a GPU whose memory NVML does not tell."""

    NVMLError = NVMLError

    def __init__(self, cards: list[tuple[Any, int | None, int]], **broken: str) -> None:
        super().__init__("pynvml")
        self.cards, self.broken, self.open = cards, broken, 0

    def _may(self, what: str) -> None:
        if what in self.broken:
            raise NVMLError(self.broken[what])

    def nvmlInit(self) -> None:
        self._may("init")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1
        self._may("shutdown")

    def nvmlSystemGetDriverVersion(self) -> str:
        self._may("version")
        return "570.133.20"

    def nvmlDeviceGetCount(self) -> int:
        self._may("count")
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        self._may(f"handle {index}")
        return index

    def nvmlDeviceGetName(self, handle: int) -> Any:
        return self.cards[handle][0]

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:
        _, total, free = self.cards[handle]
        if total is None:
            raise NVMLError("Not Supported")
        return SimpleNamespace(total=total, free=free, used=total - free)


def with_cards(monkeypatch: pytest.MonkeyPatch, *cards: tuple[Any, int | None, int], **broken: str) -> Detection:
    nvml = FakeNvml(list(cards), **broken)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    found = detected()
    assert nvml.open == 0, "NVML is closed again"
    return found


def test_two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name, total and free memory of each, the driver's version, and which accelerator of the table it is."""
    found = with_cards(
        monkeypatch, ("NVIDIA H100 80GB HBM3", 81_559 * MIB, 79 * GIB), (b"NVIDIA GeForce RTX 4090", 24_564 * MIB, 20 * GIB)
    )
    assert (found.found, found.driver_version, found.reason) == (True, "570.133.20", "")
    first, second = found.gpus
    assert (first.index, first.name, first.total_bytes, first.free_bytes) == (0, "NVIDIA H100 80GB HBM3", 81_559 * MIB, 79 * GIB)
    assert first.gpu_id == "h100-sxm"
    assert (second.index, second.name, second.gpu_id) == (1, "NVIDIA GeForce RTX 4090", "rtx-4090")


@pytest.mark.parametrize(
    ("name", "total_mib", "expected"),
    [
        ("NVIDIA GeForce RTX 4060 Ti", 8_188, "rtx-4060-ti-8gb"), ("NVIDIA GeForce RTX 4060 Ti", 16_380, "rtx-4060-ti-16gb"),
        ("NVIDIA GeForce RTX 3080", 10_240, "rtx-3080-10gb"), ("NVIDIA GeForce RTX 3080", 12_288, "rtx-3080-12gb"),
        ("Tesla V100-SXM2-16GB", 16_160, "v100-16gb"), ("NVIDIA RTX A6000", 46_068, "rtx-a6000"), ("Tesla T4", 15_360, "t4"),
        ("NVIDIA H200", 143_771, "h200-sxm"), ("NVIDIA GeForce RTX 4090", 49_140, None), ("NVIDIA GeForce GTX 970", 4_096, None),
    ],
)  # fmt: skip
def test_matching(monkeypatch: pytest.MonkeyPatch, name: str, total_mib: int, expected: str | None) -> None:
    """By the driver's name and the nearest size, with room for ECC and older drivers; a modified card is none of the table's.

    Source: totals by driver and ECC in data/gpus.yaml.
    """
    assert with_cards(monkeypatch, (name, total_mib * MIB, GIB)).gpus[0].gpu_id == expected


def test_memory_shared_with_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML does not tell the memory of a DGX Spark: it is found, with no amount."""
    found = with_cards(monkeypatch, ("NVIDIA GB10", None, 0))
    assert found.found
    assert (found.gpus[0].total_bytes, found.gpus[0].free_bytes, found.gpus[0].gpu_id) == (None, None, "dgx-spark")


def test_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without nvidia-ml-py the reason names it."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found = detected()
    assert (found.found, found.gpus, found.driver_version) == (False, (), None)
    assert found.reason.startswith("none found: ")
    assert "nvidia-ml-py" in found.reason


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"init": "Library Not Found"}, "none found: the NVIDIA driver cannot be reached (Library Not Found)"),
        ({"version": "Unknown Error"}, "none found: the NVIDIA driver does not answer (Unknown Error)"),
        ({"count": "Unknown Error"}, "none found: the NVIDIA driver does not answer (Unknown Error)"),
        ({}, "none found: the NVIDIA driver has no device"),
    ],
)  # fmt: skip
def test_no_driver_or_device(monkeypatch: pytest.MonkeyPatch, broken: dict[str, str], reason: str) -> None:
    """A reason in one line, not an exception."""
    found = with_cards(monkeypatch, **broken)
    assert (found.found, found.reason) == (False, reason)


def test_a_lost_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """One GPU that fell off the bus does not hide the other; where it was the only one, none is found."""
    cards = (("Tesla T4", 15_360 * MIB, GIB), ("Tesla T4", 15_360 * MIB, GIB))
    found = with_cards(monkeypatch, *cards, **{"handle 0": "GPU is lost"})
    assert [card.index for card in found.gpus] == [1]
    assert found.reason == "GPU 0 cannot be read (GPU is lost)"
    found = with_cards(monkeypatch, cards[0], **{"handle 0": "GPU is lost"})
    assert (found.found, found.reason) == (False, "none found: GPU 0 cannot be read (GPU is lost)")


def test_closing_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read is kept where NVML cannot be closed."""
    assert with_cards(monkeypatch, ("Tesla T4", 15_360 * MIB, GIB), shutdown="Unknown Error").found


def test_this_machine_answers() -> None:
    """On any machine: GPUs with sane amounts, or a reason."""
    found = detected()
    assert found.found or found.reason.startswith("none found: ")
    for card in found.gpus:
        assert card.name
        assert card.total_bytes is None or 0 <= (card.free_bytes or 0) <= card.total_bytes
