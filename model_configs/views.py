"""What an engine makes of built layers where it reads a config differently: the rules of `engines:` entries that are not rows.

  full          no layer slides: the engine caches the whole context everywhere
  owners        layers from this number on reuse earlier caches, whatever the file says
  expanded      `values`: MLA is cached as expanded keys and values, each in its own width (`true`: both in the keys')
  window_plus   windows are so many positions wider
  draft         how many draft (MTP) layers, or the word(s) that say it; they get a view of their own, "<engine> mtp"
  draft_slides  they are like the model's sliding layers
  counted       the draft layers are in the main cache too
  fill          layers without attention have rows all the same, as wide as the widest
Conditions: `types`, `flag`, `given`, `absent` (see build.py), `slides`: only a model that has windows; `unless_layers`: not
the model of exactly so many layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from model_configs.special import check_depth
from model_configs.words import Words, whole
from planner.layers import Compressed, Full, IndexKeys, Latent, Layer, LayerCache, Sliding, State

Layers = tuple[Layer, ...]


def applies(rule: Mapping[str, Any], layers: Layers) -> bool:
    """Whether the conditions on the built layers hold."""
    slides = any(layer.window is not None for layer in layers)
    return (not rule.get("slides") or slides) and rule.get("unless_layers") != len(layers)


def adapt(layers: Layers, rule: Mapping[str, Any], words: Words) -> Layers:
    """The layers with the rule's changes to them."""
    found = [replace(layer, caches=tuple(_cache(cache, rule) for cache in layer.caches)) for layer in layers]
    if "owners" in rule:
        found = [layer if i < rule["owners"] else Layer(shares=-1) for i, layer in enumerate(found)]
    if rule.get("fill"):
        heads = [cache for layer in found for cache in layer.caches if isinstance(cache, Full)]
        widest = max(heads, key=lambda cache: cache.kv_heads * (cache.k_dim + cache.v_dim), default=None)
        found = [layer if layer.caches or widest is None else Layer((widest,)) for layer in found]
    if rule.get("counted"):
        found += _drafts(layers, rule, words)
    return tuple(found)


def draft(layers: Layers, rule: Mapping[str, Any], words: Words) -> Layers:
    """The view of the draft context: the draft layers alone, each like the model's last attention. Empty without any."""
    drafts = _drafts(layers, rule, words)
    return (*(Layer() for _ in layers), *drafts) if drafts else ()


def _drafts(layers: Layers, rule: Mapping[str, Any], words: Words) -> list[Layer]:
    if "draft" not in rule:
        return []
    if isinstance(rule["draft"], int):
        count = rule["draft"]
    else:
        names = rule["draft"] if isinstance(rule["draft"], list) else [rule["draft"]]
        # Only what the file says: a class's default does not put draft layers into a checkpoint.
        given = next((words.given[name] for name in names if words.given.get(name) is not None), 0)
        count = whole(given, names[0], words.model_type, 0)
    caches = [cache for layer in layers for cache in layer.caches if not isinstance(cache, State | IndexKeys | Compressed)]
    like = _cache(caches[-1], {"full": True}) if caches else None
    if rule.get("draft_slides"):
        like = next((cache for cache in reversed(caches) if cache.window is not None), like)
    return [Layer((like,))] * check_depth(count, "draft layers") if like else []


def _cache(cache: LayerCache, rule: Mapping[str, Any]) -> LayerCache:
    if isinstance(cache, Sliding) and rule.get("full"):
        return Full(cache.kv_heads, cache.k_dim, cache.v_dim)
    if isinstance(cache, Sliding) and "window_plus" in rule:
        return replace(cache, window=cache.window + rule["window_plus"])
    if isinstance(cache, Latent) and rule.get("expanded") and cache.expanded:
        heads, key, value = cache.expanded
        return Full(heads, key, value if rule["expanded"] == "values" else key)
    return cache
