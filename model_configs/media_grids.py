"""Which grid of tiles an image is cut into: the ways in which processors choose one."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable

from planner.errors import ConfigError

Grid = tuple[int, int]
#: No processor cuts an image into more tiles.
_MOST_TILES = 1024


def check_tiles(most: int) -> int:
    """The most tiles of an image, as given. ConfigError where a config has more than any processor cuts."""
    if most > _MOST_TILES:
        why = f"the config cuts an image into up to {most:,} tiles; at most {_MOST_TILES:,} are counted"
        raise ConfigError(why, field="max_tiles")
    return most


def grids(least: int, most: int) -> list[Grid]:
    """Grids (columns, rows) of `least` to `most` tiles, fewer tiles first, then fewer columns."""
    found = [(c, r) for c in range(1, check_tiles(most) + 1) for r in range(1, most // c + 1) if c * r >= least]
    return sorted(found, key=lambda grid: grid[0] * grid[1])


def nearest(width: int, height: int, tile: int, least: int, most: int) -> Grid:
    """The grid of the nearest shape; of equal ones the larger, as long as the image fills more than half of it."""
    best, difference = (1, 1), float("inf")
    for columns, rows in grids(least, most):
        now = abs(width / height - columns / rows)
        if now < difference or (now == difference and width * height > 0.5 * tile * tile * columns * rows):
            best, difference = (columns, rows), now
    return best


def scaled(width: int, height: int, tile: int, options: list[Grid], single: bool = False) -> Grid:
    """The first grid that holds the image enlarged the least, or else shrunk the least. single: in 32-bit arithmetic."""
    scales = [min(_over(c * tile, width, single), _over(r * tile, height, single)) for c, r in options]
    larger = [scale for scale in scales if scale >= 1]
    return options[scales.index(min(larger) if larger else max(scales))]


def canvas(width: int, height: int, tile: int, options: list[Grid], single: bool = False) -> Grid:
    """As `scaled`; of the grids that hold the image at the same scale, the first with the fewest tiles."""
    scales = [min(_over(c * tile, width, single), _over(r * tile, height, single)) for c, r in options]
    larger = [scale for scale in scales if scale >= 1]
    chosen = min(larger) if larger else max(scales)
    return min((grid for grid, scale in zip(options, scales, strict=True) if scale == chosen), key=lambda grid: grid[0] * grid[1])


def _over(a: int, b: int, single: bool) -> float:
    if not b:
        return math.inf
    return ctypes.c_float(a / b).value if single else a / b


def factor_grids(most: int) -> list[Grid]:
    """Grids (columns, rows) of `most` tiles down to one, grouped by shape in the order in which the shapes first come."""
    by_shape: dict[float, list[Grid]] = {}
    for count in range(check_tiles(most), 0, -1):
        for rows in (n for n in range(1, count + 1) if count % n == 0):
            columns = count // rows
            by_shape.setdefault(rows / columns, []).append((columns, rows))
    return [grid for shape in by_shape.values() for grid in shape]


def resolution(width: int, height: int, options: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """The (height, width) that keeps most of the image's pixels, and of those the one that wastes fewest."""
    best, kept, wasted = (0, 0), 0, float("inf")
    for high, wide in options:
        scale = min(wide / width, high / height)
        now = min(int(width * scale) * int(height * scale), width * height)
        if now > kept or (now == kept and wide * high - now < wasted):
            best, kept, wasted = (high, wide), now, wide * high - now
    return best


def covering(width: int, height: int, tile: int, most: int, share: float = 0.9) -> Grid:
    """The smallest grid whose tiles, scaled to `tile`, keep more than `share` of the image; else the one that keeps most.

    The processor measures a grid's transpose: (columns, rows) is judged by a cut into `columns` rows.
    """
    kept = {grid: _covered(width, height, tile, columns=grid[1], rows=grid[0]) for grid in grids(1, most)}
    enough = {grid: value for grid, value in kept.items() if value > share}
    if enough:
        return min(enough, key=lambda grid: (grid[0] * grid[1], -enough[grid]))
    return min(kept, key=lambda grid: (-kept[grid], grid[0] * grid[1]))


def _covered(width: int, height: int, tile: int, columns: int, rows: int) -> float:
    """The share of an image's area that the tiles of a grid keep when each is shrunk to fit."""
    total = 0.0
    for high in _cuts(height, rows):
        for wide in _cuts(width, columns):
            long, short = max(wide, high), min(wide, high)
            total += tile * (short / long * tile) if long > tile else long * short
    return total / (width * height)


def _cuts(size: int, parts: int) -> list[int]:
    step = size // parts
    return [step] * (parts - 1) + [size - step * (parts - 1)]


def sliced(width: int, height: int, scale: int, most: int) -> Grid | None:
    """The grid (columns, rows) of slices for an image larger than scale x scale; None where it stays whole."""
    wanted = min(math.ceil(width * height / (scale * scale)), check_tiles(most))
    if wanted <= 1:
        return None
    best, error = (1, 1), float("inf")
    for count in (wanted - 1, wanted, wanted + 1):
        if count == 1 or count > most:
            continue
        for rows in (n for n in range(1, count + 1) if count % n == 0):
            columns = count // rows
            now = abs(math.log(width / height) - math.log(columns / rows))
            if now < error or (now == error and rows > best[1]):
                best, error = (columns, rows), now
    return best
