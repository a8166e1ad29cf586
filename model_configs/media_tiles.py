"""How many tokens one image becomes, for families that cut it into tiles: with marks, a thumbnail, and rows that end in one."""

from __future__ import annotations

import math

from model_configs.media_grids import (
    canvas,
    check_tiles,
    covering,
    factor_grids,
    grids,
    nearest,
    resolution,
    scaled,
    sliced,
)  # fmt: skip
from model_configs.media_images import Count, Numbers
from planner.units import ceil_div


def per_tile(n: Numbers) -> int:
    """Embeddings of one tile: those that the row states, or (tile // patch)^2 with both edges scaled by `down`."""
    return int(n["each"]) if "each" in n else int((n["tile"] // n["patch"]) ** 2 * n["down"] ** 2)


def tiles(n: Numbers, width: int, height: int) -> Count:
    """tokens = each x (tiles + thumbnail) + marks + tile_marks; an image of one tile has no thumbnail.

    tile_marks: one for every tile and one for the thumbnail. above: images that are no larger stay whole; whole: embeddings
    of the whole image where they differ from a tile's.
    """
    each = per_tile(n)
    whole = n.get("whole", each)
    cut = n.get("split", True) and n["most"] > 1 and max(width, height) > n.get("above", 0)
    choose = {"scale": scaled}.get(n.get("choose", ""))
    columns, rows = 1, 1
    if cut and choose:
        columns, rows = choose(width, height, n["tile"], grids(1, n["most"]))
    elif cut:
        columns, rows = nearest(width, height, n["tile"], n["least"], n["most"])
    count = columns * rows if columns * rows > 1 or (cut and n.get("always")) else 0
    thumbnail = 1 if n.get("thumbnail", True) or not count else 0
    marks = n.get("marks", 0) + n.get("tile_marks", 0) * (count + thumbnail)
    held = each * count + whole * thumbnail
    text = f"{whole} in one tile"
    if count:
        text = f"{columns} x {rows} tiles of {each}" + (f" + {whole} of the whole" if thumbnail else "")
    return Count.of(held, f"{text} + {marks} marks = {held + marks}" if marks else f"{text} = {held}", marks)


def tiles_most(n: Numbers) -> int:
    each = per_tile(n)
    return (each * n["most"] if n.get("split", True) else 0) + int(n.get("whole", each))


def covered(n: Numbers, width: int, height: int) -> Count:
    """tokens = each x (1 + tiles) + 3 marks + one between neighbours and between rows."""
    columns, rows = covering(width, height, n["tile"], n["most"]) if n["split"] else (1, 1)
    count = columns * rows if columns * rows > 1 else 0
    marks = 3 + (rows * columns - 1 if count else 0)
    held = n["each"] * (1 + count)
    return Count.of(held, f"{n['each']} x (1 + {count} tiles) + {marks} marks = {held + marks}", marks)


def canvas_tiles(n: Numbers, width: int, height: int) -> Count:
    """tokens = each x (tiles + 1) + 3 marks + one after each tile, each = (tile // patch)^2 // round(1 / down^2)."""
    each = (n["tile"] // n["patch"]) ** 2 // round(1 / n["down"] ** 2)
    columns, rows = canvas(width, height, n["tile"], factor_grids(n["most"]), single=True)
    count = columns * rows if columns * rows > 1 else 0
    marks, held = 3 + count, each * (count + 1)
    return Count.of(held, f"{each} x ({columns} x {rows} tiles + the whole) + {marks} marks = {held + marks}" if count else
                    f"{each} + {marks} marks = {held + marks}", marks)  # fmt: skip


def canvas_most(n: Numbers) -> int:
    return int((n["tile"] // n["patch"]) ** 2 // round(1 / n["down"] ** 2) * (n["most"] + 1))


def encoder_tiles(n: Numbers, width: int, height: int) -> Count:
    """positions = max_num_tiles x ((tile // patch)^2 + 1): tiles that an image does not fill are kept as well."""
    each = (n["tile"] // n["patch"]) ** 2 + 1
    columns, rows = canvas(width, height, n["tile"], grids_by_width(n["most"]))
    held = n["most"] * each
    return Count.of(held, f"{n['most']} tiles x {each} = {held}; the image fills {columns} x {rows}")


def grids_by_width(most: int) -> list[tuple[int, int]]:
    return [(c, r) for c in range(1, check_tiles(most) + 1) for r in range(1, most // c + 1)]


def encoder_tiles_most(n: Numbers) -> int:
    return int(n["most"] * ((n["tile"] // n["patch"]) ** 2 + 1))


def anyres(n: Numbers, width: int, height: int) -> Count:
    """tokens = side^2 of the whole image + the best grid's patches without padding + a newline for each of their rows.

    most (anyres_max_9): grids of more patches than that many images are shrunk.
    """
    side = n["image"] // n["patch"]
    best = resolution(width, height, n["pinpoints"])
    down, across = best[0] // n["image"] * side, best[1] // n["image"] * side
    if not down or not across:
        raise ValueError("a grid of image_grid_pinpoints holds no patch")
    if width / height > across / down:
        down -= (down - int(round(height * (across / width), 7))) // 2 * 2
    else:
        across -= (across - int(round(width * (down / height), 7))) // 2 * 2
    if "most" in n:
        ratio = math.sqrt(down * across / (_limit(n["most"]) * side**2))
        if ratio > 1.1:
            down, across = int(down // ratio), int(across // ratio)
    base = side * side + n.get("first", 0) - n.get("dropped", 0)
    held = base + down * across + down
    return Count.of(held, f"{base} of the whole + {down} rows x ({across} + 1 newline) = {held}")


def _limit(word: str) -> int:
    digits = word.removeprefix("anyres_max_")
    return max(1, int(digits)) if digits.isdigit() else 9


def anyres_most(n: Numbers) -> int:
    return max(anyres(n, wide, high).embeddings for high, wide in n["pinpoints"])


def split(n: Numbers, width: int, height: int) -> Count:
    """tokens = (each + 2) x tiles + rows + each + 3: a tile and its two marks, a newline a row, the whole and its three.

    The longest edge becomes `longest`, or `across` tiles; each = (tile // patch)^2 // down^2.
    """
    each = n["tokens"] if "tokens" in n else (n["tile"] // n["patch"]) ** 2 // n["down"] ** 2
    columns = rows = 0
    if n["split"]:
        longest = min(n.get("longest", n["tile"] * n["across"]), 4096)
        high, wide = _longest_edge(width, height, longest)
        columns, rows = ceil_div(wide, n["tile"]), ceil_div(high, n["tile"])
        columns, rows = (columns, rows) if columns * rows > 1 else (0, 0)
    marks = 3 + rows * (2 * columns + 1)
    held = each * (columns * rows + 1)
    return Count.of(held, f"{each} x ({columns} x {rows} tiles + the whole) + {marks} marks = {held + marks}", marks)


def _longest_edge(width: int, height: int, longest: int) -> tuple[int, int]:
    """(height, width) with the longest edge at `longest` and the other an even number."""
    if width >= height:
        other = int(longest / (width / height))
        return other + other % 2 or 2, longest
    other = int(longest * (width / height))
    return longest, other + other % 2 or 2


def split_most(n: Numbers) -> int:
    return max(split(n, size, size).embeddings for size in (1, 4096)) if n["split"] else split(n, 1, 1).embeddings


def quarters(n: Numbers, width: int, height: int) -> Count:
    """tokens = each x 5 + 6 marks where an image is split into quarters and the whole, each + 2 where not."""
    count = 5 if n["split"] else 1
    held = n["tokens"] * count
    return Count.of(held, f"{n['tokens']} x {count} + {count + 1} marks = {held + count + 1}", count + 1)


def thumb_and_tiles(n: Numbers, width: int, height: int) -> Count:
    """tokens = (tile // patch // pool)^2 x (tiles + 1): the largest canvas that an image fits into, or that of its shape."""
    each = (n["tile"] // n["patch"] // n["pool"]) ** 2
    columns, rows = _roomiest(n["tile"], n["most"], width, height)
    held = each * (columns * rows + 1)
    return Count.of(held, f"{each} x ({columns} x {rows} tiles + the whole) = {held}")


def _roomiest(tile: int, most: int, width: int, height: int) -> tuple[int, int]:
    by_shape: dict[float, list[tuple[int, int]]] = {}
    for rows, columns in factor_grids(most):  # here the first of a pair counts columns
        by_shape.setdefault(columns / rows, []).append((columns, rows))
    best: tuple[int, int] | None = None
    largest = 0
    for columns, rows in (grid for shape in by_shape.values() for grid in shape):
        if columns * tile < width or rows * tile < height:
            continue
        factor = min(tile * columns / width, tile * rows / height)
        now = math.floor(factor * width / (width / height)) if width >= height else math.floor(factor * height * (width / height))
        if best is None or now >= largest:
            best, largest = (columns, rows), now
    if best is not None:
        return best
    ratio = width / height
    if ratio >= 1:
        shape = min((k for k in by_shape if k <= ratio), key=lambda k: abs(k - ratio))
        return max(by_shape[shape], key=lambda grid: grid[0])
    shape = min((k for k in by_shape if k > ratio), key=lambda k: abs(1 / k - 1 / ratio))
    return max(by_shape[shape], key=lambda grid: grid[1])


def high_definition(n: Numbers, width: int, height: int) -> Count:
    """tokens = 256 + 1 + rows x columns of the halved patches without padding + a newline a row + 16."""
    tile, half = n["tile"], n["tile"] // n["patch"] // 2
    columns, rows = ceil_div(width, tile), ceil_div(height, tile)
    if columns * rows > n["most"]:
        columns, rows = nearest(width, height, tile, 1, n["most"])
    across, down = tile * columns / width, tile * rows / height
    empty_wide = tile * columns - int(width * down) if across >= down else 0
    empty_high = tile * rows - int(height * across) if across < down else 0
    wide = ceil_div(half * 2 * columns - empty_wide // n["patch"], 2)
    high = ceil_div(half * 2 * rows - empty_high // n["patch"], 2)
    held = half * half + 1 + high * wide + high + half
    return Count.of(held, f"{half * half} of the whole + 1 + {high} rows x ({wide} + 1) + {half} = {held}")


def high_definition_most(n: Numbers) -> int:
    half = n["tile"] // n["patch"] // 2
    return int(max(half * half + 1 + r * half * (c * half + 1) + half for c, r in grids(1, n["most"])))


def rectangle(n: Numbers, width: int, height: int) -> Count:
    """tokens = (tiles + 1) x each + 1 + (rows + 1) x sqrt(each): a newline ends each row of embeddings."""
    ratio, scale = max(width, height) / min(width, height), 1
    check_tiles(n["most"])
    while scale * math.ceil(scale / ratio) <= n["most"]:
        scale += 1
    scale -= 1
    other = ceil_div(max(1, int(scale * n["tile"] / ratio)), n["tile"])
    columns, rows = (scale, other) if width >= height else (other, scale)
    newlines = 1 + (rows + 1) * math.isqrt(n["each"])
    held = (columns * rows + 1) * n["each"] + newlines
    return Count.of(held, f"({columns} x {rows} tiles + the whole) x {n['each']} + {newlines} newlines = {held}")


def rectangle_most(n: Numbers) -> int:
    return int((n["most"] + 1) * n["each"] + 1 + (n["most"] + 1) * math.isqrt(n["each"]))


def slices(n: Numbers, width: int, height: int) -> Count:
    """tokens = the whole and its two marks + each slice and its two + a newline between rows of slices.

    each: queries of a resampler, or where 0 the merged patches of the image as resized to whole steps.
    """
    grid = sliced(width, height, n["scale"], n["most"]) if n["split"] else None
    whole = n["each"] or _merged(n, height, width, grid is None)
    columns, rows = grid or (0, 0)
    each = 0
    if grid:
        high, wide = (max(round(side / parts) * parts, parts) / parts for side, parts in ((height, rows), (width, columns)))
        each = n["each"] or _merged(n, high, wide, True)
    marks, held = 2 + 2 * columns * rows + max(rows - 1, 0), whole + each * columns * rows
    return Count.of(held, f"{whole} of the whole + {columns} x {rows} slices of {each} + {marks} marks = {held + marks}", marks)


def _merged(n: Numbers, height: float, width: float, enlarge: bool) -> int:
    step = n["patch"] * n["merged"]
    if height * width > n["scale"] ** 2 or enlarge:
        ratio = width / height
        height = int(n["scale"] / math.sqrt(ratio))
        width = int(height * ratio)
    return int(max(round(width / step), 1) * max(round(height / step), 1))


def slices_most(n: Numbers) -> int:
    return int((n["each"] or 2 * (n["scale"] // (n["patch"] * n["merged"])) ** 2) * (1 + (n["most"] if n["split"] else 0)))
