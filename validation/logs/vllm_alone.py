"""What a vLLM log shows without a model: its figures beside each other, and which models of the catalogue they would fit."""

from __future__ import annotations

from collections.abc import Iterator

from planner.layers import Full, Latent, Sliding
from planner.model import Model
from validation.logs.log import CheckLine, Log
from validation.logs.models import described

_BLOCK = 16


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
    """Models of the catalogue whose token is so large under the log's split, all layers being alike."""
    low, high = token_bytes(log)
    ranks = int(log.settings.get("tensor_parallel_size", log.other["ranks"].get("TP", 1)))
    load = log.printed.get("model_load_bytes")
    found = []
    for model in described() if high else ():
        each = _uniform(model, ranks)
        if each and low <= each <= high and not (load and model.weight_bytes and model.weight_bytes / ranks < load.value * 0.8):
            found.append(model)
    found.sort(key=lambda model: abs((model.weight_bytes or 0) / ranks - (load.value if load else 0)))
    return [model.name for model in found[:most]]


def _uniform(model: Model, ranks: int) -> int:
    """Bytes of a token in 16 bits on one rank; 0 for a model with other caches than full attention or latents."""
    total = 0
    for layer in model.layers_for("vllm"):
        for cache in layer.caches:
            if isinstance(cache, Sliding) or not isinstance(cache, Full | Latent):
                return 0
            if isinstance(cache, Latent):
                total += 2 * (cache.kv_lora_rank + cache.qk_rope_head_dim)
            else:
                total += 2 * max(1, cache.kv_heads // ranks) * (cache.k_dim + cache.v_dim)
    return total
