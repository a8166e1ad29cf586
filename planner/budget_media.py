"""What an engine keeps of images, video and audio outside its KV cache: the embeddings that wait for the decoder."""

from __future__ import annotations

from planner.budget_terms import Load, Term
from planner.engines.versions import version_key
from planner.model import Media, Model
from planner.reasons import step
from planner.texts import tell

_SOURCE = "vLLM, v1/core/encoder_cache_manager.py, compute_mm_encoder_budget"


def largest_item(media: Media, length: int) -> int:
    """Embeddings of the largest item in a context of `length`, as vLLM's profiling makes it.

    A video of a family whose frames share no limit gets as many groups of frames as the context holds, most_groups at most.
    """
    most, video = max(media.largest.values(), default=0), media.rules.get("video", {})
    group = media.largest.get("video", 0)
    groups: int = min(video.get("most_groups", 1), max(1, length // max(1, group)))
    return max(most, group * groups)


def encoder_cache(model: Model, version: str, load: Load, length: int) -> Term | None:
    """vLLM's encoder cache, from 0.8 on; None for a model that takes nothing but text.

    bytes = max(max_num_batched_tokens, embeddings of the largest item) x hidden x copies x bytes an element, on every rank

    low: whole items of the largest kind, which are what the profiling run fills it with.
    Source: vLLM, v1/core/encoder_cache_manager.py, whose log prints "Encoder cache will be initialized with a budget of"
    16384 tokens for Qwen3.5, and 114688 for Qwen2.5-VL-7B at 128,000.
    """
    media = model.media
    if media is None or version_key(version) < version_key("0.8.0"):
        return None
    item = largest_item(media, length)
    budget, wide = max(load.tokens, item), model.hidden_size * media.copies * load.width
    held = budget // item * item if item else 0
    why = tell("encoder_cache", budget=budget, width=model.hidden_size * media.copies, item=item, source=_SOURCE)
    rule = step(
        "encoder_cache", "max({tokens}, {largest_item}) x {hidden} x {copies} x {bytes_each}", budget * wide, tokens=load.tokens,
        largest_item=item, hidden=model.hidden_size, copies=media.copies, bytes_each=load.width,
    )  # fmt: skip
    return Term("encoder cache", budget * wide, held * wide, budget * wide, "documented", why, (rule,))
