"""Accelerators: how much memory each really offers, by id or common short name."""

from __future__ import annotations

import difflib
import functools
import re
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml

from planner.errors import InputError, shown
from planner.units import GB, GIB, MIB, parse_bytes


@dataclass(frozen=True)
class Gpu:
    """One accelerator. `memory_bytes` is what its driver reports, `torch_memory_bytes` what PyTorch reports of that.

    usable_bytes: PyTorch's figure where it is known, else the driver's (the difference is 0.2 to 1.1 GiB).
    status: "verified", "recalled" or "nominal" for memory_bytes; source: where it was read.
    """

    id: str
    name: str
    vendor: str
    memory_bytes: int
    torch_memory_bytes: int | None
    status: str
    source: str
    bandwidth_gbs: float | None = None
    fp16_tflops: float | None = None
    generation: str | None = None

    @property
    def usable_bytes(self) -> int:
        return self.torch_memory_bytes or self.memory_bytes


def _gpu(row: dict[str, Any]) -> Gpu:
    mib = row.get("memory_mib")
    # The size on the box is in GB, the smaller reading of the two, because a supply rounds down.
    memory = mib * MIB if mib else max(int(row["memory_nominal_gb"] * GB), row.get("torch_total_memory_bytes") or 0)
    return Gpu(
        id=row["id"], name=row["name"], vendor=row["vendor"], memory_bytes=memory,
        torch_memory_bytes=row.get("torch_total_memory_bytes"), status=row.get("memory_mib_status", "nominal"),
        source=row.get("memory_source", ""), bandwidth_gbs=row.get("bandwidth_gbs"), fp16_tflops=row.get("fp16_tflops"),
        generation=row.get("generation"),
    )  # fmt: skip


def _key(name: str) -> str:
    return re.sub(r"[\s_]+", "-", name.strip().lower())


@functools.cache
def _table() -> tuple[dict[str, Gpu], dict[str, str]]:
    text = resources.files("planner").joinpath("data/gpus.yaml").read_text(encoding="utf-8")
    data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    drivers: dict[str, str] = {}
    for row in data["gpus"]:  # the first of a name is the common variant
        drivers.setdefault(_key(row.get("driver_name", row["name"])), row["id"])
    return {row["id"]: _gpu(row) for row in data["gpus"]}, {**drivers, **data["aliases"]}


def gpus() -> tuple[Gpu, ...]:
    """All known accelerators, in the table's order."""
    return tuple(_table()[0].values())


def gpu(name: str) -> Gpu:
    """The accelerator called `name`: an id ("h100-sxm"), a short name ("4090", "H100"), the driver's own name for it
    ("NVIDIA A100-SXM4-80GB"), or an amount ("96 GiB").

    Errors: InputError with the closest known names.
    """
    known, aliases = _table()
    if not isinstance(name, str):
        raise InputError(f"an accelerator is named by a text, not by {shown(name)}", field="gpu")
    key = _key(name)
    for candidate in (key, key.removeprefix("nvidia-"), key.removeprefix("geforce-"), key.removeprefix("rtx-")):
        found = known.get(aliases.get(candidate, candidate))
        if found:
            return found
    try:
        size = parse_bytes(name)
    except ValueError:
        size = 0
    if size >= GIB // 4:
        return Gpu("custom", f"custom, {name.strip()}", "", size, None, "nominal", "given by the person")
    near = [i for i in known if key and key in i][:6] or difflib.get_close_matches(key, [*known, *aliases], 4, 0.7)
    others = "take one of the known ones (`planner gpus` lists them), or an amount like 96GiB"
    hint = f"; did you mean {', '.join(near)}?" if near else f"; {others}"
    raise InputError(f"no accelerator is called {shown(name)}{hint}", field="gpu")
