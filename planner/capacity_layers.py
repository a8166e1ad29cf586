"""llama.cpp and transformers over several GPUs: whole layers on each, by how much memory each has."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from planner.budget_terms import Confidence, Term
from planner.engines import llama_cpp, transformers
from planner.hardware import Gpu
from planner.model import Model
from planner.reasons import step
from planner.sharding import weights_per_rank
from planner.texts import tell
from planner.units import ceil_div


def layer_parts(layers: int, cards: Sequence[Gpu]) -> tuple[tuple[int, ...], ...]:
    """The layers on each card: layer i of L goes where i / (L + 1) falls among the cards' cumulative shares of memory.

    The output counts as layer L. Source: llama.cpp, src/llama-model.cpp, load_tensors: splits by free memory.
    """
    ends = list(accumulate(card.usable_bytes for card in cards))
    # In whole numbers, so that equal cards share evenly: i / (L + 1) < end / total.
    found: list[list[int]] = [[] for _ in cards]
    for layer in range(layers):
        found[min(bisect_right([end * (layers + 1) for end in ends], layer * ends[-1]), len(cards) - 1)].append(layer)
    return tuple(tuple(part) for part in found)


def weights_by_card(model: Model, engine: str, parts: Sequence[Sequence[int]]) -> tuple[Term, ...]:
    """Weights on each card: its share of the layers, the input on the first and the output on the last, at their larger reading.

    llama.cpp keeps the input embeddings in host memory where they are not the output too; they are counted all the same.
    Errors: InputError where the weights are not known.
    """
    whole = weights_per_rank(model, engine=engine).fullest
    layers = sum(part.high for part in whole.parts if part.name == "layers")
    output = [part.high for part in whole.parts if part.name == "lm_head"]
    inside = sum(part.high for part in whole.parts if part.name not in ("layers", "lm_head"))
    matrix = output or [part.high for part in whole.parts if part.name == "embeddings"]
    count, last = max(1, sum(len(part) for part in parts)), len(parts) - 1
    found = []
    for place, part in enumerate(parts):
        first_bytes = inside if place == 0 else 0
        last_bytes = sum(matrix) if place == last and (last > 0 or output) else 0
        size = ceil_div(layers * len(part), count) + first_bytes + last_bytes
        rule = "ceil({layers} x {layers_here} / {all_layers})" + " + {embeddings_and_rest}" * bool(first_bytes)
        formula = (step(
            "weights", rule + " + {output}" * bool(last_bytes), size, layers=layers, layers_here=len(part), all_layers=count,
            embeddings_and_rest=first_bytes, output=last_bytes,
        ),)  # fmt: skip
        why = tell("weights.card", here=len(part), all=count)
        found.append(Term("weights", size, size, size, _least_sure(whole.confidence), why, formula))
    return tuple(found)


def _least_sure(confidence: Confidence) -> Confidence:
    """Whole layers are counted alike, so that no share is exact."""
    return "documented" if confidence == "exact" else confidence


def layer_sizes(
    model: Model, engine: str, settings: llama_cpp.Settings | transformers.Settings, length: int, sequences: int, encoder: int
) -> tuple[int, ...]:
    """Bytes that each layer allocates for this many sequences of this length.

    llama.cpp: with n_ctx of all sequences together. transformers: the storage behind the tensors.
    """
    if isinstance(settings, llama_cpp.Settings):
        whole = settings.model_copy(update={"n_ctx": length * sequences, "n_seq_max": sequences})
        return tuple(layer.bytes for layer in llama_cpp.cache_bytes(model, whole).layers)
    cache = transformers.cache_bytes(model, settings, length, sequences, encoder)
    return tuple(layer.storage_bytes for layer in cache.layers)
