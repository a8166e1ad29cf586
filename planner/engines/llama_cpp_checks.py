"""What llama.cpp refuses whatever the memory: each check of llama_init_from_model, in our own words."""

from __future__ import annotations

from planner.engines.llama_cpp_table import NAME, BlockType, Era, architectures
from planner.errors import EngineRefusal
from planner.layers import Compressed, Full, Latent, Layer
from planner.model import Model


def flash_attention(asked: str, era: Era, arch: str, layers: tuple[Layer, ...], v_type: BlockType) -> bool:
    """Whether memory is laid out for flash attention; "auto" is, before anything is known of the backend.

    EngineRefusal for quantised values without it: they would lie transposed, where blocks run across positions.

    Source: src/llama-context.cpp 3816-3850 and 230 at 0c1e57098; src/llama.cpp 9714-9726 at 7841fc723.
    """
    on = asked != "off"
    why = "flash_attn is off"
    if on and architectures().has("flash_attn_off", arch):
        on, why = False, f"llama.cpp switches flash attention off for {arch}"
    if on and era.equal_heads and any(key != value for key, value in head_widths(layers, era)):
        on, why = False, "this version switches flash attention off where keys and values differ in width"
    if v_type.quantized and not on:
        raise EngineRefusal(
            f"llama.cpp stores values in {v_type.name} only with flash attention, and {why}; use f16 values or turn it on",
            engine=NAME,
        )
    return on


def head_widths(layers: tuple[Layer, ...], era: Era) -> set[tuple[int, int]]:
    """(key, value) widths of one head, of every layer that has heads."""
    found = set()
    for layer in layers:
        for cache in layer.caches:
            if isinstance(cache, Full):
                found.add((cache.k_dim, cache.v_dim))
            elif isinstance(cache, Compressed):
                found.add((cache.head_dim, cache.head_dim))
            elif isinstance(cache, Latent) and era.latent == "expanded" and cache.expanded:
                found.add(cache.expanded[1:])
            elif isinstance(cache, Latent):
                found.add((cache.kv_lora_rank + cache.qk_rope_head_dim, cache.kv_lora_rank))
    return found


def check_types(
    model: Model, arch: str, layers: tuple[Layer, ...], era: Era, flash: bool, k_type: BlockType, v_type: BlockType
) -> None:
    """Raise EngineRefusal for cache types that this model cannot have.

    Latent caches have no values of their own, so both types must be the same. With flash attention each head must be whole
    blocks: a head of 80 has no quantised cache.

    Source: src/llama-context.cpp 3835-3871 at 0c1e57098.
    """
    facts = architectures()
    latent = any(isinstance(cache, Latent) for layer in layers for cache in layer.caches)
    if era.same_types and k_type.name != v_type.name and (latent or facts.has("per_sequence_key_only", arch)):
        raise EngineRefusal(
            f"{arch} caches one latent row for keys and values, so llama.cpp wants one type for both;"
            f" cache_type_k is {k_type.name} and cache_type_v {v_type.name}",
            engine=NAME,
        )
    if not era.head_blocks or not flash:
        return
    widths = head_widths(layers, era)
    for what, kind, heads in (
        ("keys", k_type, {key for key, _ in widths}),
        ("values", v_type, checked_values(model, arch, {value for _, value in widths})),
    ):
        wrong = sorted(width for width in heads if width % kind.block)
        if wrong:
            raise EngineRefusal(
                f"llama.cpp stores {kind.name} in blocks of {kind.block}, which do not divide the {what} of {wrong[0]} a head"
                f" that {arch} has here; use f16, or bf16",
                engine=NAME,
            )


def checked_values(model: Model, arch: str, cached: set[int]) -> set[int]:
    """The value widths that llama.cpp looks at: for some architectures one that the file states and nothing caches."""
    if not architectures().has("checked_value_width", arch):
        return cached
    stated = model.config.get(f"{arch}.attention.value_length", model.config.get("head_dim"))
    if not isinstance(stated, int):
        stated = model.hidden_size // model.attention_heads if model.attention_heads else 0
    return {stated}
