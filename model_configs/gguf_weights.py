"""Bytes and parameters of a GGUF file's tensors, by ggml type: exact, because the header lists every one.

bytes = elements / block x block bytes, summed over the tensors. block and block bytes are those of the `gguf` package's
table (q4_K: 144 bytes for 256 elements).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from model_configs.gguf_header import TensorInfo
from planner.errors import BadContent
from planner.weights import WeightItem, Weights

_BLOCK = re.compile(r"blk\.(\d+)\.")


def weights_of(tensors: Iterable[TensorInfo], trunk: int, origin: str) -> Weights:
    """The weights of a model: one item for each type, and the draft layers (from layer `trunk` on) aside, since they are
    loaded on request only. BadContent for a type that is not known or a row that is not whole blocks.
    """
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    params: Counter[tuple[bool, str]] = Counter()
    sizes: Counter[tuple[bool, str]] = Counter()
    for tensor in tensors:
        try:
            kind = GGMLQuantizationType(tensor.type)
            block, block_bytes = GGML_QUANT_SIZES[kind]
        except (ValueError, KeyError):
            problem = f"{origin} stores {tensor.name[:80]!r} in ggml type {tensor.type}, whose size is not known"
            raise BadContent(problem) from None
        row = tensor.shape[0] if tensor.shape else 1
        if row % block:
            raise BadContent(f"{origin}: rows of {tensor.name[:80]!r} have {row} elements, not whole blocks of {block}")
        layer = _BLOCK.match(tensor.name)
        key = (layer is not None and int(layer[1]) >= trunk, kind.name)
        params[key] += tensor.elements
        sizes[key] += tensor.elements // block * block_bytes
    items = [
        (draft, WeightItem(f"{name} tensors" + (" of the draft layers" if draft else ""), params[draft, name], size, "exact",
                           f"tensor list of {origin}"))
        for (draft, name), size in sorted(sizes.items(), key=lambda pair: -pair[1])
    ]  # fmt: skip
    return Weights(tuple(item for draft, item in items if not draft), tuple(item for draft, item in items if draft))
