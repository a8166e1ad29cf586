"""Does any config, however hostile, break the reader, or is it changed by being read?

Whatever a config says, reading it gives a Model or a PlannerError that names the word.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

import model_configs
from model_configs.families import table
from planner import PlannerError, architecture_bytes, engine
from tests.configs import attempt, rows

NASTY: list[Any] = [
    None, True, "x", "8", -1, 0, 1.5, float("nan"), float("inf"), 2**70, ["x"], [[1]], [0] * 100, {}, {"0": {"head_dim": "x"}},
]  # fmt: skip
#: Words that some family reads and that a base config may not name.
EXTRA = (
    "layer_types", "layers_block_type", "per_layer_config", "sliding_window", "attention_chunk_size", "head_dim", "v_head_dim",
    "num_key_value_heads", "num_kv_shared_layers", "indexer_types", "use_mla", "text_config", "torch_dtype", "architectures",
    "quantization_config", "max_position_embeddings", "model_type", "intermediate_size", "vocab_size",
)  # fmt: skip


def bases() -> dict[str, dict[str, Any]]:
    """One config for each family row, its proof's or one of class_defaults.yaml, and one for each kind of wrapper."""
    by_type = {row["config"]["model_type"]: row["config"] for row in rows()}
    found: dict[str, dict[str, Any]] = {}
    for family in table().families:
        written = [by_type[name] for name in family.types if name in by_type]
        found[family.name] = written[-1] if written else dict(family.proof.get("config", {"model_type": family.types[0]}))
    for name in ("llava", "gemma3", "mllama", "minimax_m3_vl", "encoder-decoder", "qwen2_5_omni", "deepseek_vl_v2"):
        found[f"wrapper {name}"] = by_type[name]
    return found


def mutations(config: dict[str, Any]) -> list[dict[str, Any]]:
    """The config with each of its words, one level into its parts, and each extra word set to each nasty value or gone."""
    found = [{**config, key: value} for key in config for value in NASTY]
    found += [{**config, key: NASTY[i % len(NASTY)]} for i in range(len(NASTY)) for key in EXTRA[i % 3 :: 3]]
    found += [{k: v for k, v in config.items() if k != key} for key in config]
    for part, words in config.items():
        if isinstance(words, dict):
            found += [{**config, part: {**words, key: value}} for key in words for value in NASTY]
            found += [{**config, part: {k: v for k, v in words.items() if k != key}} for key in words]
    return found


def survive(config: dict[str, Any]) -> None:
    """Reads `config` and, if it is a model, counts its cache in every way; only PlannerError may come out of it."""
    model = attempt(config)
    if isinstance(model, PlannerError):
        return
    assert model.layers
    counted = architecture_bytes(model, 1000, 2, encoder_tokens=7)
    assert type(counted.total_bytes) is int
    assert all(part.bytes >= 0 and part.positions >= 0 for layer in counted.layers for part in layer.parts)
    shapes = [t.shape for x in model.layers for c in x.caches for t in c.tensors(1000)]
    assert all(type(size) is int and size >= 0 for shape in shapes for size in shape)
    transformers = engine("transformers")
    for implementation in ("dynamic", "static", "quantized"):
        try:
            settings = transformers.Settings(cache_implementation=implementation)
            assert transformers.cache_bytes(model, settings, 1000, 2, 7).total_bytes >= 0
        except PlannerError:
            pass


@pytest.mark.parametrize("name", bases())
def test_no_config_breaks_the_reader(name: str) -> None:
    """Each word of each family's config set to each nasty value: a Model whose cache can be counted, or a PlannerError."""
    failures = []
    for config in mutations(bases()[name]):
        try:
            survive(config)
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error!s:.120} <- {config!r:.300}")
    assert not failures, "\n".join(failures[:10]) + f"\n({len(failures)} in all)"


def test_reading_does_not_change_the_config() -> None:
    """A config given as a dict comes back as it was, also where its lists are cut or its words filled in."""
    for row in rows():
        config = copy.deepcopy(row["config"])
        model_configs.read(config)
        assert config == row["config"]
