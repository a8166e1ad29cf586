"""How much memory a model's weights take, item by item, and how well each figure is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: exact: read from the checkpoint's own headers. computed: follows from the config by the architecture's arithmetic.
#: estimated: part of the model is not described by its config; the item's source says which.
Confidence = Literal["exact", "computed", "estimated"]
_ORDER: tuple[Confidence, ...] = ("exact", "computed", "estimated")


@dataclass(frozen=True)
class WeightItem:
    """One part of the weights: `params` parameters stored in `bytes` bytes (scales of quantised parts included)."""

    name: str
    params: int
    bytes: int
    confidence: Confidence
    source: str


@dataclass(frozen=True)
class Weights:
    """The weights that a server loads. `extra` are in the checkpoint but loaded only on request (MTP layers)."""

    items: tuple[WeightItem, ...]
    extra: tuple[WeightItem, ...] = ()

    @property
    def params(self) -> int:
        """Parameters loaded, tied embeddings counted once."""
        return sum(item.params for item in self.items)

    @property
    def bytes(self) -> int:
        return sum(item.bytes for item in self.items)

    @property
    def confidence(self) -> Confidence:
        """That of the least certain item."""
        return max((item.confidence for item in self.items), key=_ORDER.index, default="estimated")
