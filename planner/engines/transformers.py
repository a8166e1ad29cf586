"""Hugging Face transformers: the cache classes that `generate(use_cache=True)` fills.

Measured on transformers 5.24 (and unchanged since 5.17): every rule here is held to cache tensors of real generation.
"""

from __future__ import annotations

import json
from typing import Literal

from pydantic import Field

from planner.cache import CacheBytes, check_count, held_positions, measure, prompted, tensor_bytes
from planner.dtypes import storage_format
from planner.engines.base import EngineSettings
from planner.errors import EngineRefusal
from planner.layers import Compressed, Cross, Full, Latent, LayerCache, ReferenceSliding, Sliding, Tensor
from planner.model import Model
from planner.texts import tell
from planner.units import ceil_div

name = "transformers"
VERSIONS = {"5.24.0": "2026-11"}


class Settings(EngineSettings):
    """`cache_implementation` and `cache_config` of generation; names are those of transformers.

    dtype: of the loaded model, which keys and values take ("auto": the checkpoint's). max_cache_len: positions that a
    static cache is given at least. The rest configure a quantized cache: `backend`, `nbits`, elements a group, positions
    kept in full precision, and the axis of quantisation (which moves no byte).
    """

    version: str = "5.24.0"
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    cache_implementation: Literal["dynamic", "static", "offloaded", "offloaded_static", "quantized"] = "dynamic"
    max_cache_len: int | None = Field(default=None, ge=1)
    backend: Literal["quanto", "hqq", "fp8"] = "quanto"
    nbits: Literal[1, 2, 3, 4, 8] = 4
    q_group_size: int = Field(default=64, ge=1)
    residual_length: int = Field(default=128, ge=1)
    axis_key: int = 0
    axis_value: int = 0


def cache_bytes(
    model: Model,
    settings: Settings | None = None,
    tokens: int = 0,
    requests: int = 1,
    encoder_tokens: int = 0,
    prompt_tokens: int | None = None,
) -> CacheBytes:
    """Bytes of the cache tensors after generation, layer by layer.

    dynamic: each cache holds the architecture's positions (a window of W keeps W - 1); the storage behind a sliding
    layer is min(tokens, W) rows while decoding and the whole prompt right after a prefill.
    static: max(tokens, max_cache_len) positions, min of that and W on a sliding layer, allocated in full.
    quantized: see `_quantized`. offloaded: the dynamic bytes, in host memory but for two layers.

    tokens: positions held by each request (generation holds prompt + new - 1). prompt_tokens: how many of them were the
    prompt. Errors: InputError, EngineRefusal (an implementation that the model's class does not run with).

    Source: transformers 5.24 cache_utils, measured layer by layer (docs/COVERAGE.md).
    """
    settings = settings or Settings()
    tokens, requests = check_count(tokens, "tokens"), check_count(requests, "requests", 1)
    encoder_tokens = check_count(encoder_tokens, "encoder_tokens")
    if prompt_tokens is not None:
        prompt_tokens = min(check_count(prompt_tokens, "prompt_tokens"), tokens)
    own = storage_format(model.dtype if settings.dtype == "auto" else settings.dtype)
    layers = prompted(model.layers_for(name), prompt_tokens)
    implementation, warnings = settings.cache_implementation, list[str]()
    if "own_cache" in model.cache_rules and implementation != "dynamic":
        warnings.append(tell("hf.no_effect", implementation=implementation, reason=model.cache_rules["own_cache"]))
        implementation = "dynamic"
    if implementation == "quantized":
        _check_quantized(model, encoder_tokens, settings)
        found = measure(
            layers,
            lambda cache: (held_positions(cache, tokens, encoder_tokens, prompt_tokens),) * 2,
            requests,
            lambda tensor: _quantized(tensor, settings, tokens, requests, prompt_tokens, own.bits // 8),
        )
        return CacheBytes(found, tokens, requests, encoder_tokens, tuple(warnings), _quantized_rule(settings))
    static = implementation in ("static", "offloaded_static")
    if static and "static_refused" in model.cache_rules:
        raise EngineRefusal(
            f"transformers has no static cache for {model.model_type}: {model.cache_rules['static_refused']}; use dynamic",
            engine=name,
        )
    if implementation.startswith("offloaded"):
        warnings.append(tell("hf.offloaded"))
    length = max(tokens, settings.max_cache_len or 0) if static else tokens

    def positions(cache: LayerCache) -> tuple[int, int]:
        if static:
            return (_static_positions(cache, length, encoder_tokens, prompt_tokens),) * 2
        held = held_positions(cache, length, encoder_tokens, prompt_tokens)
        return held, _stored_positions(cache, held, length, prompt_tokens)

    found = measure(layers, positions, requests, lambda tensor: tensor_bytes(tensor, requests, own, own))
    return CacheBytes(found, tokens, requests, encoder_tokens, tuple(warnings))


def _static_positions(cache: LayerCache, length: int, encoder_tokens: int, prompt_tokens: int | None) -> int:
    if isinstance(cache, Cross):
        return encoder_tokens
    if isinstance(cache, ReferenceSliding):
        prompt = length if prompt_tokens is None else prompt_tokens
        return min(length, prompt + cache.window)
    if isinstance(cache, Sliding | Latent) and cache.window is not None:
        return min(length, cache.window)
    return cache.positions(length)


def _stored_positions(cache: LayerCache, held: int, tokens: int, prompt_tokens: int | None) -> int:
    """Rows kept alive behind a window: a slice of the W rows of the last step, or of the whole prompt before it."""
    if cache.window is None or isinstance(cache, ReferenceSliding | Compressed):
        return held
    if prompt_tokens is not None and prompt_tokens == tokens:
        return tokens
    return min(tokens, cache.window)


def _check_quantized(model: Model, encoder_tokens: int, settings: Settings) -> None:
    if settings.backend == "quanto" and settings.nbits not in (2, 4):
        raise EngineRefusal(f"the quanto backend packs 2 or 4 bits, not {settings.nbits}; use hqq for other widths", engine=name)
    layers = model.layers_for(name)
    if not any(layer.caches for layer in layers):
        return
    for index, layer in enumerate(layers):
        plain = all(isinstance(c, Full | Latent) and c.window is None for c in layer.caches)
        if not plain or layer.shares is not None or not layer.caches:
            raise EngineRefusal(
                f"transformers quantizes a cache only where every layer is full attention; layer {index} of {model.name}"
                f" is {layer.kind}. Use cache_implementation dynamic, or an engine with its own quantized cache",
                engine=name,
            )
    if encoder_tokens:
        raise EngineRefusal("transformers quantizes the cache of decoder-only models; this one has an encoder", engine=name)


def _quantized(
    tensor: Tensor, settings: Settings, tokens: int, requests: int, prompt_tokens: int | None, element_bytes: int
) -> int:
    """Bytes of keys or values in a quantized cache.

    fp8: N + 4: one byte an element and one float32 scale a tensor.
    quanto, hqq: with R residual positions in full precision and G = elements of the rest / group size:
    ceil(G x bits / 8) x group + 2 x G x e (scale and zero point in the model's dtype) + R x row x e.
    R = (tokens - prompt) mod residual_length: new tokens collect until residual_length, then all is quantized again.
    Without a known prompt R is the largest that it can be.
    """
    positions = tensor.shape[1] if len(tensor.shape) == 3 else 0
    if not positions:
        return 0
    row = tensor.elements // positions * requests
    if settings.backend == "fp8":
        return row * positions + 4
    if prompt_tokens is None:
        residual = min(positions - 1, settings.residual_length - 1)
    else:
        residual = (tokens - prompt_tokens) % settings.residual_length
    elements = row * (positions - residual)
    if elements % settings.q_group_size:
        raise EngineRefusal(
            f"{settings.backend} quantizes in groups of q_group_size={settings.q_group_size} elements, which does not divide"
            f" the {elements} elements of {tensor.name} in a layer; choose a divisor of {tensor.shape[-1]}",
            engine=name,
        )
    groups = elements // settings.q_group_size
    packed = ceil_div(groups * settings.nbits, 8) * settings.q_group_size
    return packed + 2 * groups * element_bytes + residual * row * element_bytes


def _quantized_rule(settings: Settings) -> str:
    if settings.backend == "fp8":
        return tell("rule.hf.fp8")
    return tell(
        "rule.hf.quantized", backend=settings.backend, nbits=settings.nbits, group=settings.q_group_size,
        residual=settings.residual_length,
    )  # fmt: skip


def launch_command(model: Model, settings: Settings, max_new_tokens: int = 256) -> str:
    """The Python that generates with this cache."""
    options = ["use_cache=True", f"max_new_tokens={max_new_tokens}"]
    if settings.cache_implementation != "dynamic":
        options.append(f'cache_implementation="{settings.cache_implementation}"')
    if settings.cache_implementation == "quantized":
        options.append(f'cache_config={{"backend": "{settings.backend}", "nbits": {settings.nbits}}}')
    dtype = model.dtype if settings.dtype == "auto" else settings.dtype
    return (
        "from transformers import AutoModelForCausalLM, AutoTokenizer\n"
        f'model = AutoModelForCausalLM.from_pretrained({json.dumps(model.name)}, dtype="{dtype}", device_map="auto")\n'
        f"model.generate(**inputs, {', '.join(options)})"
    )
