"""Facts of the machine that a report states: the device, its memory and driver, and the versions of what ran."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from pathlib import Path

import torch
import transformers

from planner.version import VERSION
from validation.compare_parts import DeviceFacts
from validation.measure_memory import allocator_settings, driver_version


def created() -> str:
    """Now, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """What ran, by name."""
    found = {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__}
    if torch.version.cuda and torch.cuda.is_available():
        found["cuda"] = str(torch.version.cuda)
    return {**found, "planner": VERSION}


def device_facts(device: torch.device) -> DeviceFacts:
    """The device that is measured on."""
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        name = f"{properties.name} (compute capability {properties.major}.{properties.minor})"
        return DeviceFacts("cuda", name, int(properties.total_memory), driver_version(), 0, allocator_settings())
    name = _line("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()
    return DeviceFacts("cpu", name, _memory("MemTotal"), None, torch.get_num_threads(), "none")


def available_bytes(device: torch.device) -> int | None:
    """Memory that new tensors can have; None where the system does not say."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free, limit = _memory("MemAvailable"), _cgroup()
    return limit if free is None else free if limit is None else min(free, limit)


def _memory(name: str) -> int | None:
    text = _line("/proc/meminfo", name)
    return int(text.split()[0]) * 1024 if text else None


def _cgroup() -> int | None:
    """What a container's limit leaves."""
    try:
        limit, used = (Path("/sys/fs/cgroup", f"memory.{name}").read_text("ascii").strip() for name in ("max", "current"))
    except OSError:
        return None
    return max(0, int(limit) - int(used)) if limit.isdigit() else None


def _line(path: str, name: str) -> str | None:
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8", errors="replace") as lines:
        return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), None)
