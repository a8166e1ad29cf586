"""What encoding images takes of vLLM's profiling run beyond the decoder's own peak."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.budget_media import largest_item
from planner.budget_terms import Load, Term
from planner.model import Model
from planner.reasons import step
from planner.texts import tell

#: Where a tower's words lie in a config, and what they are called.
_HIDDEN, _FEED = ("hidden_size", "embed_dim", "width"), ("intermediate_size", "mlp_hidden_size")


def image_encoder(model: Model, load: Load, length: int, peak_bytes: int) -> Term | None:
    """The tower's forward pass beyond the decoder's peak; None where the config does not say the tower's widths.

    peak = bytes an element x patches x (3 x hidden + copies x feed / ranks + pixels of a patch), less the decoder's peak

    patches: of all whole items that the budget holds, because the profiling run encodes them in one batch. 3: the residual, its
    norm and a layer's output. copies: 3 of a gated layer, else 2. Both passes come one after the other, so the larger one counts.

    Source: vLLM 0.33.0, v1/worker/gpu_model_runner.py, profile_run; planner.budget_terms.activation_parts for the decoder's form.
    """
    words = model.config.get("vision_config")
    if model.media is None or not isinstance(words, Mapping):
        return None
    hidden, feed = (next((_count(words.get(name)) for name in names if name in words), 0) for names in (_HIDDEN, _FEED))
    each = _patches(model.media.rules.get("image", {}), words)
    item = largest_item(model.media, length)
    if not (hidden and feed and each and item):
        return None
    patches = max(load.tokens, item) // item * item * each
    copies = 3 if words.get("hidden_act") in ("silu", "swiglu") else 2
    side = _count(words.get("patch_size")) or 14
    pixels = 3 * side * side * (_count(words.get("temporal_patch_size")) or 1)
    taken = load.width * patches * (3 * hidden + copies * feed // load.ranks + pixels)
    beyond, most = max(0, taken - peak_bytes), max(0, 2 * taken - peak_bytes)
    tower = step(
        "tower", "{bytes_each} x {patches} x (3 x {hidden} + floor({copies} x {feed} / {ranks}) + {pixels})", taken,
        bytes_each=load.width, patches=patches, hidden=hidden, copies=copies, feed=feed, ranks=load.ranks, pixels=pixels,
    )  # fmt: skip
    rule = step("image_encoder", "max(0, {tower} - {activations})", beyond, tower=taken, activations=peak_bytes)
    return Term("image encoder", beyond, 0, most, "estimated", tell("image_encoder", patches=patches), (tower, rule))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _patches(rule: Mapping[str, Any], words: Mapping[str, Any]) -> int:
    """Patches behind one embedding; 0 where neither the rule nor the sizes say it."""
    merged = _count(rule.get("merge")) or _count(rule.get("pool"))
    if merged:
        return merged * merged
    if rule.get("down"):
        down = float(rule["down"])
        return round(1 / down**2)
    side, patch, tokens = _count(words.get("image_size")), _count(words.get("patch_size")), _count(rule.get("tokens"))
    return (side // patch) ** 2 // tokens if side and patch and tokens else 0
