"""A described model: what it is, its layers, its weights, and where each of these came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from planner.layers import Layer
from planner.weights import Weights


@dataclass(frozen=True)
class Source:
    """Where a model's description came from. `commit` pins a Hub revision; `date` says when a catalogue entry was read."""

    kind: Literal["hub", "path", "catalogue", "dict"]
    name: str
    revision: str | None = None
    commit: str | None = None
    date: str | None = None

    def __str__(self) -> str:
        pin = self.commit or self.revision or self.date
        return f"{self.kind}:{self.name}" + (f"@{pin}" if pin else "")


@dataclass(frozen=True)
class Media:
    """What a model takes beside text, by its family's rule.

    name: the family's. rules: by kind of input (image, video, audio) the rule and its numbers. largest: by kind, embeddings
    of the largest item, 0 where it has no end. copies: vectors of the decoder's width that one embedding has.
    """

    name: str
    rules: Mapping[str, Mapping[str, Any]]
    largest: Mapping[str, int]
    copies: int = 1
    source: str = ""


@dataclass(frozen=True)
class Model:
    """A model as the planner sees it: a tuple of layers, each with its kinds of cache, plus identity and weights.

    layers: in cache order, the architecture's view, which is that of transformers. engine_layers: the view of an engine
    that reads the same config differently, by engine name. dtype: the checkpoint's own, the default of caches.
    max_context: positions the config allows, None where it states no limit. cache_rules: what transformers does with
    this model's cache that others don't have (a refused implementation with its reason, or a cache class of its own).
    config: the whole config that it was read from, for the words that only an engine's own rules ask for.
    media: how it takes images, video and audio, None where it takes none or the family's rule is not known.
    assumption: set when the person asked to treat an unknown architecture as plain attention.
    """

    name: str
    model_type: str
    layers: tuple[Layer, ...]
    source: Source
    dtype: str = "bfloat16"
    max_context: int | None = None
    hidden_size: int = 0
    attention_heads: int = 0
    architecture: str | None = None
    weights: Weights | None = None
    engine_layers: Mapping[str, tuple[Layer, ...]] = field(default_factory=dict)
    cache_rules: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    assumption: str | None = None
    notes: tuple[str, ...] = ()
    media: Media | None = field(default=None, compare=False)

    def layers_for(self, engine: str) -> tuple[Layer, ...]:
        """The layers as `engine` reads them: its own view where it has one, else the architecture's."""
        return self.engine_layers.get(engine, self.layers)

    @property
    def params(self) -> int | None:
        return self.weights.params if self.weights else None

    @property
    def weight_bytes(self) -> int | None:
        return self.weights.bytes if self.weights else None

    @property
    def weights_confidence(self) -> str:
        """exact, computed or estimated; unknown without weights."""
        return self.weights.confidence if self.weights else "unknown"

    @property
    def kinds(self) -> dict[str, int]:
        """How many layers there are of each kind, in order of first appearance."""
        counts: dict[str, int] = {}
        for layer in self.layers:
            counts[layer.kind] = counts.get(layer.kind, 0) + 1
        return counts

    def with_kv_heads(self, kv_heads: int) -> Model:
        """The same model with another number of KV heads in every layer that has them (its MHA, GQA or MQA twin)."""
        return replace(
            self, layers=tuple(layer.with_kv_heads(kv_heads) for layer in self.layers), engine_layers={}
        )
