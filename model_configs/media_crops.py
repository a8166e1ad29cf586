"""How many tokens one image becomes, for the families whose crops follow a rule of their own."""

from __future__ import annotations

import math

from model_configs.media_grids import nearest, resolution, scaled
from model_configs.media_images import Count, Numbers
from planner.units import ceil_div


def queried_tiles(n: Numbers, width: int, height: int) -> Count:
    """tokens = side x (side + 1) of the whole + 1 + rows x side x (columns x side + 1), side = ceil(tile // patch / down)."""
    side = ceil_div(n["tile"] // n["patch"], n["down"])
    best = resolution(width, height, [(high, wide) for wide, high in n["candidates"]])
    columns, rows = best[1] // n["tile"], best[0] // n["tile"]
    held = side * (side + 1) + 1 + rows * side * (columns * side + 1)
    return Count.of(held, f"{side} x {side + 1} of the whole + 1 + {rows * side} rows x ({columns * side} + 1) = {held}")


def queried_most(n: Numbers) -> int:
    return max(queried_tiles(n, wide, high).embeddings for wide, high in n["candidates"])


def lfm(n: Numbers, width: int, height: int) -> Count:
    """tokens = the resized image alone, or tiles + thumbnail where it is more than `tolerance` too large, each with its mark."""
    step, most = n["patch"] * n["down"], n["most_tokens"]
    high, wide = (max(1, round(side / step)) for side in (height, width))
    large = max(n["patch"], round(height / step) * step) * max(n["patch"], round(width / step) * step)
    cut = large > most * step * step * n["tolerance"] and n["split"] and n["most"] > 1
    if high * wide > most:
        beta = math.sqrt(height * width / (most * step * step))
        high, wide = (max(1, math.floor(side / beta / step)) for side in (height, width))
    elif high * wide < n["least_tokens"]:
        beta = math.sqrt(n["least_tokens"] * step * step / (height * width))
        high, wide = (math.ceil(side * beta / step) for side in (height, width))
    marks = 2 if n["named"] else 0
    if not cut:
        return Count.of(high * wide, f"{wide} x {high} + {marks} marks = {high * wide + marks}", marks)
    columns, rows = nearest(width, height, n["tile"], n["least"], n["most"])
    each = ceil_div(n["tile"] // n["patch"], n["down"]) ** 2
    whole = high * wide if n["thumbnail"] else 0
    marks += columns * rows + (1 if n["thumbnail"] else 0) if n["named"] else 0
    held = each * columns * rows + whole
    return Count.of(held, f"{columns} x {rows} tiles of {each} + {whole} of the whole + {marks} marks = {held + marks}", marks)


def lfm_most(n: Numbers) -> int:
    return int(ceil_div(n["tile"] // n["patch"], n["down"]) ** 2 * (n["most"] if n["split"] else 0) + n["most_tokens"])


def overlapping(n: Numbers, width: int, height: int) -> Count:
    """tokens = rows x (columns + 1) + 2 of the crops' patches and the same of the whole, pooled; crops overlap by a margin."""
    inside = n["tile"] // n["patch"] - n["margin"]
    grids = sorted(
        ((c, r) for r in range(1, n["most"] + 1) for c in range(1, n["most"] // r + 1)), key=lambda g: (g[0] * g[1], g[1])
    )
    margin = n["margin"] * n["patch"]
    columns, rows = scaled(width - margin, height - margin, inside * n["patch"], grids, single=True)
    wide, high = (ceil_div(count * inside + n["margin"], n["pool"]) for count in (columns, rows))
    side = ceil_div(n["tile"] // n["patch"], n["pool"])
    marks = 4 + high + side
    held = high * wide + side * side
    text = f"{wide} x {high} of {columns} x {rows} crops + {side} x {side} of the whole"
    return Count.of(held, f"{text} + {marks} marks = {held + marks}", marks)


def overlapping_most(n: Numbers) -> int:
    inside, most = n["tile"] // n["patch"] - n["margin"], n["most"]
    sides = [(c * inside + n["margin"], most // c * inside + n["margin"]) for c in range(1, most + 1)]
    whole = ceil_div(n["tile"] // n["patch"], n["pool"]) ** 2
    return whole + max(ceil_div(a, n["pool"]) * ceil_div(b, n["pool"]) for a, b in sides)


def windows(n: Numbers, width: int, height: int) -> Count:
    """tokens = (tile / step)^2 + 2 of the whole + (window / step)^2 + 2 a window + a newline between rows; step = patch x down.

    Small images have no windows; edges are cut to whole windows, a rest counting from a fifth of one.
    """
    step = n["patch"] * n["down"]
    whole, each = (n["tile"] // step) ** 2, (n["window"] // step) ** 2
    columns, rows = _windows(n, width, height)
    count = columns * rows
    marks = 2 + 2 * count + max(rows - 1, 0)
    held = whole + each * count
    return Count.of(held, f"{whole} of the whole + {columns} x {rows} windows of {each} + {marks} marks = {held + marks}", marks)


def _windows(n: Numbers, width: int, height: int) -> tuple[int, int]:
    if min(width, height) < 32 and max(width, height) / min(width, height) > 4:
        width = height = max(width, height)
    if max(width, height) > n["longest"]:
        scale = n["longest"] / max(width, height)
        width, height = int(width * scale), int(height * scale)
    short, long = max(1, min(width, height)), max(width, height)
    if long <= n["tile"]:
        window = short if long / short > 1.5 else 0
    else:
        window = min(short, n["window"]) if long / short > 4 else n["window"]
    if not window:
        return 0, 0
    columns, rows = (
        max(1, side // window + (side % window > 0.2 * window)) if side >= window else 1 for side in (width, height)
    )
    return columns, rows


def windows_most(n: Numbers) -> int:
    step, most = n["patch"] * n["down"], ceil_div(n["longest"], n["window"])
    return int((n["tile"] // step) ** 2 + (n["window"] // step) ** 2 * most * most)
