"""From images, video and audio to the tokens that they become in the prompt, by the family's own rule.

The rules' numbers are rows of `media.yaml`; the rules themselves are in media_images.py, media_tiles.py, media_crops.py and
media_audio.py, each under its name in media_rules.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from model_configs.media_images import Count, Numbers
from model_configs.media_rules import of_audio, of_image
from model_configs.media_table import KINDS, MediaFamily, family, numbers
from model_configs.reader import read
from planner.errors import InputError, shown
from planner.model import Model
from planner.units import ceil_div


@dataclass(frozen=True)
class Video:
    """Frames of width x height as the model gets them; or `seconds`, of which the family's rule takes frames, `fps` a second."""

    width: int
    height: int
    frames: int | None = None
    seconds: float | None = None
    fps: float | None = None


@dataclass(frozen=True)
class Part:
    """What one item becomes, `count` times. tokens: in the prompt, by the processor's own count. around: marks that the
    processor or the chat template writes around it. embeddings: what an encoder gives. encoder_positions: those of an encoder
    that the decoder attends to. formula: the rule with its numbers. source: who says so."""

    kind: str
    item: str
    count: int
    tokens: int
    around: int
    embeddings: int
    encoder_positions: int
    formula: str
    source: str


@dataclass(frozen=True)
class MediaTokens:
    """What all items together become. tokens: by the processors' own counts; prompt_tokens: with the marks around the items."""

    parts: tuple[Part, ...]

    @property
    def tokens(self) -> int:
        return sum(part.count * part.tokens for part in self.parts)

    @property
    def around(self) -> int:
        return sum(part.count * part.around for part in self.parts)

    @property
    def prompt_tokens(self) -> int:
        return self.tokens + self.around

    @property
    def embeddings(self) -> int:
        return sum(part.count * part.embeddings for part in self.parts)

    @property
    def encoder_positions(self) -> int:
        """Positions of the images, or those of the longest audio: its windows are decoded one after another."""
        pictures = sum(part.count * part.encoder_positions for part in self.parts if part.kind != "audio")
        return pictures + max((part.encoder_positions for part in self.parts if part.kind == "audio"), default=0)

    @property
    def source(self) -> str:
        return "; ".join(dict.fromkeys(part.source for part in self.parts))


def media_tokens(
    model: Model | Mapping[str, Any] | str,
    images: Sequence[tuple[int, ...]] = (),
    videos: Sequence[Video | tuple[int, int, int]] = (),
    audio_seconds: Sequence[float] = (),
    processor: Mapping[str, Any] | None = None,
) -> MediaTokens:
    """The tokens that images, videos and audio become in a prompt of a model.

    model: a described model, a config.json's content, or whatever `model_configs.read` takes. images: (width, height) or
    (width, height, count). videos: `Video`, or (frames, width, height). processor: the content of the checkpoint's
    preprocessor_config.json (or processor_config.json), whose numbers win over the config's and the row's; a model that was
    read from a folder or the Hub has its own.

    tokens = sum over the items of the family's rule; each part says it with its numbers.

    Errors: UnsupportedArchitecture where the family's rule is not known, which offers `image_tokens`; InputError for a size that
    cannot be, or a kind that the model does not take; ConfigError.
    Source: model_configs/media.yaml, row by row.
    """
    config = model if isinstance(model, Mapping) else (model if isinstance(model, Model) else read(model)).config
    processor = config.get("processor_config") if processor is None else processor
    row, parts = family(config), []
    for item in images:
        if len(item) not in (2, 3) or not all(_whole(side) for side in item):
            raise InputError(f"an image is (width, height) or (width, height, count) in pixels, not {shown(item)}", field="image")
        n = _of(row, "image", config, processor)
        width, height, count = (*item, 1)[:3]
        parts.append(_part(row, "image", f"{width} x {height}", count, n, of_image(n, width, height)))
    for clip in videos:
        video = clip if isinstance(clip, Video) else _frames(clip)
        parts.append(_video(row, video, _of(row, "video", config, processor)))
    for seconds in audio_seconds:
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= 86_400:
            raise InputError(f"an audio is some seconds, up to a day, not {shown(seconds)}", field="audio")
        n = _of(row, "audio", config, processor)
        parts.append(_part(row, "audio", f"{seconds:g} s", 1, n, of_audio(n, seconds)))
    return MediaTokens(tuple(parts))


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**20


def _frames(clip: Sequence[int]) -> Video:
    if len(clip) != 3:
        raise InputError(f"a video is (frames, width, height), not {shown(clip)}", field="video")
    return Video(clip[1], clip[2], clip[0])


def _of(row: MediaFamily, kind: str, config: Mapping[str, Any], processor: Mapping[str, Any] | None) -> dict[str, Any]:
    found = numbers(row, kind, config, processor)
    if found is None:
        takes = [name for name in KINDS if numbers(row, name, config, processor)]
        raise InputError(f"no rule for {kind} in {row.name}: it takes {', '.join(takes)}", field=kind)
    return found


def _part(row: MediaFamily, kind: str, item: str, count: int, n: Numbers, held: Count) -> Part:
    inside = bool(n.get("encoder"))
    tokens, around = (n.get("mark", 0), 0) if inside else (held.tokens, n.get("around", 0))
    return Part(kind, item, count, tokens, around, held.embeddings, held.embeddings if inside else 0, held.formula, row.source)


def _video(row: MediaFamily, video: Video, n: Numbers) -> Part:
    """tokens = groups of `temporal` frames x what the image rule makes of one + extra."""
    if not (_whole(video.width) and _whole(video.height)):
        raise InputError(f"a video has a width and a height in pixels, not {shown((video.width, video.height))}", field="video")
    temporal, frames = n.get("temporal", 1), _sampled(video, n)
    groups = ceil_div(frames, temporal)
    together = (max(frames, temporal),) if n.get("joint") else ()
    held = of_image(n, video.width, video.height, *together)
    extra, around = n.get("extra", 0), n.get("around", 0) + groups * n.get("frame_around", 0)
    tokens, embeddings = groups * held.tokens + extra, groups * held.embeddings + extra
    text = f"{groups} groups of {temporal} frames: " if temporal > 1 else f"{frames} frames: "
    formula = f"{text}{held.formula} each" + (f", + {extra}" if extra else "") + f" = {tokens}"
    item = f"{frames} frames of {video.width} x {video.height}"
    return Part("video", item, 1, tokens, around, embeddings, 0, formula, row.source)


def _sampled(video: Video, n: Numbers) -> int:
    """The frames that reach the model: as said, or those of some seconds at the family's rate and within its limits."""
    if video.frames is not None:
        if not _whole(video.frames):
            raise InputError(f"a video has some frames, not {shown(video.frames)}", field="video")
        return video.frames
    if video.seconds is None or isinstance(video.seconds, bool) or not 0 < video.seconds <= 86_400:
        raise InputError("a video needs its frames, or seconds up to a day", field="video")
    rate = video.fps or n.get("fps")
    if "num_frames" in n and not video.fps:
        return int(n["num_frames"])
    if rate is None:
        raise InputError("this family takes the frames that it is given: say the frames, or fps", field="video")
    wanted = math.ceil(video.seconds * rate)
    return int(max(n.get("min_frames", 1), min(wanted, n.get("max_frames", wanted))))
