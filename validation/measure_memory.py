"""What a process holds while it generates: PyTorch's allocator and the driver on CUDA; live tensors and the resident set
on the CPU.

On the CPU there is no caching allocator to ask. `LiveTensors` follows every storage that an operation makes until it is
freed and counts each in whole blocks of 512 bytes, as CUDA's allocator would: what kernels take inside is not seen.
"""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from planner.units import round_up
from validation.allocator import BLOCK_BYTES


@dataclass
class Reading:
    """Bytes of one run. The peaks are absolute: what was there before is in them.

    allocated: in blocks, `after` with the run's result still alive. requested: what was asked of the allocator, before
    rounding. reserved: segments that the allocator holds. driver: the process or the device as the driver sees it.
    resident: the process's resident set.
    """

    before: int = 0
    after: int = 0
    requested: int | None = None
    prefill_peak: int = 0
    decode_peak: int = 0
    reserved: int | None = None
    driver: int | None = None
    resident: int | None = None


class LiveTensors(TorchDispatchMode):
    """Bytes of the storages that operations under this mode made and that are still alive, and their peak.

    `there` are the tensors that were there before: views of them are not new.
    """

    def __init__(self, there: Iterable[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live = self.peak = 0
        self._known: dict[int, Any] = {tensor.untyped_storage()._cdata: None for tensor in there}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, list | tuple) else (result,):
            if isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu":
                self._follow(tensor.untyped_storage())
        return result

    def _follow(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self._known or not storage.nbytes():
            return
        size = round_up(storage.nbytes(), BLOCK_BYTES)
        self.live += size
        self.peak = max(self.peak, self.live)
        self._known[key] = weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self._known.pop(key, None)
        self.live -= size


class CpuMeter:
    """Measures a generation on the CPU. `there` are the tensors that live before it: weights, buffers and the prompt."""

    def __init__(self, there: Sequence[torch.Tensor]) -> None:
        self.reading = Reading(before=sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in there}.values()))
        self._live = LiveTensors(there)

    def __enter__(self) -> CpuMeter:
        gc.collect()
        self._live.__enter__()  # type: ignore[no-untyped-call]
        return self

    def prefilled(self) -> None:
        """The prompt has been processed and the first new token is known."""
        self.reading.prefill_peak = self.reading.before + self._live.peak
        self._live.peak = self._live.live

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)  # type: ignore[no-untyped-call]

    def finish(self) -> Reading:
        """The reading, while the generation's result is still alive."""
        gc.collect()
        self.reading.after = self.reading.before + self._live.live
        self.reading.decode_peak = self.reading.before + self._live.peak
        self.reading.resident = resident_bytes()
        return self.reading


class CudaMeter:
    """Measures a generation on a CUDA device by the counters of PyTorch's caching allocator."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.reading = device, Reading()
        self._requested = 0

    def __enter__(self) -> CudaMeter:
        gc.collect()
        torch.cuda.synchronize(self.device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.device)
        self.reading.before = torch.cuda.memory_allocated(self.device)
        self._requested = self._asked()
        return self

    def _asked(self) -> int:
        return int(torch.cuda.memory_stats(self.device).get("requested_bytes.all.current", 0))

    def prefilled(self) -> None:
        """The prompt has been processed and the first new token is known."""
        torch.cuda.synchronize(self.device)
        self.reading.prefill_peak = torch.cuda.max_memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)

    def __exit__(self, *error: Any) -> None:
        pass

    def finish(self) -> Reading:
        """The reading, while the generation's result is still alive."""
        gc.collect()
        torch.cuda.synchronize(self.device)
        reading = self.reading
        reading.after = torch.cuda.memory_allocated(self.device)
        reading.requested = self._asked() - self._requested
        reading.decode_peak = torch.cuda.max_memory_allocated(self.device)
        reading.reserved = torch.cuda.memory_reserved(self.device)
        reading.driver = driver_bytes(self.device)
        reading.resident = resident_bytes()
        return reading


def meter(device: torch.device, there: Sequence[torch.Tensor]) -> CpuMeter | CudaMeter:
    """The meter of a device; `there` are the tensors that live before the generation."""
    return CudaMeter(device) if device.type == "cuda" else CpuMeter(there)


def allocator_settings() -> str:
    """PyTorch's allocator settings, as they were given to it; "default" where none were."""
    return os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or "default"


def expandable_segments(device: torch.device) -> bool:
    """Whether blocks are split down to 512 bytes: always on the CPU, where each live tensor is counted as its own."""
    return device.type == "cpu" or "expandable_segments:True" in allocator_settings()


def driver_bytes(device: torch.device) -> int | None:
    """The driver's view of this process on the device, else of the device as a whole; None where neither is told."""
    nvml = _nvml()
    if nvml is not None:
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(device).uuid}")
            own = [p.usedGpuMemory for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle) if p.pid == os.getpid()]
            if own and own[0]:
                return int(own[0])
        except (nvml.NVMLError, AttributeError):
            pass
    free, total = torch.cuda.mem_get_info(device)
    return int(total - free)


def driver_version() -> str | None:
    """The NVIDIA driver's version, where nvidia-ml-py is installed and answers."""
    nvml = _nvml()
    return None if nvml is None else str(nvml.nvmlSystemGetDriverVersion())


def _nvml() -> Any:
    """nvidia-ml-py, initialised; None where it or the driver is missing."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except (ImportError, OSError):
        return None
    except pynvml.NVMLError:
        return None
    return pynvml


def resident_bytes() -> int | None:
    """The resident set of this process; None where the system does not say (only Linux's /proc is read)."""
    return status_bytes("VmRSS")


def status_bytes(name: str) -> int | None:
    """A figure of /proc/self/status in bytes."""
    try:
        with open("/proc/self/status", encoding="ascii") as lines:
            for line in lines:
                if line.startswith(f"{name}:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None
