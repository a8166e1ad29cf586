"""How tests read a config: the model or the one-line refusal, and a layer in the words of the golden rows.

Expected layers are in `golden/class_defaults.yaml`, written by hand.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

import model_configs
from planner import Model, PlannerError, architecture_bytes
from planner.layers import (
    Chunked,
    Compressed,
    Cross,
    Full,
    Hidden,
    IndexKeys,
    Latent,
    Layer,
    LayerCache,
    ReferenceSliding,
    Sliding,
    State,
)  # fmt: skip

GOLDEN = Path(__file__).parent / "golden"
LLAMA: dict[str, Any] = {
    "model_type": "llama", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 64,
}  # fmt: skip
#: A message is one line that a person can read, whatever was pasted.
LONGEST_MESSAGE = 1000


@cache
def rows() -> tuple[dict[str, Any], ...]:
    """The rows of class_defaults.yaml."""
    return tuple(yaml.safe_load((GOLDEN / "class_defaults.yaml").read_text(encoding="utf-8")))


def read(config: Mapping[str, Any], **options: Any) -> Model:
    return model_configs.read(copy.deepcopy(dict(config)), **options)


def attempt(source: Any, **options: Any) -> Model | PlannerError:
    """The model, or the PlannerError, that reading gives; the error is one line of a sane length."""
    try:
        return read(source, **options) if isinstance(source, dict) else model_configs.read(source, **options)
    except PlannerError as error:
        found = error
    assert "\n" not in str(found)
    assert len(str(found)) < LONGEST_MESSAGE, str(found)[:200]
    return found


def refusal(config: Mapping[str, Any], **options: Any) -> PlannerError:
    """The error that reading `config` gives. Any other exception, and a Model, fail the test."""
    found = attempt(config, **options)
    assert isinstance(found, PlannerError), f"read as {found.kinds}, {architecture_bytes(found, 1000).total_bytes} bytes"
    return found


def named(error: PlannerError) -> str:
    """The words that an error is about: its message and its fields."""
    return f"{error} {error.fields}"


def in_words(part: LayerCache) -> str:
    """A cache in the words of class_defaults.yaml."""
    window = "" if part.window is None else f" w {part.window}"
    if isinstance(part, Full):
        kind = {Full: "full", Cross: "cross", Sliding: "sliding", Chunked: "chunked", ReferenceSliding: "reference"}[type(part)]
        width = str(part.k_dim) if part.k_dim == part.v_dim else f"{part.k_dim}/{part.v_dim}"
        return f"{kind} {part.kv_heads} x {width}{window}"
    if isinstance(part, Latent):
        return f"latent {part.kv_lora_rank} + {part.qk_rope_head_dim}{window}"
    if isinstance(part, IndexKeys):
        ids = f" ids {part.position_ids}" if part.position_ids else ""
        return f"index {part.width}{' f4' if part.dtype == 'float32' else ''}{ids}"
    if isinstance(part, Compressed):
        indexer = "" if part.index_dim is None else f" i {part.index_dim}"
        return f"compressed {part.head_dim} r {part.rate}{indexer}{window}"
    if isinstance(part, Hidden):
        return f"hidden {part.width}{f' +{part.bucket_ids}' if part.bucket_ids else ''}"
    assert isinstance(part, State), part
    widths = {"model": 2, "float32": 4, "int64": 8, "int32": 4}
    return f"state {sum(t.elements * widths[t.dtype] for t in part.states)}"


def layer_in_words(layer: Layer) -> str:
    return " + ".join(in_words(part) for part in layer.caches) or ("none" if layer.shares is None else "shared")
