"""The CUDA meter, the driver's view and the facts of a device, read from a device that only pretends."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from planner.units import GIB
from validation import measure_facts, measure_memory
from validation.measure_build import device_of

DEVICE = torch.device("cuda", 0)


class Counters:
    """What torch.cuda would answer: allocated and requested bytes now, and the peak since it was reset."""

    def __init__(self) -> None:
        self.allocated = self.requested = self.peak = 0

    def take(self, size: int, block: int) -> None:
        self.requested += size
        self.allocated += block
        self.peak = max(self.peak, self.allocated)

    def give(self, size: int, block: int) -> None:
        self.requested -= size
        self.allocated -= block

    def reset(self, device: Any = None) -> None:
        self.peak = self.allocated


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> Counters:
    counters = Counters()
    for name, value in {
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "memory_allocated": lambda device=None: counters.allocated,
        "max_memory_allocated": lambda device=None: counters.peak,
        "memory_reserved": lambda device=None: 20 * 2**20,
        "reset_peak_memory_stats": counters.reset,
        "memory_stats": lambda device=None: {"requested_bytes.all.current": counters.requested},
        "mem_get_info": lambda device=None: (60 * GIB, 80 * GIB),
        "is_available": lambda: True,
        "get_device_properties": lambda device: SimpleNamespace(
            name="NVIDIA H200", major=9, minor=0, total_memory=150_000_000_000, uuid="abc"
        ),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    return counters


def test_the_cuda_meter_reads_before_after_and_both_peaks(counters: Counters) -> None:
    """Weights of 10,240; a prompt that takes 5,000 and gives back 4,000; a step that peaks at 2,048 more."""
    counters.take(10_000, 10_240)
    reader = measure_memory.CudaMeter(DEVICE)
    with reader:
        counters.take(5_000, 5_120)
        counters.give(4_000, 4_096)
        reader.prefilled()
        counters.take(2_000, 2_048)
        counters.give(2_000, 2_048)
    reading = reader.finish()
    assert (reading.before, reading.after, reading.requested) == (10_240, 11_264, 1_000)
    assert (reading.prefill_peak, reading.decode_peak) == (15_360, 13_312)
    assert reading.reserved == 20 * 2**20
    assert reading.driver == 20 * GIB


def test_the_drivers_view_is_the_processes_own_where_nvml_tells_it(
    counters: Counters, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    class Error(Exception):
        pass

    nvml = SimpleNamespace(
        NVMLError=Error, nvmlInit=lambda: None, nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetComputeRunningProcesses=lambda handle: [SimpleNamespace(pid=os.getpid(), usedGpuMemory=12345)],
        nvmlSystemGetDriverVersion=lambda: "580.159.04",
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert measure_memory.driver_bytes(DEVICE) == 12345
    assert measure_memory.driver_version() == "580.159.04"
    nvml.nvmlDeviceGetComputeRunningProcesses = lambda handle: []
    assert measure_memory.driver_bytes(DEVICE) == 20 * GIB


def test_facts_of_a_cuda_device(counters: Counters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    facts = measure_facts.device_facts(DEVICE)
    assert (facts.kind, facts.name, facts.memory_bytes) == ("cuda", "NVIDIA H200 (compute capability 9.0)", 150_000_000_000)
    assert facts.allocator == "expandable_segments:True"
    assert measure_memory.expandable_segments(DEVICE)
    assert measure_facts.available_bytes(DEVICE) == 60 * GIB
    assert device_of("auto").type == "cuda"


def test_facts_of_this_machine() -> None:
    facts = measure_facts.device_facts(torch.device("cpu"))
    assert facts.kind == "cpu"
    assert facts.threads >= 1
    assert set(measure_facts.versions()) >= {"python", "torch", "transformers", "planner"}
    resident = measure_memory.resident_bytes()
    assert resident is None or resident > 10**7
