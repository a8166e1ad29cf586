"""What one rank keeps of the cache when transformers divides a model over several by its class's tensor-parallel plan."""

from __future__ import annotations

import functools
from dataclasses import replace
from importlib import resources
from typing import Any

import yaml

from planner.errors import EngineRefusal
from planner.layers import Cross, Full, LayerCache
from planner.model import Model


def on_rank(model: Model, ranks: int) -> Model:
    """The model as one of `ranks` ranks caches it, for `cache_bytes` of the transformers engine; all ranks keep the same.

    KV heads on a rank = KV heads / ranks where the class's plan divides the keys, else all of them. Latents, index keys and
    recurrent states are whole on every rank. Errors: EngineRefusal for a class without a plan, or KV heads that do not divide.

    Source: plans and real generation of transformers 5.24 (planner/data/transformers_ranks.yaml).
    """
    table = _table()
    if ranks == 1 or model.model_type in table["whole"]:
        return model
    if model.model_type not in table["divided"]:
        raise EngineRefusal(
            f"transformers has no tensor-parallel plan that runs for {model.model_type}", engine="transformers", ranks=ranks
        )
    whole = (Cross,) if model.model_type in table["cross_whole"] else ()
    layers = model.layers_for("transformers")
    parts = [tuple(_cache(cache, ranks, whole) for cache in layer.caches) for layer in layers]
    layers = tuple(replace(layer, caches=part) for layer, part in zip(layers, parts, strict=True))
    return replace(model, layers=layers, engine_layers={})


def _cache(cache: LayerCache, ranks: int, whole: tuple[type[LayerCache], ...]) -> LayerCache:
    if not isinstance(cache, Full) or isinstance(cache, whole):
        return cache
    if cache.kv_heads % ranks:
        raise EngineRefusal(
            f"transformers cannot share {cache.kv_heads} KV heads out among {ranks} ranks; it repeats none",
            engine="transformers", ranks=ranks,
        )  # fmt: skip
    return replace(cache, kv_heads=cache.kv_heads // ranks)


@functools.cache
def _table() -> dict[str, Any]:
    return dict(yaml.safe_load(resources.files("planner").joinpath("data/transformers_ranks.yaml").read_text("utf-8")))
