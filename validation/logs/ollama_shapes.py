"""The lines that Ollama prints itself, in logfmt with sizes of one decimal: the message and its pairs stand in `Line.fields`.

Estimates before loading (`offload`, to 0.11 and of the old runner after it), and what was allocated (`model weights`, `kv cache`,
`compute graph`, `total memory`, since summer 2025). Since 0.30 it starts llama-server, whose own lines follow.

Source: server/sched.go, llm/server.go, fs/ggml/ggml.go, ml/device.go of Ollama 0.5 to 0.33; public logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from planner.units import GB, GIB, KIB, MB, MIB, TIB
from validation.logs.lines import Line
from validation.logs.log import Figure

#: Messages whose `size` is a figure, for each device.
SIZES: Final[Mapping[str, str]] = {
    "model weights": "model_buffer_bytes", "kv cache": "kv_bytes", "compute graph": "compute_bytes",
    "total memory": "total_bytes",
}  # fmt: skip
#: Pairs that are figures, by the message they stand in; sizes of several devices are a list in brackets.
PAIRS: Final[Mapping[str, Mapping[str, str]]] = {
    "offload": {
        "memory.required.full": "estimated_full_bytes", "memory.required.partial": "estimated_partial_bytes",
        "memory.required.kv": "estimated_kv_bytes", "memory.required.allocations": "estimated_allocated_bytes",
        "memory.available": "available_bytes", "memory.weights.total": "estimated_weights_bytes",
        "memory.weights.repeating": "estimated_repeating_bytes", "memory.weights.nonrepeating": "estimated_nonrepeating_bytes",
        "memory.graph.full": "estimated_graph_bytes", "memory.graph.partial": "estimated_partial_graph_bytes",
        "layers.model": "layers_offloadable", "layers.offload": "layers_on_gpu",
    },
    "system memory": {"total": "host_total_bytes", "free": "host_free_bytes", "free_swap": "host_swap_bytes"},
    "gpu memory": {"available": "gpu_available_bytes", "free": "gpu_free_bytes", "minimum": "gpu_minimum_bytes",
                   "overhead": "gpu_overhead_bytes"},
    "inference compute": {"total": "device_total_bytes", "available": "device_available_bytes"},
    "vram-based default context": {"total_vram": "gpu_total_bytes", "default_num_ctx": "default_num_ctx"},
    "loading model": {"model layers": "layers_offloadable"},
    "load_backend": {},
}  # fmt: skip
_SIZE: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(B|KiB|MiB|GiB|TiB|KB|MB|GB)\b")
_UNITS: Final = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB, "KB": 1000, "MB": MB, "GB": GB}


@dataclass(frozen=True)
class Said:
    """One of Ollama's own lines: its message, its pairs, and the figures in them."""

    message: str
    pairs: Mapping[str, str]
    figures: tuple[Figure, ...]
    line: Line


def said(line: Line) -> Said | None:
    """The line's message and figures; None for a line that is not one of Ollama's own."""
    if not line.fields or "msg" not in line.fields:
        return None
    message = line.fields["msg"]
    return Said(message, line.fields, tuple(_figures(message, line)), line)


def _figures(message: str, line: Line) -> Iterator[Figure]:
    pairs = line.fields
    if message in SIZES:
        device = pairs.get("device") or pairs.get("buffer") or ""
        if found := size(SIZES[message] + (f" {device}" if device else ""), pairs.get("size", ""), line):
            yield found[0]
    for key, name in PAIRS.get(message, {}).items():
        text = pairs.get(key, "")
        if name.endswith("_bytes"):
            sizes = size(name, text, line)
            yield from sizes if len(sizes) < 2 else [_as(one, f"{name} {i}") for i, one in enumerate(sizes)]
        elif text.isdecimal() and len(text) < 12:
            yield Figure(name, int(text), 0.0, text, line.number, line.rank)


def size(name: str, text: str, line: Line) -> list[Figure]:
    """The sizes in a text; half of the last printed digit is slack."""
    found = []
    for number, unit in _SIZE.findall(text):
        digits = len(number.partition(".")[2])
        scale = _UNITS[unit]
        slack = 0.0 if unit == "B" else 0.5 * scale / 10**digits
        found.append(Figure(name, round(float(number) * scale), slack, f"{number} {unit}", line.number, line.rank))
    return found


def _as(figure: Figure, name: str) -> Figure:
    return Figure(name, figure.value, figure.slack, figure.text, figure.line, figure.rank)
