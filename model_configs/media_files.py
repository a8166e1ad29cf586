"""The files beside a config.json that say how a checkpoint's processor cuts images and audio, as one object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FILES = ("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json")


def together(files: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """{"processor_config": settings by part}, empty without files.

    A part of processor_config.json wins; else images and audio are those of preprocessor_config.json, and so are videos where
    they have no file of their own.
    """
    flat, video = files.get(FILES[0]), files.get(FILES[2])
    found: dict[str, Any] = dict(files.get(FILES[1], {}))
    for part, content in (("image_processor", flat), ("feature_extractor", flat), ("video_processor", video or flat)):
        if content is not None:
            found.setdefault(part, dict(content))
    return {"processor_config": found} if found else {}
