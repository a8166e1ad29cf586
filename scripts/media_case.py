"""What a golden case of images, videos or audio is: the sizes that are asked of every family, and the processor's answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import transformers
from media_judges import sized

#: Wide, tall, square, small, large, odd.
SIZES = [
    (1024, 768),
    (768, 1024),
    (336, 336),
    (640, 480),
    (1920, 1080),
    (1080, 1920),
    (3840, 2160),
    (500, 333),
    (224, 224),
    (100, 90),
    (2000, 300),
    (300, 2000),
    (1344, 1344),
    (4000, 4000),
    (901, 1303),
]
CLIPS = [(8, 640, 480), (16, 1280, 720), (33, 1920, 1080), (64, 320, 240)]
SECONDS = [0.5, 1, 5.3, 10, 29.995, 30, 42.1, 95]


def case(
    name: str,
    config: dict[str, Any],
    made: Any,
    count: Callable[..., list[int]] = sized,
    kind: str = "image",
    processor: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """One entry of the golden file. processor: the settings as a preprocessor_config.json has them."""
    rows = []
    for size in {"image": SIZES, "video": CLIPS, "audio": SECONDS}[kind]:
        try:
            rows.append([kind, list(size) if isinstance(size, tuple) else size, count(made, kind, [size])[0]])
        except ValueError as error:  # a shape that the processor refuses
            print(name, size, error)
    source = f"transformers {transformers.__version__}, {type(made).__name__}"
    return {"name": name, "config": config, "processor": processor or {}, "source": source, "rows": rows}
