"""How many tokens one image becomes, for families that keep its shape: resized to whole patches, or always to one size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.errors import InputError
from planner.units import ceil_div

Numbers = Mapping[str, Any]


@dataclass(frozen=True)
class Count:
    """tokens: by the processor's own count. embeddings: those of them that an encoder fills. formula: with its numbers."""

    tokens: int
    embeddings: int
    formula: str

    @classmethod
    def of(cls, embeddings: int, formula: str, marks: int = 0) -> Count:
        return cls(embeddings + marks, embeddings, formula)


def fixed(n: Numbers, width: int, height: int) -> Count:
    """The same tokens whatever the size."""
    marks = n.get("marks", 0)
    return Count.of(n["tokens"], f"{n['tokens']} an image" + (f" + {marks} marks" if marks else ""), marks)


def square(n: Numbers, width: int, height: int) -> Count:
    """tokens = (image // patch // merge)^2 + the tower's first token - the one that the selection drops; frames are pooled."""
    side = n["image"] // n["patch"] // n.get("merge", 1)
    if "pooled" in n:
        side = ceil_div(side, n["pooled"])
    first, dropped = n.get("first", 0), n.get("dropped", 0)
    count = side * side // n.get("divide", 1) + first - dropped
    return Count.of(count, f"{side} x {side} patches of an image of {n['image']} pixels = {count}")


def rows(n: Numbers, width: int, height: int) -> Count:
    """tokens = rows x (columns + 1): every row of patches ends in a mark.

    Scaled down so that neither edge exceeds `longest`; rows = ceil(height / (patch x merge)).
    """
    step, ratio = n["patch"] * n["merge"], max(height / n["longest"], width / n["longest"])
    if ratio > 1:
        height, width = math.floor(height / ratio), math.floor(width / ratio)
    down, across = (max(height, 1) - 1) // step + 1, (max(width, 1) - 1) // step + 1
    return Count.of(down * across, f"{down} rows x ({across} + 1 mark) = {down * (across + 1)}", down)


def rows_most(n: Numbers) -> int:
    return ceil_div(n["longest"], n["patch"] * n["merge"]) ** 2


def resize(n: Numbers, width: int, height: int, frames: int = 1) -> Count:
    """tokens = height x width / (patch x merge)^2, each edge rounded to whole steps, the area kept from min_pixels to max_pixels.

    joint: the limits are those of all frames together.
    """
    step = n["patch"] * n["merge"]
    frames = n.get("frames", frames) if n.get("joint") else 1
    high, wide = height, width
    if n.get("enlarge"):
        if high < step:
            high, wide = step, round(wide * step / high)
        if wide < step:
            high, wide = round(high * step / wide), step
    elif n.get("joint") and min(high, wide) < step:
        scale = max(step / high, step / wide)
        high, wide = int(high * scale), int(wide * scale)
    if max(high, wide) / min(high, wide) > 200:
        raise InputError(f"{width} x {height}: this family takes no image longer than 200 times its width", field="image")
    rounded = round(frames / n["temporal"]) * n["temporal"] if n.get("joint") else 1
    down, across = round(high / step), round(wide / step)
    area = rounded * down * across * step * step
    if area > n["max_pixels"]:
        beta = math.sqrt(frames * high * wide / n["max_pixels"])
        down, across = max(1, math.floor(high / beta / step)), max(1, math.floor(wide / beta / step))
    elif area < n["min_pixels"]:
        beta = math.sqrt(n["min_pixels"] / (frames * high * wide))
        down, across = math.ceil(high * beta / step), math.ceil(wide * beta / step)
    pixels = f"{across * step} x {down * step} pixels"
    return Count.of(down * across, f"{width} x {height} becomes {pixels}: {across} x {down} = {down * across}")


def resize_most(n: Numbers) -> int:
    area = n["max_pixels"] // (n["patch"] * n["merge"]) ** 2
    return int(area // n.get("frames", 1) if n.get("joint") else area)


def few_tokens(n: Numbers, width: int, height: int) -> Count:
    """tokens = rows x columns of whole steps nearest the image's shape, at most `most`."""
    step, most = n["patch"] * n["merge"], n["most"]
    high, wide = height / step, width / step
    ratio = wide / high
    if high * wide > most:
        high = (most / ratio) ** 0.5
        wide = high * ratio
    near = set(itertools.product((math.floor(high), math.ceil(high)), (math.floor(wide), math.ceil(wide))))
    grids = [(h, w) for h, w in near if h >= 1 and w >= 1 and h * w <= most] or [(max(1, round(high)), max(1, round(wide)))]
    # Of equally near grids the processor takes the first of a set of whole numbers, whose order is the same everywhere.
    down, across = min(grids, key=lambda grid: abs(grid[0] / grid[1] - height / width))
    return Count.of(down * across, f"{across} x {down} = {down * across}, at most {most}")


def navit(n: Numbers, width: int, height: int) -> Count:
    """tokens = rows x columns of merged patches of the image as it is, or scaled down to `most` patches and `side` an edge."""
    patch, step = n["patch"], n["patch"] * n["merge"]
    patches = max(1, height // patch) * max(1, width // patch)
    edge = n["side"] * patch
    scale = min(1.0, math.sqrt(n["most"] / patches), edge / height, edge / width)
    high, wide = (min(edge, max(1, int(side * scale))) for side in (height, width))
    down, across = ceil_div(high, step), ceil_div(wide, step)
    return Count.of(down * across, f"{wide} x {high} pixels in steps of {step}: {across} x {down} = {down * across}")


def navit_most(n: Numbers) -> int:
    side = math.isqrt(n["most"]) // n["merge"] + 1  # edges are rounded up to whole steps after the limit
    return int(side * side)


def soft(n: Numbers, width: int, height: int) -> Count:
    """tokens = rows x columns of pooled patches, the image scaled up or down to fill `most` of them, edges rounded down."""
    step = n["pool"] * n["patch"]
    factor = math.sqrt(n["most"] * step * step / (width * height))
    down, across = math.floor(factor * height / step), math.floor(factor * width / step)
    if not down and not across:
        raise InputError(f"{width} x {height} is too small for this family", field="image")
    if not down:
        down, across = 1, min(width // height, n["most"])
    elif not across:
        down, across = min(height // width, n["most"]), 1
    return Count.of(down * across, f"{across} x {down} = {down * across}, at most {n['most']}")


def most_word(n: Numbers) -> int:
    return int(n["most"])


def pan_and_scan(n: Numbers, width: int, height: int) -> Count:
    """tokens = each x (1 + crops): crops are cut where the image is long enough and pan-and-scan is on."""
    crops = _crops(n, max(width, height), min(width, height)) if n["scan"] else 0
    whole = f"{n['tokens']} an image"
    return Count.of(n["tokens"] * (1 + crops), f"{whole} and each of {crops} crops" if crops else whole)


def _crops(n: Numbers, long: int, short: int) -> int:
    if long / short < n["ratio"]:
        return 0
    crops = min(n["most"], max(2, min(long // n["crop"], math.floor(long / short + 0.5))))
    return 0 if min(ceil_div(long, crops), short) < n["crop"] else crops


def pan_and_scan_most(n: Numbers) -> int:
    return int(n["tokens"] * (1 + (n["most"] if n["scan"] else 0)))
