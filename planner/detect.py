"""The GPUs of this machine, as their driver reports them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from planner.hardware import by_driver_name

#: How far a total may lie from the table's to be of the same device: error correction takes 6% of GDDR6, and an older driver
#: prints up to 1.4% less. Source: data/gpus.yaml (RTX A6000 with ECC on; V100 and RTX 8000 before driver 510).
_SAME_SIZE = (0.91, 1.02)


@dataclass(frozen=True)
class DetectedGpu:
    """One GPU. Bytes as the driver counts them, None where it does not (memory shared with the processor).

    gpu_id: the accelerator of the planner's table that it is; None where the table has none of that name and size.
    """

    index: int
    name: str
    total_bytes: int | None
    free_bytes: int | None
    gpu_id: str | None


@dataclass(frozen=True)
class Detection:
    """What was found. reason: why nothing was, or what could not be read; empty where there is nothing to say."""

    gpus: tuple[DetectedGpu, ...]
    driver_version: str | None
    reason: str

    @property
    def found(self) -> bool:
        return bool(self.gpus)


def _text(value: Any) -> str:
    """NVML's texts, which are bytes in older releases."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _match(name: str, total_bytes: int | None) -> str | None:
    """The id of the accelerator with this driver name whose size is nearest, or None where none is near."""
    named = by_driver_name(name)
    if total_bytes is None:
        return named[0].id if len(named) == 1 else None
    low, high = _SAME_SIZE
    near = [card for card in named if low * card.memory_bytes <= total_bytes <= high * card.memory_bytes]
    return min(near, key=lambda card: abs(card.memory_bytes - total_bytes)).id if near else None


def _read(nvml: Any, index: int) -> DetectedGpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    name = _text(nvml.nvmlDeviceGetName(handle))
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        total, free = int(memory.total), int(memory.free)
    except nvml.NVMLError:
        return DetectedGpu(index, name, None, None, _match(name, None))
    return DetectedGpu(index, name, total, free, _match(name, total))


def detected() -> Detection:
    """The NVIDIA GPUs of this machine with their free memory now, all of them whatever CUDA_VISIBLE_DEVICES says.

    Needs the optional package nvidia-ml-py. Nothing is raised: where there is no package, no driver or no device, `gpus` is empty
    and `reason` says "none found: ..."; a GPU that cannot be read is left out and named in `reason`.

    Source: NVML's nvmlDeviceGetMemoryInfo (total is what nvidia-smi prints) and nvmlSystemGetDriverVersion.
    """
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return Detection((), None, "none found: the optional package nvidia-ml-py is not installed")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as problem:
        return Detection((), None, f"none found: the NVIDIA driver cannot be reached ({problem})")
    try:
        return _all(nvml)
    except nvml.NVMLError as problem:
        return Detection((), None, f"none found: the NVIDIA driver does not answer ({problem})")
    finally:
        _close(nvml)


def _all(nvml: Any) -> Detection:
    version = _text(nvml.nvmlSystemGetDriverVersion())
    count = int(nvml.nvmlDeviceGetCount())
    if not count:
        return Detection((), version, "none found: the NVIDIA driver has no device")
    gpus, lost = [], []
    for index in range(count):
        try:
            gpus.append(_read(nvml, index))
        except nvml.NVMLError as problem:
            lost.append(f"GPU {index} cannot be read ({problem})")
    reason = "; ".join(lost)
    return Detection(tuple(gpus), version, reason if gpus else f"none found: {reason}")


def _close(nvml: Any) -> None:
    try:
        nvml.nvmlShutdown()
    except nvml.NVMLError:
        return
