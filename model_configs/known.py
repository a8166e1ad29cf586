"""Every model type that the planner knows: the row that answers to it, and the layers that it has.

The layers of a model type are those of its class's own default config; of a type whose code is on the Hub, and which therefore
has no class with defaults, those of its row's known answer.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from model_configs import catalogue
from model_configs.build import Builder
from model_configs.decoder import canonical_type, decoder
from model_configs.families import Family, table
from planner.errors import PlannerError
from planner.layers import Layer, LayerCache


@dataclass(frozen=True)
class Known:
    """A model_type: its row, the type of the part that decodes, and its layers; none where no config is at hand."""

    model_type: str
    family: Family
    decoder: str
    layers: tuple[Layer, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of its layers, each once, in layer order."""
        return tuple(dict.fromkeys(layer.kind for layer in self.layers))

    @property
    def caches(self) -> frozenset[type[LayerCache]]:
        """Classes of the caches that its layers keep."""
        return frozenset(type(cache) for layer in self.layers for cache in layer.caches)


@functools.cache
def types() -> tuple[Known, ...]:
    """All model types by name: rows, wrappers whose decoder a row answers to, and other spellings."""
    names = {*table().by_type, *table().composites, *table().spellings}
    return tuple(_known(name) for name in sorted(names, key=str.lower))


def _known(name: str) -> Known:
    canonical = canonical_type(name) or name
    composite = table().composites.get(canonical)
    inner = composite.decoder if composite else canonical
    family = table().by_type[inner]
    for config in ({"model_type": name}, {**family.proof.get("config", {}), "model_type": name}, family.proof.get("config", {})):
        try:
            words = decoder(config)
            found = table().by_type[words.model_type]
            return Known(name, family, inner, Builder(found, words, bool(composite and composite.cross)).build())
        except PlannerError:
            continue
    return Known(name, family, inner, ())


@functools.cache
def models() -> tuple[tuple[str, tuple[Layer, ...]], ...]:
    """The catalogue's models by id, each with the architecture's layers."""
    found = []
    for entry in catalogue.entries():
        words = decoder(entry.config)
        composite = table().composites.get(canonical_type(entry.config.get("model_type")) or "")
        cross = bool(composite and composite.cross)
        found.append((entry.id, Builder(table().by_type[words.model_type], words, cross).build()))
    return tuple(found)
