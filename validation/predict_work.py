"""Working memory of a forward pass: what activations, masks and repeated keys take above weights and cache.

Modelled for decoders of full and sliding attention with a gated feed-forward (`MODELLED`), where it is held to 5%; for
other layers (experts, latent attention, recurrent scans) the same formula is an estimate and decides nothing.

feed-forward = tokens x e x (3 x intermediate + 4 x hidden): gate, up and their product; the layer's input, residual,
               norm, and the embeddings, which transformers keeps to the end
rotation     = tokens x e x (4 x query + keys and values + 3 x hidden): turning a vector makes copies of it
kernel       = tokens x e x (2 x query + keys and values + 3 x hidden) + mask x e + repeated + expanded
mask         = requests x tokens x keys x 1 byte for each kind of layer that needs one (a window that is passed, an
               unfinished prompt); the kernel reads it in the keys' dtype
repeated     = 2 x requests x keys x query x e where grouped keys meet a mask, or the eager kernel (one head is a view)
scores       = 3 x requests x heads x tokens x keys x e with the eager kernel, which keeps them all
expanded     = requests x keys x heads x (3 x key + 2 x value) x e where a latent is expanded to attend

Source: the modules of transformers 5.24, followed tensor by tensor on the CPU (tests/validation/test_predict_work.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.layers import Full, Latent
from planner.model import Model
from planner.sharding_layers import expert_words, number, text_words, vocabulary

#: Types whose feed-forward is one gated block and whose formula above is held to measurement.
MODELLED = ("llama", "mistral", "qwen2", "qwen3", "gemma3_text")
#: Activations that are written out in elementwise operations, each of which makes a copy, as multiples of the width.
_COPIES = {"gelu_new": 4, "gelu_fast": 4, "quick_gelu": 3}


@dataclass(frozen=True)
class Work:
    """The widths that a forward pass works in, in elements a token, and bytes an element."""

    hidden: int
    feed: int
    heads: int
    kv_heads: int
    head_dim: int
    expanded: int
    vocabulary: int
    width: int
    windows: tuple[int, ...]
    full: bool
    known: bool

    def prefill(self, batch: int, prompt: int, chunk: int | None, attention: str) -> int:
        """Bytes while the last part of the prompt goes through a layer: the larger of its two halves."""
        part = min(prompt, chunk or prompt)
        whole = part == prompt
        masked = [prompt if whole else min(prompt, window - 1 + part) for window in self.windows if window <= prompt]
        if self.full and (not whole or attention == "eager"):
            masked.append(prompt)
        return self._pass(batch, part, masked, prompt, attention)

    def decode(self, batch: int, tokens: int, attention: str) -> int:
        """Bytes of one step: keys that the eager kernel repeats or a latent layer expands, and the logits of its token."""
        masked = [min(tokens, window) for window in self.windows if window <= tokens]
        if self.full and attention == "eager":
            masked.append(tokens)
        logits = batch * self.vocabulary * (self.width + 2 * 4)
        return self._pass(batch, 1, masked, tokens, attention) + logits

    def _pass(self, batch: int, part: int, masked: list[int], keys: int, attention: str) -> int:
        """`masked`: the keys that each kind of masked layer attends to. `keys`: all that there are."""
        tokens, e = batch * part, self.width
        query, both = self.heads * self.head_dim, 2 * self.kv_heads * self.head_dim
        masks, longest = batch * part * sum(masked), max(masked, default=0)
        feed = tokens * e * (self.feed + 4 * self.hidden)
        rotation = tokens * e * (4 * query + both + 3 * self.hidden)
        kernel = tokens * e * (2 * query + both + 3 * self.hidden) + batch * part * longest * e
        kernel += batch * keys * self.expanded * e
        if attention == "eager":
            kernel += 3 * self.heads * batch * part * longest * e
        if longest and 1 < self.kv_heads < self.heads and (part > 1 or attention == "eager"):
            kernel += 2 * batch * longest * query * e
        return masks + max(feed, rotation, kernel)


def work_of(model: Model, width: int) -> Work:
    """The widths of a model, `width` bytes an element."""
    words = text_words(model)
    hidden = model.hidden_size or number(words, ("hidden_size", "d_model", "n_embd"), 1)
    experts, active, feed = expert_words(words, hidden)
    caches = [cache for layer in model.layers for cache in layer.caches]
    plain = [cache for cache in caches if isinstance(cache, Full)]
    latent = [cache.expanded for cache in caches if isinstance(cache, Latent) and cache.expanded]
    heads = max(model.attention_heads, 1)
    dims = [max(cache.k_dim, cache.v_dim) for cache in plain] + [key for _, key, _ in latent]
    named = (words.get(name) for name in ("hidden_act", "hidden_activation", "activation_function"))
    activation = next((str(value) for value in named if value), "")
    return Work(
        hidden=hidden,
        feed=_COPIES.get(activation, 3) * feed * (active if experts else 1),
        heads=heads,
        kv_heads=max([cache.kv_heads for cache in plain], default=heads),
        head_dim=max(dims, default=hidden // heads),
        expanded=max([count * (3 * key + 2 * value) for count, key, value in latent], default=0),
        vocabulary=vocabulary(model),
        width=width,
        windows=tuple(sorted({cache.window for cache in caches if cache.window is not None})),
        full=any(cache.window is None for cache in plain),
        known=words.get("model_type") in MODELLED,
    )
