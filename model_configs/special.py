"""Rules that are really code: what a few families do to their layers after the table has built them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from model_configs.schedules import pick
from model_configs.words import Words, share, whole
from planner.errors import ConfigError
from planner.layers import Compressed, Cross, Full, Hidden, IndexKeys, Latent, Layer, Sliding, State, Tensor

Layers = tuple[Layer, ...]


def check_depth(depth: int, name: str) -> int:
    """A number of layers that a model can have. ConfigError above 10,000."""
    if depth > 10_000:
        raise ConfigError(f"{name} makes {depth:,} layers; no model has that many", field=name, value=depth)
    return depth


def _repeated(layers: Layers, block: Layers, times: int, name: str) -> Layers:
    check_depth(len(layers) + len(block) * times, name)  # before anything that large is made
    return layers + block * times


def image_cross_layers(words: Words, layers: Layers) -> Layers:
    """Mllama: the layers in cross_attention_layers keep the images' positions instead of the text's."""
    if words.model_type != "mllama_text_model":
        return layers
    usual = list(range(3, 40, 5))  # the class's own, which a shorter model keeps whole
    given = words.get("cross_attention_layers")
    cross = set(usual) if given in (None, usual) else words.indices("cross_attention_layers", len(layers)) or set()
    return tuple(
        replace(layer, caches=tuple(Cross(c.kv_heads, c.k_dim, c.v_dim) for c in layer.caches if isinstance(c, Full)))
        if i in cross
        else layer
        for i, layer in enumerate(layers)
    )


def openelm(words: Words, layers: Layers) -> Layers:
    """OpenELM: each layer has its own number of KV heads."""
    heads = [whole(count, "num_kv_heads", words.model_type) for count in words.numbers("num_kv_heads") or ()]
    if len(heads) != len(layers):
        raise ConfigError(f"num_kv_heads must list one number for each of {len(layers)} layers", field="num_kv_heads")
    return tuple(layer.with_kv_heads(count) for layer, count in zip(layers, heads, strict=True))


def nemotron_nas(words: Words, layers: Layers) -> Layers:
    """Blocks found by architecture search: attention kept with its own group size, dropped, or replaced by a linear map."""
    blocks = words.numbers("block_configs") or []
    if len(blocks) != len(layers):
        raise ConfigError(f"block_configs must describe each of {len(layers)} layers", field="block_configs")
    heads, found = words.number("num_attention_heads"), []
    for layer, block in zip(layers, blocks, strict=True):
        attention = block.get("attention") if isinstance(block, dict) else None
        if not isinstance(attention, dict):
            raise ConfigError("each entry of block_configs must describe its attention", field="block_configs")
        group = attention.get("n_heads_in_group")
        if attention.get("no_op") or attention.get("replace_with_linear"):
            found.append(Layer())
        elif isinstance(group, bool) or not isinstance(group, int) or group < 1:
            raise ConfigError("a block keeps attention but does not say n_heads_in_group", field="block_configs")
        else:
            kept = layer.with_kv_heads(share(heads, group, "num_attention_heads / n_heads_in_group"))
            if attention.get("window_length"):
                window = whole(attention["window_length"], "window_length", words.model_type)
                full = [c for c in kept.caches if isinstance(c, Full)]
                kept = Layer(tuple(Sliding(c.kv_heads, c.k_dim, c.v_dim, window=window) for c in full))
            found.append(kept)
    return tuple(found)


def cross_layer_attention(words: Words, layers: Layers) -> Layers:
    """Hunyuan-Large: of every cla_share_factor layers the first keeps a cache and the others read it."""
    factor = words.number("cla_share_factor", default=1) if words.flag("use_cla") else 1
    return tuple(layer if i % factor == 0 else Layer(shares=i - i % factor) for i, layer in enumerate(layers))


def dory(words: Words, layers: Layers) -> Layers:
    """A block of layers runs several times, and each pass but the first has caches of its own, after all others.

    A file that lists "mlp" in every second place counts attention and MLP blocks apart: half of each count is layers.
    """
    lists = words.numbers("layer_types") or []
    step = 2 if "mlp" in lists else 1
    layers = tuple(layer for layer in layers if layer.kind != "none") if step == 2 else layers
    first, last = (words.number(name, minimum=0, default=8) // step for name in ("n_input_layers", "n_output_layers"))
    rest = max(0, len(layers) - first - last) * step
    middle = words.number("n_recurrent_layers", minimum=0, default=rest) // step
    if first + middle > len(layers):
        raise ConfigError(f"n_recurrent_layers ends at layer {first + middle} of {len(layers)}", field="n_recurrent_layers")
    if words.get("recurrent_kv_cache_mode") == "last_loop":
        return layers
    loops = words.number("n_recurrent_loops", default=2)
    return _repeated(layers, layers[first : first + middle], loops - 1, "n_recurrent_loops")


def hrm_text(words: Words, layers: Layers) -> Layers:
    """Two stacks that take turns: H_cycles x (L_cycles + 1) passes, each with caches of its own."""
    passes = words.number("H_cycles") * (words.number("L_cycles") + 1)
    return _repeated(layers, layers, passes - 1, "H_cycles x (L_cycles + 1)")


def inkling_loop(words: Words, layers: Layers) -> Layers:
    """The looped variant runs a range of layers loop_num_passes times; the later passes' caches come last."""
    if words.model_type != "inkling2_loop_text":
        return layers

    def number(nested: str, flat: str, minimum: int) -> int:
        return whole(pick(words, [f"loop_config.{nested}", flat]), flat, words.model_type, minimum)

    start, end = number("core_start", "loop_layer_index_start", 0), number("core_end", "loop_layer_index_end", 0)
    passes = number("num_passes", "loop_num_passes", 1)
    usual = words.declared.get("loop_layer_index_end")  # which a shorter model keeps
    if not start <= end or (end > len(layers) and end != usual):
        raise ConfigError(f"loop_layer_index_end is {end}, after {start}, of {len(layers)} layers", field="loop_layer_index_end")
    return _repeated(layers, layers[start:end], passes - 1, "loop_num_passes")


def mistral_large4(words: Words, layers: Layers) -> Layers:
    """Layers without rope cache no rotated key; a layer whose kv_source is another one keeps only its index keys."""
    rope, sources = words.flags("no_rope_layers", len(layers)), words.numbers("kv_source_layers")
    if sources and not (
        len(sources) >= len(layers) and all(isinstance(j, int) and 0 <= j <= i and sources[j] == j for i, j in enumerate(sources))
    ):
        raise ConfigError("kv_source_layers must name, for each layer, itself or an earlier layer", field="kv_source_layers")
    found = []
    for i, layer in enumerate(layers):
        caches = layer.caches
        if not rope[i] if rope else (i + 1) % 4 == 0:
            caches = tuple(replace(c, qk_rope_head_dim=0) if isinstance(c, Latent) else c for c in caches)
        shares = None
        if sources and sources[i] != i:
            caches, shares = tuple(c for c in caches if isinstance(c, IndexKeys)), sources[i]
        found.append(Layer(caches, shares))
    return tuple(found)


def per_layer_embeddings(words: Words, layers: Layers) -> Layers:
    """Qwen4: layers with per-layer embeddings (numbered from 1) add a convolution state and an n-gram context."""
    numbered = words.indices("ple_layer_ids", len(layers), first=1)
    if not numbered:
        return layers
    ngram = words.number("ngram_size")
    width = words.number("hidden_size") * words.number("hc_count")
    extra = State(
        "per_layer_embedding",
        (
            Tensor("convolution state", (width, (words.number("ple_conv_kernel_size") - 1) * ngram)),
            Tensor("n-gram context", (ngram - 1,), "int64"),
        ),
    )
    return tuple(replace(x, caches=(*x.caches, extra)) if i in numbered else x for i, x in enumerate(layers))


def deepseek_v4(words: Words, layers: Layers) -> Layers:
    """Compressed layers by their rate; layers that only slide keep keys and values apart, one head of head_dim."""
    width, window = words.number("head_dim"), words.number("sliding_window")
    if not isinstance(words.get("compress_rates") or {}, dict):
        raise ConfigError("compress_rates must map layer kinds to rates", field="compress_rates")
    csa, hca = (
        whole(rate, f"compress_rates.{name}", words.model_type)
        for name, default in (("compressed_sparse_attention", 4), ("heavily_compressed_attention", 128))
        for rate in [pick(words, [f"compress_rates.{name}", default])]
    )
    index = words.number("index_head_dim", default=128)
    found = []
    for layer in layers:
        rate = layer.caches[0].rate if layer.caches and isinstance(layer.caches[0], Compressed) else 0
        if rate == 0:
            found.append(Layer((Sliding(1, width, width, window=window),)))
        elif rate == 4:
            found.append(Layer((Compressed(width, csa, index, window=window),)))
        else:
            found.append(Layer((Compressed(width, hca, window=window),)))
    return tuple(found)


def xlnet(words: Words, layers: Layers) -> Layers:
    """Hidden states of each layer instead of keys and values."""
    return tuple(Layer((Hidden(words.number("d_model")),)) for _ in layers)


def reformer(words: Words, layers: Layers) -> Layers:
    """Hidden states, and for LSH layers the bucket of each position, head and hash once a chunk is full."""
    width, buckets = words.number("hidden_size"), words.number("num_attention_heads") * words.number("num_hashes")
    chunk = words.number("lsh_attn_chunk_length")
    kinds = words.numbers("attn_layers") or []
    return tuple(Layer((Hidden(width, buckets, chunk) if kind == "lsh" else Hidden(width),)) for kind in kinds)


def xlstm(words: Words, layers: Layers) -> Layers:
    """One int64 sequence offset for the whole model, kept with the first layer."""
    offset = State("offset", (Tensor("sequence offset", (1,), "int64", batched=False),))
    return tuple(replace(x, caches=(*x.caches, offset)) if i == 0 else x for i, x in enumerate(layers))


FINISH: dict[str, Callable[[Words, Layers], Layers]] = {
    f.__name__: f
    for f in (
        image_cross_layers, openelm, nemotron_nas, cross_layer_attention, dory, hrm_text,
        inkling_loop, mistral_large4, per_layer_embeddings, deepseek_v4, xlnet, reformer, xlstm,
    )
}  # fmt: skip
