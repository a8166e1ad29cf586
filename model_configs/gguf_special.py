"""What a few GGUF architectures do to their layers that the table cannot say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from model_configs.gguf_layers import Hparams
from model_configs.gguf_words import MAX_LAYERS
from planner.errors import ConfigError
from planner.layers import Compressed, Full, IndexKeys, Layer, Sliding, State, Tensor

Layers = tuple[Layer, ...]
#: GLM-5.2's context: a file without indexer.types is an older GLM-5, whose layers all own one, unless it is this long.
_GLM_52_CONTEXT = 1_048_576


def loops(h: Hparams, layers: Layers) -> Layers:
    """Nanbeige: num_loops passes over the same weights, each with caches of its own."""
    times = h.words.number("num_loops", 1, minimum=1)
    if len(layers) * times > MAX_LAYERS:
        raise ConfigError(f"num_loops makes {len(layers) * times} layers of {len(layers)}", field="num_loops")
    return layers * times


def router(h: Hparams, layers: Layers) -> Layers:
    """Granite switch: one more attention layer with a single KV head, which routes the adapters."""
    return (*layers, Layer((Full(1, h.k_dim, h.v_dim),)))


def glm_dsa(h: Hparams, layers: Layers) -> Layers:
    """GLM-5.2 shares indexers by a fixed pattern where the file has no indexer.types: layers 0, 1, 2, then each fourth."""
    if h.words.get("attention.indexer.types") is not None or h.words.number("context_length", 0) < _GLM_52_CONTEXT:
        return layers
    without = [replace(layer, caches=tuple(c for c in layer.caches if not isinstance(c, IndexKeys))) for layer in layers]
    return tuple(layer if i < 2 or (i - 2) % 4 == 0 else without[i] for i, layer in enumerate(layers))


def deepseek4(h: Hparams, layers: Layers) -> Layers:
    """DeepSeek-V4: layers with ratio 4 or 128 keep compressed entries beside the window, ratio 4 index keys as well.

    The raw window is kept for appended draft layers too, which compress nothing.
    """
    words = h.words
    ratios = words.get("attention.compress_ratios")
    if not isinstance(ratios, list | tuple) or len(ratios) < h.depth:
        raise ConfigError(f"{words.key('attention.compress_ratios')} must give the ratio of each of {h.depth} layers",
                          field=words.key("attention.compress_ratios"))  # fmt: skip
    index = words.number("attention.indexer.key_length", minimum=1)
    found = []
    for i in range(h.depth):
        window = h.window or 0
        raw = Sliding(h.kv_heads[i], h.k_dim_swa, h.v_dim_swa, window=window)
        if i < h.trunk and ratios[i] in (4, 128):
            indexed = index if ratios[i] == 4 else None
            found.append(Layer((Compressed(raw.kv_heads * raw.k_dim, ratios[i], indexed, window=window),)))
        else:
            found.append(Layer((raw,)))
    return tuple(found)


def per_layer_embeddings(h: Hparams, layers: Layers) -> Layers:
    """Qwen4: a layer with per-layer embeddings keeps the history of a dilated convolution over n-grams."""
    numbered = h.words.get("ple.layers")
    if not numbered:
        return layers
    if not isinstance(numbered, list | tuple) or not all(isinstance(i, int) and 0 <= i < h.depth for i in numbered):
        raise ConfigError(f"{h.words.key('ple.layers')} must name layers from 0 to {h.depth - 1}", field="ple.layers")
    words = h.words
    ngram, kernel = words.number("ple.ngram_size", minimum=2), words.number("ple.conv_kernel", minimum=1)
    width = words.number("hyper_connection.count", minimum=1) * words.number("embedding_length", minimum=1)
    extra = State("per_layer_embedding", (Tensor("convolution state", (width, (kernel - 1) * ngram)),))
    return tuple(replace(x, caches=(*x.caches, extra)) if i in numbered else x for i, x in enumerate(layers))


FINISH: dict[str, Callable[[Hparams, Layers], Layers]] = {
    f.__name__: f for f in (loops, router, glm_dsa, deepseek4, per_layer_embeddings)
}
