"""The weights of a model stored as one of llama.cpp's quantised files, where no such file is at hand to count."""

from __future__ import annotations

from dataclasses import replace

from planner.errors import InputError, shown
from planner.model import Model
from planner.texts import tell
from planner.units import ceil_div
from planner.weights import WeightItem, Weights

#: Bits a weight that llama.cpp's own quantiser made of Llama-3.1-8B, scales and wider tensors included.
#: Source: tools/quantize/README.md of llama.cpp.
GGUF_BITS = {
    "IQ2_XXS": 2.3824, "IQ2_XS": 2.5882, "IQ2_M": 2.9294, "IQ3_XXS": 3.2548, "IQ3_M": 3.7628, "IQ4_XS": 4.4597,
    "Q2_K": 3.1593, "Q3_K_S": 3.6429, "Q3_K_M": 3.9960, "Q3_K_L": 4.2979, "Q4_K_S": 4.6672, "Q4_K_M": 4.8944,
    "Q5_K_S": 5.5704, "Q5_K_M": 5.7036, "Q6_K": 6.5633, "Q8_0": 8.5008, "F16": 16.0005, "BF16": 16.0005,
}  # fmt: skip
#: A margin: other models have more of their weights in the tensors that a kind keeps wider (embeddings, values).
_SPREAD = 1.03
#: Parts that llama.cpp keeps in a file of their own, as they are.
_APART = ("vision tower", "projector", "audio tower", "encoder")


def as_gguf(model: Model, kind: str) -> Model:
    """The same model with its weights stored as `kind` ("Q4_K_M"), marked estimated.

    bytes = parameters x bits / 8 x 1.03; towers stay as they are, being a file of their own

    bits: of Llama-3.1-8B in this kind. 1.03: a margin, because shares of wider tensors differ. The file itself, or its GGUF
    header, gives the exact figure. Errors: InputError for an unknown kind, or a model whose parameters are not known.

    Source: GGUF_BITS.
    """
    key = kind.upper().replace("-", "_")
    if key not in GGUF_BITS:
        known = ", ".join(GGUF_BITS)
        raise InputError(f"{shown(kind)} is no GGUF storage that is known here; it is one of {known}", field="weights")
    if model.weights is None or not model.weights.params:
        raise InputError(f"the parameters of {model.name} are not known; give the size of its weights", field="weights")
    items = tuple(_stored(item, key) for item in model.weights.items)
    note = tell("model.gguf_weights", kind=key, bits=GGUF_BITS[key])
    return replace(model, weights=Weights(items), notes=(*model.notes, note))


def _stored(item: WeightItem, key: str) -> WeightItem:
    if item.name in _APART:
        return item
    size = ceil_div(int(item.params * GGUF_BITS[key] * _SPREAD * 1000), 8000)
    source = f"as {key} at {GGUF_BITS[key]:g} bits a weight (Llama-3.1-8B's) + 3%"
    return WeightItem(item.name, item.params, size, "estimated", source)
