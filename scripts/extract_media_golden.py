"""Makes tests/golden/media.yaml: what the real processors of transformers make of images, videos and audio.

Each family has the config words and the processor settings that its rule reads; the count is that of the processor's own code,
run on sizes or, where it has no count by size, on blank images and silence.

Usage: python scripts/extract_media_golden.py      (needs transformers, torch, torchvision and pillow)
"""

from __future__ import annotations

import json
from pathlib import Path

import transformers
from media_audio import heard
from media_images import even, resized
from media_tiles import tiled

OUT = Path(__file__).resolve().parent.parent / "tests/golden/media.yaml"
HEAD = """# Tokens that images, videos and audio become, as the real processors of transformers {version} computed them.
#
# config: the words that the family's rule reads. processor: settings that the processor was made with, where they are not those
# that its published checkpoints have. rows: [kind, size, tokens]; a size is [width, height], [frames, width, height] or seconds.
# Made by scripts/extract_media_golden.py; no figure is computed by the planner.
"""


def main() -> None:
    cases = [entry for group in (resized, even, tiled, heard) for entry in group()]
    lines = [HEAD.format(version=transformers.__version__), "cases:"]
    for entry in cases:
        lines.append(f"- name: {json.dumps(entry['name'])}")
        lines += [f"  {key}: {json.dumps(entry[key])}" for key in ("config", "processor", "source")]
        lines += ["  rows:", *(f"  - {json.dumps(row)}" for row in entry["rows"])]
    OUT.write_text("\n".join(lines) + "\n", "utf-8")
    print(len(cases), "cases,", sum(len(entry["rows"]) for entry in cases), "rows")


if __name__ == "__main__":
    main()
