"""Every media rule by its name: what it makes of one item, what of the largest, and what a model's description keeps of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from model_configs import media_audio as audio
from model_configs import media_crops as crops
from model_configs import media_images as images
from model_configs import media_tiles as tiles
from model_configs.media_images import Count, Numbers
from model_configs.media_table import KINDS, find, look, numbers, towers_part
from planner.errors import ConfigError
from planner.model import Media

_Largest = Callable[[Numbers], int]


def _same(n: Numbers) -> int:
    """The largest item of a rule whose count does not depend on the size."""
    return IMAGES[n["rule"]][0](n, 1, 1).embeddings


#: Each rule for images, and what the largest image becomes.
IMAGES: dict[str, tuple[Callable[..., Count], _Largest]] = {
    "fixed": (images.fixed, _same), "square": (images.square, _same), "quarters": (tiles.quarters, _same),
    "rows": (images.rows, images.rows_most), "resize": (images.resize, images.resize_most),
    "few_tokens": (images.few_tokens, images.most_word), "navit": (images.navit, images.navit_most),
    "navit_frames": (images.navit, images.navit_most),
    "soft": (images.soft, images.most_word), "pan_and_scan": (images.pan_and_scan, images.pan_and_scan_most),
    "anyres": (tiles.anyres, tiles.anyres_most), "tiles": (tiles.tiles, tiles.tiles_most),
    "covered": (tiles.covered, lambda n: n["each"] * (1 + n["most"])), "canvas": (tiles.canvas_tiles, tiles.canvas_most),
    "split": (tiles.split, tiles.split_most), "encoder_tiles": (tiles.encoder_tiles, tiles.encoder_tiles_most),
    "thumb_and_tiles": (tiles.thumb_and_tiles, lambda n: (n["most"] + 1) * (n["tile"] // n["patch"] // n["pool"]) ** 2),
    "high_definition": (tiles.high_definition, tiles.high_definition_most), "rectangle": (tiles.rectangle, tiles.rectangle_most),
    "slices": (tiles.slices, tiles.slices_most), "queried_tiles": (crops.queried_tiles, crops.queried_most),
    "lfm": (crops.lfm, crops.lfm_most), "overlapping": (crops.overlapping, crops.overlapping_most),
    "windows": (crops.windows, crops.windows_most),
}  # fmt: skip
#: Each rule for audio, and what the longest one becomes; 0 where it has no end.
AUDIO: dict[str, tuple[Callable[[Numbers, float], Count], _Largest]] = {
    "per_item": (audio.per_item, lambda n: n["tokens"]), "mel": (audio.mel, audio.mel_most),
    "mel_windows": (audio.mel, audio.mel_most),
    "chunked_mel": (audio.chunked_mel, lambda n: 0), "semicausal_mel": (audio.semicausal_mel, audio.most_word),
    "conformer": (audio.conformer, lambda n: 0), "projected": (audio.projected, lambda n: 0),
    "padded_windows": (audio.padded_windows, lambda n: 0), "stacked_windows": (audio.stacked_windows, lambda n: 0),
    "encoder_window": (audio.encoder_window, audio.encoder_most),
}  # fmt: skip
#: What arithmetic raises where a config's numbers cannot be those of one model: a patch wider than its image, say.
_IMPOSSIBLE = (ZeroDivisionError, ValueError, OverflowError)


def of_image(n: Numbers, width: int, height: int, *frames: int) -> Count:
    """What one image, or one group of frames, becomes. Errors: ConfigError where the rule's numbers contradict each other."""
    try:
        return IMAGES[n["rule"]][0](n, width, height, *frames)
    except _IMPOSSIBLE:
        raise _contradiction(n) from None


def of_audio(n: Numbers, seconds: float) -> Count:
    """What an audio of some seconds becomes. Errors: as `of_image`."""
    try:
        return AUDIO[n["rule"]][0](n, seconds)
    except _IMPOSSIBLE:
        raise _contradiction(n) from None


def _contradiction(n: Numbers) -> ConfigError:
    told = ", ".join(f"{name} {value}" for name, value in n.items() if isinstance(value, int | float) and name != "encoder")
    return ConfigError(f"the config's numbers for images or audio contradict each other: {told}", field="vision_config")


def media_of(config: Mapping[str, Any]) -> Media | None:
    """What a model takes beside text: its rules' numbers by kind, and its largest item; None where no rule is known.

    Errors: ConfigError.
    """
    row = find(config)
    if row is None:
        return None
    files = config.get("processor_config")
    rules = {kind: found for kind in KINDS if (found := numbers(row, kind, config, files))}
    deep = look(towers_part(config), row.copies) if row.copies else None
    return Media(row.name, rules, _largest(rules), 1 + (len(deep) if isinstance(deep, list) else 0), row.source)


def _largest(rules: Mapping[str, Numbers]) -> dict[str, int]:
    """Embeddings of the largest item of each kind, of one group of frames where nothing but the context limits a video."""
    found = {}
    for kind, n in rules.items():
        try:
            most = AUDIO[n["rule"]][1](n) if kind == "audio" else IMAGES[n["rule"]][1](n)
        except _IMPOSSIBLE:
            raise _contradiction(n) from None
        if kind == "video":
            most = most // n["temporal"] if n.get("joint") else most * n.get("num_frames", 1)
        found[kind] = most
    return found
