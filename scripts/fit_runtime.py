"""Writes vLLM's fitted constants into planner/data/runtime.yaml: validation.accuracy's fit to all rows, until it stands.

Usage: python scripts/fit_runtime.py
"""

from __future__ import annotations

import re
from pathlib import Path

from planner.budget_terms import runtime
from validation import accuracy

FILE = Path(__file__).resolve().parent.parent / "planner/data/runtime.yaml"
FITTED = {"activation": ("logits", "forward", "low", "high"), "non_torch": ("value",)}


def write() -> bool:
    """One fit, written in place. True if a figure changed."""
    fit, text = accuracy.calibrate()["vllm"], FILE.read_text("utf-8")
    head, rest = text.split("vllm:\n", 1)
    block, tail = rest.split("  image_encoder:", 1) if "  image_encoder:" in rest else (rest, "")
    for section, names in FITTED.items():
        start = block.index(f"  {section}:")
        for row in fit[section]:
            start = block.index("    - {", start) + 1
            end = block.find("    - {", start)
            part = block[start : end if end > 0 else len(block)]
            for name in names:
                part = re.sub(rf"\b{name}: [\d.]+", f"{name}: {row[name]}", part, count=1)
            block = block[:start] + part + (block[end:] if end > 0 else "")
    made = f"{head}vllm:\n{block}" + (f"  image_encoder:{tail}" if tail else "")
    FILE.write_text(made, "utf-8")
    return made != text


if __name__ == "__main__":
    for _ in range(10):
        if not write():
            break
        for kept in (runtime, accuracy.samples, accuracy.measure):
            kept.cache_clear()
