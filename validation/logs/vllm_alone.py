"""What a vLLM log shows without a model: its figures beside each other, and which models of the catalogue they would fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import model_configs
from model_configs import catalogue
from planner.layers import Full
from validation.logs.log import CheckLine, Log

_BLOCK: Final = 16
_MOST_READ: Final = 20


def alone_lines(log: Log) -> tuple[CheckLine, ...]:
    """Concurrency from tokens and length, where the release prints one as the other over the length."""
    tokens, length, requests = (
        log.printed.get(name) for name in ("gpu_kv_cache_tokens", "concurrency_tokens", "max_concurrency")
    )
    if requests is None or length is None or not length.value:
        return ()
    blocks = log.printed.get("num_gpu_blocks")
    if tokens is None:
        if blocks is None:
            return ()
        ours, rule = blocks.value * _BLOCK / length.value, f"{blocks.value:,} blocks x {_BLOCK} tokens / {length.value:,}"
    else:
        ours, rule = tokens.value / length.value, f"{tokens.value:,} tokens / {length.value:,}"
    # Whole blocks of a request make the printed ratio up to a block smaller.
    slack = requests.slack + 1e-9 + ours * _BLOCK / length.value
    if abs(ours - requests.value) > slack:
        return ()
    return (CheckLine(requests.name, requests.value, round(ours, 4), True, rule, requests.text),)


def alone_texts(log: Log) -> Iterator[str]:
    """Bytes of a token, for a model whose layers are all alike."""
    low, high = token_bytes(log)
    if not high:
        return
    tokens = log.printed["gpu_kv_cache_tokens"]
    pool = log.printed.get("kv_in_use_bytes") or log.printed["available_kv_bytes"]
    size = f"{pool.text} GiB" if pool.slack else f"{pool.value:,} bytes"
    yield (
        f"{tokens.value:,} tokens / {_BLOCK} = {int(tokens.value) // _BLOCK:,} blocks; {size} / {tokens.value:,} tokens ="
        f" {low:,.0f} to {high:,.0f} bytes a token, if every layer keeps every token"
    )


def token_bytes(log: Log) -> tuple[float, float]:
    """The least and the most that a token may take, (0, 0) where the log does not print both. The last block may be part used."""
    tokens = log.printed.get("gpu_kv_cache_tokens")
    pool = log.printed.get("kv_in_use_bytes") or log.printed.get("available_kv_bytes")
    if tokens is None or pool is None or tokens.value <= _BLOCK or pool.low <= 0:
        return 0.0, 0.0
    return pool.low / (tokens.value + _BLOCK), pool.high / tokens.value


def likely_models(log: Log, most: int = 6) -> list[str]:
    """Models of the catalogue whose token is so large under the log's split, all layers being alike; nearest weights first."""
    low, high = token_bytes(log)
    ranks = int(log.settings.get("tensor_parallel_size", log.other["ranks"].get("TP", 1)))
    if not high:
        return []
    named = [entry for entry in catalogue.entries() if low <= _uniform(entry.config, ranks) <= high]
    load = log.printed.get("model_load_bytes")
    found = [model_configs.read(f"catalogue:{entry.id}") for entry in named[:_MOST_READ]]
    found = [model for model in found if all(type(cache) is Full for layer in model.layers for cache in layer.caches)]
    if load:
        found.sort(key=lambda model: abs((model.weight_bytes or 0) / ranks - load.value))
    return [model.name for model in found[:most]]


def _uniform(config: Mapping[str, Any], ranks: int) -> int:
    """Bytes of a token in 16 bits on one rank by the plain words of a config; 0 where it does not have them."""
    text = config.get("text_config")
    words = text if isinstance(text, Mapping) else config
    layers, heads = words.get("num_hidden_layers"), words.get("num_attention_heads")
    kv_heads = words.get("num_key_value_heads", heads)
    width = words.get("head_dim") or (words.get("hidden_size", 0) // heads if isinstance(heads, int) and heads else 0)
    if not (isinstance(layers, int) and isinstance(kv_heads, int) and isinstance(width, int)):
        return 0
    return 4 * layers * max(1, kv_heads // ranks) * width
