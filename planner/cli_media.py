"""Images, video and audio in a shell: the flags that `plan` and `kv` share, and what the model makes of them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from planner.errors import InputError, shown
from planner.model import Model


class Found(Protocol):
    """What `model_configs.media_tokens` gives."""

    @property
    def parts(self) -> Sequence[Any]: ...
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def encoder_positions(self) -> int: ...


@dataclass(frozen=True)
class Asked:
    """images: (width, height, count). videos: (width, height, frames, seconds, fps), frames or seconds. audio: seconds."""

    images: tuple[tuple[int, int, int], ...] = ()
    videos: tuple[tuple[int, int, int | None, float | None, float | None], ...] = ()
    audio: tuple[float, ...] = ()


Counter = Callable[[Model, Asked], Found]
_IMAGE = re.compile(r"(\d{1,7})x(\d{1,7})(?:x(\d{1,6}))?")
_VIDEO = re.compile(r"(?:(\d{1,7})|(\d+(?:\.\d+)?)(s|min)(?:@(\d+(?:\.\d+)?))?)x(\d{1,7})x(\d{1,7})")
#: No more than 999 of one length, because each is an item of its own.
_AUDIO = re.compile(r"(\d+(?:\.\d+)?)(s|min)?(?:x(\d{1,3}))?")


def add_flags(add: Callable[..., Any]) -> None:
    """Adds --image, --video and --audio."""
    add("--image", action="append", metavar="WxH[xN]", help="an image of each prompt in pixels, N times: 1024x768, 1024x768x3")
    add("--video", action="append", metavar="FRAMESxWxH", help="a video by frames or seconds: 32x1280x720, 60s@2x1280x720")
    add("--audio", action="append", metavar="SECONDS", help="an audio of each prompt: 30s, 2min")


def asked(arguments: argparse.Namespace) -> Asked | None:
    """What the flags say; None where none was given. Errors: InputError naming the flag."""
    if not (arguments.image or arguments.video or arguments.audio):
        return None
    images = tuple(_image(text) for text in arguments.image or ())
    videos = tuple(_video(text) for text in arguments.video or ())
    return Asked(images, videos, tuple(second for text in arguments.audio or () for second in _audio(text)))


def _match(pattern: re.Pattern[str], field: str, text: str, right: str) -> re.Match[str]:
    found = pattern.fullmatch(text.strip().lower())
    if found is None:
        raise InputError(f"--{field} {shown(text)}: write {right}", field=field)
    return found


def _image(text: str) -> tuple[int, int, int]:
    width, height, count = _match(_IMAGE, "image", text, "WIDTHxHEIGHT or WIDTHxHEIGHTxCOUNT, like 1024x768").groups()
    return int(width), int(height), int(count or 1)


def _video(text: str) -> tuple[int, int, int | None, float | None, float | None]:
    right = "FRAMESxWIDTHxHEIGHT, or SECONDS and the rate: 32x1280x720, 60sx1280x720, 60s@2x1280x720"
    frames, seconds, unit, rate, width, height = _match(_VIDEO, "video", text, right).groups()
    length = None if seconds is None else float(seconds) * (60 if unit == "min" else 1)
    return int(width), int(height), int(frames) if frames else None, length, float(rate) if rate else None


def _audio(text: str) -> tuple[float, ...]:
    seconds, unit, count = _match(_AUDIO, "audio", text, "seconds, like 30s or 2min, and a count: 30sx4").groups()
    return (float(seconds) * (60 if unit == "min" else 1),) * int(count or 1)


def told(found: Found) -> tuple[str, ...]:
    """One line for each item: what it becomes, by which rule, and who says so."""
    lines = []
    for part in found.parts:
        times = f"{part.count} x " if part.count > 1 else ""
        held = f"{part.encoder_positions:,} encoder positions" if part.encoder_positions else f"{part.tokens:,} tokens"
        marks = f" and {part.around:,} marks around" if part.around else ""
        lines.append(f"{times}{part.kind} of {part.item}: {held}{marks}: {part.formula} ({part.source})")
    return tuple(lines)


def media_data(found: Found) -> dict[str, Any]:
    """The same as plain data."""
    names = ("kind", "item", "count", "tokens", "around", "embeddings", "encoder_positions", "formula", "source")
    return {
        "prompt_tokens": found.prompt_tokens, "encoder_positions": found.encoder_positions,
        "parts": [{name: getattr(part, name) for name in names} for part in found.parts],
    }  # fmt: skip
