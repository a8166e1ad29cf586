"""What an accelerator really offers: its memory as driver and PyTorch see it, its rates and formats, each with its source."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

import yaml

from planner.texts import tell
from planner.units import GB, GIB, MIB

#: Figures of a row that are Gpu's fields under the same name.
_FIGURES = (
    "bandwidth_gbs", "fp16_tflops", "bf16_tflops", "fp8_tflops", "fp4_tflops", "int8_tops", "link_gbs", "pcie_gbs", "tdp_w",
    "compute_capability",
)  # fmt: skip


class MemoryRange(NamedTuple):
    """Bytes that a program may find on one device, and how that is known: exact, measured or estimated."""

    low: int
    high: int
    confidence: str


@dataclass(frozen=True)
class Figure:
    """One figure of a card. status: verified (read in `source`), recalled (not looked up), nominal (the size on the box)."""

    name: str
    value: Any
    status: str
    source: str


@dataclass(frozen=True)
class Generation:
    """What a generation of GPUs computes natively; None is not known.

    kv_fp8, kv_nvfp4: native (attention computes in it), storage (held so, computed in 16 bits), no.
    flash_attention: the major versions that have kernels for it.
    """

    id: str
    parts: str
    bf16: bool | None
    fp8_native: bool | None
    fp4_native: bool | None
    int8_tensor: bool | None
    flash_attention: tuple[int, ...] | None
    kv_fp8: str | None
    kv_nvfp4: str | None
    status: str
    source: str
    note: str


@dataclass(frozen=True)
class Gpu:
    """One accelerator. `memory_bytes` is what its driver reports, `torch_memory_bytes` what PyTorch reports of that.

    status: "verified", "recalled" or "nominal" for memory_bytes; source: where it was read. Rates are dense, in 10**12 a second;
    bandwidth in 10**9 bytes a second, links and slot with both directions added; tdp in watts. None is not known. `figure` gives
    the status and source of each. supports: what its generation computes; unified_memory: shared with the processor.
    mig_profile: of a slice of a card ("3g.40gb"), "" for whole cards.
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
    bf16_tflops: float | None = None
    fp8_tflops: float | None = None
    fp4_tflops: float | None = None
    int8_tops: float | None = None
    link_gbs: float | None = None
    pcie_gbs: float | None = None
    tdp_w: float | None = None
    compute_capability: str | None = None
    architecture: str = ""
    kind: str = ""
    driver_name: str | None = None
    unified_memory: bool = False
    mig_profile: str = ""
    memory_options_gb: tuple[int, ...] = ()
    torch_seen_bytes: tuple[int, ...] = ()
    note: str = ""
    supports: Generation | None = None
    figures: tuple[Figure, ...] = ()

    def figure(self, name: str) -> Figure | None:
        """The figure of this name with its status and source; None where it is not known."""
        return next((figure for figure in self.figures if figure.name == name), None)

    @property
    def memory_range(self) -> MemoryRange:
        """Bytes that a program finds as the device's total, from the most cautious reading to the highest.

        With PyTorch's total t: [min(t - moves, seen), max(t + moves, seen)], at most the driver's total D; moves = 0.2 GiB on
        NVIDIA, by driver version. Without: [D - 1.1 GiB, D - 0.2 GiB] on NVIDIA under Linux, [D - 0.3 GiB, D] on AMD, and for
        other vendors [D x 10**9 / 2**30, D]. Where only the size on the box is known, D is that in 10**9 for the low end and in
        2**30 for the high one. Apple: the share that Metal recommends for the GPU. ECC set on takes 6% more of GDDR6 cards.

        Source: `below_driver_gib` and `apple_working_set` in data/gpus.yaml, each with its logs.
        """
        rules, driver = table().below_driver_gib.get(self.vendor), self.memory_bytes
        if self.id == "custom":
            return MemoryRange(driver, driver, "exact")
        if self.vendor == "Apple":
            share = _apple_share(driver)
            return MemoryRange(int(driver * share["low"]), int(driver * share["high"]), "estimated")
        top = driver * GIB // GB if self.status == "nominal" else driver
        if self.torch_memory_bytes:
            total = self.torch_memory_bytes
            moves = int(rules["moves"] * GIB) if rules else 0
            seen, torch = (total, *self.torch_seen_bytes), self.figure("torch_memory_bytes")
            confidence = "measured" if torch and torch.status == "verified" else "estimated"
            return MemoryRange(min(total - moves, *seen), max(total, min(top, max(total + moves, *seen))), confidence)
        if rules:
            return MemoryRange(driver - int(rules["most"] * GIB), top - int(rules["least"] * GIB), "estimated")
        return MemoryRange(driver if self.status == "nominal" else driver * GB // GIB, top, "estimated")

    @property
    def range_source(self) -> str:
        """Where `memory_range` comes from, in one sentence."""
        torch = self.figure("torch_memory_bytes")
        if self.id == "custom":
            return tell("given")
        if self.vendor == "Apple":
            return tell("device.apple")
        if torch:
            return tell("device.torch", source=torch.source)
        if self.vendor in table().below_driver_gib:
            return tell("device.below", vendor=self.vendor)
        return tell("device.nominal")

    @property
    def usable_bytes(self) -> int:
        """The one figure to plan with: PyTorch's total where it is known; on NVIDIA the usual 0.5 GiB below the driver's; on
        Apple the lower share; else the driver's total. Always within `memory_range`."""
        if self.torch_memory_bytes:
            return self.torch_memory_bytes
        if self.vendor == "Apple":
            return self.memory_range.low
        usual = table().below_driver_gib.get(self.vendor, {}).get("usual", 0) if self.id != "custom" else 0
        return self.memory_bytes - int(usual * GIB)


class Table(NamedTuple):
    """data/gpus.yaml, read."""

    gpus: Mapping[str, Gpu]
    rows: Mapping[str, Mapping[str, Any]]
    aliases: Mapping[str, str]
    generations: Mapping[str, Generation]
    sources: Mapping[str, str]
    below_driver_gib: Mapping[str, Mapping[str, float]]
    apple_working_set: tuple[Mapping[str, float], ...]


def read(name: str) -> Any:
    text = resources.files("planner").joinpath(f"data/{name}").read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def cite(text: str, sources: Mapping[str, str]) -> str:
    """A source with its $words written out."""
    return re.sub(r"\$([a-z0-9][\w.-]*\w)", lambda match: sources[match[1]], text)


def _generation(row: dict[str, Any], sources: Mapping[str, str]) -> Generation:
    known = {name: row.get(name) for name in ("bf16", "fp8_native", "fp4_native", "int8_tensor", "kv_fp8", "kv_nvfp4")}
    flash = tuple(row["flash_attention"]) if "flash_attention" in row else None
    source = cite(row.get("source", ""), sources)
    return Generation(
        **known, id=row["id"], parts=row["parts"], flash_attention=flash, status=row["status"], source=source,
        note=row.get("note", ""),
    )  # fmt: skip


def _figure(name: str, cell: Any, sources: Mapping[str, str]) -> Figure:
    value, status, source = (*cell, "", "")[:3] if isinstance(cell, list) else (cell, "recalled", "")
    return Figure(name, value, status or "recalled", cite(source, sources) or "not looked up")


def _gpu(row: Mapping[str, Any], generations: Mapping[str, Generation], sources: Mapping[str, str]) -> Gpu:
    cells = {name: row[name] for name in _FIGURES if name in row}
    supports = generations.get(row.get("generation", ""))
    if supports and supports.bf16 and "fp16_tflops" in cells:
        cells.setdefault("bf16_tflops", cells["fp16_tflops"])
    figures = [_figure(name, cell, sources) for name, cell in cells.items()]
    values = {figure.name: figure.value for figure in figures}
    if "torch_bytes" in row:
        figures.append(_figure("torch_memory_bytes", row["torch_bytes"], sources))
    torch: int | None = figures[-1].value if "torch_bytes" in row else None
    if "memory_mib" in row:
        total = _figure("memory_bytes", row["memory_mib"], sources)
        memory, status, source = total.value * MIB, total.status, total.source
    else:
        # The size on the box is in GB, the smaller reading of the two, because a supply rounds down.
        nominal = row["nominal_gib"] * GIB if "nominal_gib" in row else int(row["nominal_gb"] * GB)
        memory, status, source = max(nominal, torch or 0), "nominal", cite(row["memory"], sources)
    return Gpu(
        id=row["id"], name=row["name"], vendor=row["vendor"], memory_bytes=memory, torch_memory_bytes=torch, status=status,
        source=source, generation=row.get("generation"), architecture=row["architecture"], kind=row["class"], supports=supports,
        driver_name=row.get("driver_name"), unified_memory=row.get("unified_memory", False),
        memory_options_gb=tuple(row.get("memory_options_gb", ())), note=cite(row.get("note", ""), sources),
        torch_seen_bytes=tuple(int(seen * GIB) for seen in row.get("torch_gib_seen", ())),
        figures=(Figure("memory_bytes", memory, status, source), *figures), **values,
    )  # fmt: skip


@functools.cache
def table() -> Table:
    """The accelerators by id, their rows, short names, generations and rules. Read once."""
    data = read("gpus.yaml")
    sources = data["sources"]
    generations = {row["id"]: _generation(row, sources) for row in data["generations"]}
    rows = {row["id"]: row for row in data["gpus"]}
    cards = {name: _gpu(row, generations, sources) for name, row in rows.items()}
    rules, shares = data["below_driver_gib"], tuple(data["apple_working_set"])
    return Table(cards, rows, data["aliases"], generations, sources, rules, shares)


def _apple_share(memory_bytes: int) -> Mapping[str, float]:
    return [row for row in table().apple_working_set if memory_bytes >= row["from_gib"] * GIB][-1]


@functools.cache
def of_size(name: str, size: int) -> Gpu:
    """A device that is sold in several sizes, with `size` GB of memory; one of the row's own size is the row's."""
    known = table()
    row = known.rows[name]
    unit = "nominal_gib" if "nominal_gib" in row else "nominal_gb"
    if row[unit] == size:
        return known.gpus[name]
    other = {**row, "id": f"{name}-{size}gb", "name": f"{row['name']}, {size} GB", unit: size}
    return _gpu(other, known.generations, known.sources)
