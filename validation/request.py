"""What a person asks a validation run for: checked, with the defaults of the device filled in."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planner.engines import transformers
from planner.errors import InputError, shown

CACHES = ("dynamic", "static", "offloaded", "offloaded_static", "quantized")
#: The grid where none is given. A CPU generates a few hundred tokens of a small model in seconds.
DEFAULTS = {
    "cuda": {"batch": (1, 4), "tokens": (512, 4096), "new": (8,), "encoder": (64,)},
    "cpu": {"batch": (1, 2), "tokens": (64, 256), "new": (8,), "encoder": (16,)},
}
#: The most of each; beyond them a run would take days.
_MOST = {"batch": 4096, "tokens": 10_000_000, "new": 100_000, "encoder": 1_000_000}


@dataclass(frozen=True)
class Request:
    """One run. grid: batch, tokens, new and encoder, empty where the device's defaults hold. limit: in bytes."""

    model: str
    device: str = "auto"
    dtype: str = "auto"
    grid: dict[str, tuple[int, ...]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    weights: str = "random"
    layers: int | None = None
    find_limit: str | None = None
    limit: int | None = None
    speed: bool = False
    speed_lengths: tuple[int, ...] = ()
    threads: int | None = None
    revision: str | None = None
    token: str | None = field(default=None, repr=False)
    json: str | None = None
    html: str | None = None

    def filled(self, device: str) -> dict[str, tuple[int, ...]]:
        """The grid with the device's defaults. InputError where more tokens are new than are held."""
        grid = {**DEFAULTS[device], **self.grid}
        if len(grid["new"]) != 1 or len(grid["encoder"]) != 1:
            raise InputError("grid: new and encoder each have one value", field="grid")
        if min(grid["tokens"]) < grid["new"][0]:
            raise InputError(
                f"grid: {min(grid['tokens'])} tokens leave no prompt for {grid['new'][0]} new ones; say a smaller new=",
                field="grid",
            )
        return grid


def from_arguments(arguments: argparse.Namespace) -> Request:
    """The request that the command line's words make. Errors: InputError naming the word."""
    settings: dict[str, Any] = {"cache_implementation": arguments.cache}
    if arguments.cache_config and arguments.cache != "quantized":
        raise InputError("--cache-config configures a quantized cache; say --cache quantized too", field="cache_config")
    settings.update(_pairs(arguments.cache_config, "cache_config", _value))
    if settings.get("backend", "quanto") == "fp8" and len(settings) > 2:
        raise InputError("the fp8 backend has no settings beside its name", field="cache_config")
    transformers.Settings(**settings)
    if arguments.limit is not None and not arguments.find_limit:
        raise InputError("--limit is the memory for --find-limit; say that too", field="limit")
    if arguments.threads is not None and not 1 <= arguments.threads <= 1024:
        raise InputError(f"threads is {arguments.threads}; it must be from 1 to 1024", field="threads")
    for name in ("json", "html"):
        _check_target(getattr(arguments, name), name)
    return Request(
        model=arguments.model, device=arguments.device, dtype=arguments.dtype,
        grid=_pairs(arguments.grid, "grid", lambda text, name: numbers(text, name, _MOST.get(name))),
        settings=settings, weights=arguments.weights, layers=arguments.layers, find_limit=arguments.find_limit,
        limit=arguments.limit, speed=arguments.speed,
        speed_lengths=numbers(arguments.speed_lengths, "speed_lengths", 100_000) if arguments.speed_lengths else (),
        threads=arguments.threads, revision=arguments.revision, token=arguments.token, json=arguments.json, html=arguments.html,
    )  # fmt: skip


def numbers(text: str, name: str, most: int | None) -> tuple[int, ...]:
    """The whole numbers of "512,4096", without repetition. InputError naming `name`."""
    if most is None:
        raise InputError(f"grid has no {name!r}; it has {', '.join(_MOST)}", field="grid")
    parts = [part.strip().replace("_", "") for part in text.split(",")]
    if not all(part.isdigit() and 1 <= int(part) <= most for part in parts) or len(parts) > 64:
        raise InputError(f"{name} is {shown(text)}; it must be up to 64 whole numbers from 1 to {most:,}, as in 1,4", field=name)
    return tuple(dict.fromkeys(int(part) for part in parts))


def _pairs(words: Sequence[str], where: str, read: Any) -> dict[str, Any]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise InputError(f"{where}: {shown(word)} is not NAME=VALUE", field=where)
        found[name] = read(value, name)
    return found


def _value(text: str, name: str) -> int | str:
    return int(text) if text.lstrip("-").isdigit() else text


def _check_target(target: str | None, name: str) -> None:
    """A file that cannot be written is said before hours of measuring, not after."""
    if target and target != "-" and not Path(target).expanduser().parent.is_dir():
        raise InputError(f"{name}: there is no folder {Path(target).parent}", field=name)
