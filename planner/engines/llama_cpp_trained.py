"""What n_ctx 0 means: the context that the model's file says it was trained for."""

from __future__ import annotations

from collections.abc import Mapping

from planner.engines.llama_cpp_table import table
from planner.layers import State
from planner.model import Model


def trained_context(model: Model, arch: str) -> int:
    """Positions of `<arch>.context_length`: the GGUF file's own, or what the converter makes of a config; 0 where neither
    says it.

    Source: conversion/base.py 1437 and the rules in data/llama_cpp.yaml.
    """
    if "general.architecture" in model.config:
        return model.max_context or 0
    rules = table()["trained_context"]
    recurrent = any(isinstance(cache, State) for layer in model.layers for cache in layer.caches)
    for length, archs in rules["fixed"].items():
        if arch in archs and (recurrent or arch == "falcon") and model.architecture not in rules["except_classes"]:
            return int(length)
    for word in rules["words"].get(arch, ()):
        value = model.config.get(word)
        if isinstance(value, int) and value > 0:
            return value
    if arch in rules["dynamic"] and "dynamic" in _scaling(model.config):
        return int(rules["dynamic"][arch])
    return model.max_context or int(rules["silent"].get(arch, 0))


def _scaling(config: Mapping[str, object]) -> set[object]:
    """How positions are scaled, by whichever word says it."""
    parts = [part for part in (config.get("rope_scaling"), config.get("rope_parameters")) if isinstance(part, Mapping)]
    return {part.get(word) for part in parts for word in ("type", "rope_type") if isinstance(part.get(word), str)}
