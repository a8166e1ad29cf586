"""The sizes of recurrent states, by style of recurrence, from the words that a family's row names.

Each style gives the state tensors of one layer and one request. B is left out; convolutions keep their whole kernel.
Recurrent matrices are float32 also in a bfloat16 model unless the style says otherwise.

Source: state shapes measured in transformers 5.24 caches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from model_configs.schedules import pick, word_of
from model_configs.words import Words, share, whole
from planner.errors import ConfigError, shown
from planner.layers import State, Tensor
from planner.units import round_up


@dataclass(frozen=True)
class Sizes:
    """The sizes that a row's `state` entry names, looked up in the config; `width` counts the attention heads' shape."""

    words: Words
    names: Mapping[str, Any]
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int

    def has(self, name: str) -> bool:
        return pick(self.words, self.names.get(name)) is not None

    def number(self, name: str) -> int:
        """A size that the state cannot do without. ConfigError naming its word when it is absent or not a whole number."""
        return whole(pick(self.words, self.names.get(name)), self.word(name), self.words.model_type)

    def word(self, name: str) -> str:
        return word_of(self.names.get(name, name))


def _matrix(*shape: int) -> Tensor:
    return Tensor("recurrent state", shape, "float32")


def _conv(channels: int, kernel: int) -> Tensor:
    return Tensor("convolution state", (channels, kernel))


def mamba1(s: Sizes) -> list[Tensor]:
    """conv [inner, kernel] in the model's dtype, recurrent [inner, state] float32; inner is given, else expand x hidden."""
    inner = s.number("inner") if s.has("inner") else s.number("expand") * s.hidden
    return [_conv(inner, s.number("conv")), _matrix(inner, s.number("size"))]


def zamba1(s: Sizes) -> list[Tensor]:
    """Mamba 1 in heads: recurrent [heads, inner / heads, state]."""
    inner, heads = s.number("expand") * s.hidden, s.number("heads")
    return [_conv(inner, s.number("conv")), _matrix(heads, share(inner, heads, s.word("heads")), s.number("size"))]


def mamba2(s: Sizes) -> list[Tensor]:
    """conv [inner + 2 x groups x state, kernel], recurrent [heads, head_dim, state] float32.

    inner is given (mamba_d_ssm), else expand x hidden, else heads x head_dim; head_dim "auto" is inner / heads.
    """
    heads, size = s.number("heads"), s.number("size")
    if s.has("inner"):
        inner = s.number("inner")
    else:
        inner = s.number("expand") * s.hidden if "expand" in s.names else heads * s.number("head_dim")
    auto = pick(s.words, s.names.get("head_dim")) in (None, "auto")
    head_dim = share(inner, heads, s.word("heads")) if auto else s.number("head_dim")
    return [_conv(inner + 2 * s.number("groups") * size, s.number("conv")), _matrix(heads, head_dim, size)]


def gated_delta_net(s: Sizes) -> list[Tensor]:
    """conv [2 x k_heads x k_dim + v_heads x v_dim, kernel], recurrent [v_heads, k_dim, v_dim] float32.

    OLMo hybrid leaves the sizes out: the attention's heads, keys of 3/4 of a head, values twice as wide.
    """
    w = s.words
    k_heads = w.number("linear_num_key_heads", default=s.heads)
    v_heads = w.number("linear_num_value_heads", default=s.heads)
    k_dim = w.number("linear_key_head_dim", default=int(0.75 * s.hidden / k_heads))
    v_dim = w.number("linear_value_head_dim", default=2 * k_dim)
    return [_conv(2 * k_heads * k_dim + v_heads * v_dim, w.number("linear_conv_kernel_dim")), _matrix(v_heads, k_dim, v_dim)]


def kimi_delta(s: Sizes) -> list[Tensor]:
    """conv [3 x heads x dim, kernel], recurrent [heads, dim, dim] float32."""
    heads, dim = s.number("heads"), s.number("head_dim")
    return [_conv(3 * heads * dim, s.number("conv")), _matrix(heads, dim, dim)]


def short_conv(s: Sizes) -> list[Tensor]:
    """conv [hidden, kernel] and nothing else (LFM2)."""
    return [_conv(s.hidden, s.number("conv"))]


def zaya(s: Sizes) -> list[Tensor]:
    """conv [(heads + kv_heads) x head_dim, time0 + time1 - 2] and [kv_heads x head_dim / 2], both in the model's dtype."""
    kernel = whole(s.words.number("cca_time0") + s.words.number("cca_time1") - 2, "cca_time0 + cca_time1 - 2", "zaya", 0)
    return [
        _conv((s.heads + s.kv_heads) * s.head_dim, kernel),
        Tensor("recurrent state", (s.kv_heads * s.head_dim // 2,)),
    ]


def inkling(s: Sizes) -> list[Tensor]:
    """Four short convolutions, float32: two over the KV heads, two over the hidden width."""
    kernel, narrow = s.number("conv"), s.kv_heads * s.head_dim
    return [Tensor("convolution state", (width, kernel), "float32") for width in (narrow, narrow, s.hidden, s.hidden)]


def minimax(s: Sizes) -> list[Tensor]:
    """One matrix [heads, head_dim, head_dim] in the model's dtype, no convolution."""
    return [Tensor("recurrent state", (s.heads, s.head_dim, s.head_dim))]


def rwkv4(s: Sizes) -> list[Tensor]:
    """Two shifted hidden vectors in the model's dtype, three attention accumulators in float32."""
    attention = s.words.number("attention_hidden_size", default=s.hidden)
    return [Tensor("shift", (2, s.hidden)), Tensor("accumulators", (3, attention), "float32")]


def rwkv5(s: Sizes) -> list[Tensor]:
    """Two shifted hidden vectors in the model's dtype, one float32 matrix [heads, head_size, head_size]."""
    size = s.words.number("head_size", default=64)
    return [Tensor("shift", (2, s.hidden)), _matrix(share(s.hidden, size, "head_size"), size, size)]


def xlstm(s: Sizes) -> list[Tensor]:
    """C [heads, qk, v], n [heads, qk], m [heads, 1] in the model's dtype; qk and v widths rounded up to 64 in all."""
    heads, widths = s.words.number("num_heads"), []
    for name, default in (("qk_dim_factor", 0.5), ("v_dim_factor", 1.0)):
        factor = s.words.first(name)
        factor = default if factor is None else factor
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor <= 1024:
            raise ConfigError(f"{name} is {shown(factor)}; it must be a number above 0", field=name, value=factor)
        widths.append(share(round_up(int(s.hidden * factor), 64), heads, name))
    qk, v = widths
    return [Tensor("C", (heads, qk, v)), Tensor("n", (heads, qk)), Tensor("m", (heads, 1))]


STYLES: dict[str, Callable[[Sizes], list[Tensor]]] = {
    "mamba1": mamba1, "zamba1": zamba1, "mamba2": mamba2, "gated_delta_net": gated_delta_net, "kimi_delta": kimi_delta,
    "lightning": kimi_delta, "short_conv": short_conv, "zaya": zaya, "inkling": inkling, "minimax": minimax,
    "rwkv4": rwkv4, "rwkv5": rwkv5, "xlstm": xlstm,
}  # fmt: skip

#: The styles whose sizes follow the attention's head counts and widths.
STYLES_OF_ATTENTION = frozenset({"gated_delta_net", "lightning", "zaya", "inkling", "minimax"})


def state_of(sizes: Sizes) -> State:
    """The state cache of one layer, by the style that its row names."""
    style = sizes.names["style"]
    return State(style, tuple(STYLES[style](sizes)))
