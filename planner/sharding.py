"""Weights of one rank: how an engine cuts a model's weights over tensor, pipeline, expert and data parallel ranks.

Bytes of a part are the model's own (`planner.weights`); what is here is who holds which share of them. A split that the
description does not settle is taken at its larger reading, is marked `estimated`, and says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from planner.engines import costs, vllm_groups
from planner.errors import EngineRefusal, InputError
from planner.model import Model
from planner.sharding_layers import LayerShape, expert_words, layer_shapes, text_words, vocabulary
from planner.units import ceil_div, round_up
from planner.weights import Weights

TermConfidence = Literal["exact", "documented", "measured", "estimated"]
_RANKED: tuple[TermConfidence, ...] = ("exact", "documented", "measured", "estimated")
_FROM_WEIGHTS: dict[str, TermConfidence] = {"exact": "exact", "computed": "documented", "estimated": "estimated"}
#: Rows that the embedding is padded to on each rank.
VOCABULARY_PADDING = 64
_INPUT, _OUTPUT = ("embeddings",), ("lm_head",)
_DIVIDED = ("encoder",)


@dataclass(frozen=True)
class RankPart:
    """One part of a rank's weights. low and high bound `bytes` where the split is not settled; `why` says what is not."""

    name: str
    bytes: int
    low: int
    high: int
    confidence: TermConfidence
    why: str


@dataclass(frozen=True)
class StageWeights:
    """The weights of one rank of a pipeline stage. layers: the decoder layers that the stage holds."""

    stage: int
    layers: range
    parts: tuple[RankPart, ...]

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts)

    @property
    def low(self) -> int:
        return sum(part.low for part in self.parts)

    @property
    def high(self) -> int:
        return sum(part.high for part in self.parts)

    @property
    def confidence(self) -> TermConfidence:
        return max((part.confidence for part in self.parts), key=_RANKED.index, default="estimated")

    @property
    def why(self) -> str:
        """What is not settled in the split, or where the bytes come from."""
        unsettled = [part.why for part in self.parts if part.confidence == self.confidence]
        return "; ".join(dict.fromkeys(text for text in unsettled if text))


@dataclass(frozen=True)
class RankWeights:
    """Weights by pipeline stage; each stage's ranks hold equal shares. Figures without a stage are the fullest rank's."""

    stages: tuple[StageWeights, ...]

    @property
    def fullest(self) -> StageWeights:
        return max(self.stages, key=lambda stage: stage.bytes)

    @property
    def bytes_by_stage(self) -> tuple[int, ...]:
        return tuple(stage.bytes for stage in self.stages)

    @property
    def bytes(self) -> int:
        return self.fullest.bytes

    @property
    def low(self) -> int:
        return self.fullest.low

    @property
    def high(self) -> int:
        return max(stage.high for stage in self.stages)

    @property
    def confidence(self) -> TermConfidence:
        return self.fullest.confidence

    @property
    def source(self) -> str:
        return self.fullest.why


@dataclass(frozen=True)
class Split:
    """How many ranks share what. experts: ranks that share the experts out, whole ones where `whole_experts`."""

    tensor: int
    pipeline: int
    experts: int
    whole_experts: bool
    engine: str


def weights_per_rank(
    model: Model,
    *,
    tensor_parallel_size: int = 1,
    pipeline_parallel_size: int = 1,
    expert_parallel: bool = False,
    data_parallel_size: int = 1,
    engine: str = "vllm",
) -> RankWeights:
    """The weights that one rank of each pipeline stage holds, in bytes.

    stage = embeddings (first stage; with tied ones the last too) + lm_head (last) + towers (first, counted whole)
          + sum over the stage's layers of (replicated + repeated KV + experts / expert ranks + the rest / tp) + buffers

    replicated: norms, routers, MLA's down-projections, indexers. repeated KV: with more ranks than KV heads each rank holds
    whole heads. expert ranks: tp x dp; with expert parallelism whole experts, ceil(experts / ranks). Embeddings and head:
    rows padded to a multiple of 64 x tp. buffers: the table of rotations of vLLM and SGLang, max positions x rotated width,
    and what MLA keeps a second time of its up-projections.

    Errors: InputError where the weights are not known, EngineRefusal for more stages than layers.
    Source: vLLM 0.33.0, model_executor/layers (linear, vocab_parallel_embedding, fused_moe/config); public logs print
    14.99, 7.51 and 3.77 GiB for Llama-3.1-8B on 1, 2 and 4 ranks, 7.51 and 4.26 on 2 and 4 stages.
    """
    weights = model.weights
    if weights is None or not weights.bytes:
        raise InputError(f"the size of the weights of {model.name} is not known; give it", field="weights")
    ranks = tensor_parallel_size * data_parallel_size
    split = Split(tensor_parallel_size, pipeline_parallel_size, ranks, expert_parallel, engine)
    shapes = layer_shapes(model, engine)
    cuts = pipeline_stages(len(shapes), pipeline_parallel_size, engine)
    outside = _outside(model, weights, split)
    inside = weights.bytes - sum(size for _, size in _shared_out(model, weights).items())
    found = []
    for stage, cut in enumerate(cuts):
        parts = [part for place, part in outside if place == "all" or (place == "first" and stage == 0)
                 or (place == "last" and stage == len(cuts) - 1)]  # fmt: skip
        parts.append(_layers(model, weights, shapes, cut, inside, split))
        parts += _buffers(model, shapes, cut, split)
        found.append(StageWeights(stage, cut, tuple(part for part in parts if part.high)))
    return RankWeights(tuple(found))


def pipeline_stages(layers: int, count: int, engine: str) -> tuple[range, ...]:
    """The decoder layers of each of `count` stages, as `engine` cuts them. EngineRefusal for more stages than layers."""
    if count > max(layers, 1):
        raise EngineRefusal(f"{count} pipeline stages are more than the {layers} layers there are", engine=engine)
    if engine in ("vllm", "transformers", "llama.cpp"):
        return vllm_groups.stages(layers, count)
    return costs.stages(layers, count, "last" if engine == "sglang" else "first")


def _shared_out(model: Model, weights: Weights) -> dict[str, int]:
    """Bytes of everything that is no decoder layer, by part. Of a checkpoint that is one total, embeddings and head by size."""
    named = {item.name: item.bytes for item in weights.items if item.name != "layers"}
    if any(item.name == "layers" for item in weights.items):
        return named
    matrix = min(vocabulary(model) * model.hidden_size * _dtype_bytes(model), weights.bytes // 2)
    return {"embeddings": matrix, **({} if tied(model) else {"lm_head": matrix})}


def tied(model: Model) -> bool:
    """Whether the head is the embedding's own matrix: no lm_head among the items, or the config says so."""
    names = {item.name for item in model.weights.items} if model.weights else set()
    if "layers" in names:
        return "lm_head" not in names
    return bool(model.config.get("tie_word_embeddings", text_words(model).get("tie_word_embeddings", False)))


def _dtype_bytes(model: Model) -> int:
    return 4 if model.dtype == "float32" else 2


Placed = tuple[Literal["first", "last", "all"], RankPart]


def _outside(model: Model, weights: Weights, split: Split) -> list[Placed]:
    """Embeddings, head and towers with the stage that they are on."""
    known = _FROM_WEIGHTS[weights.confidence]
    rows = vocabulary(model)
    found: list[Placed] = []
    for name, size in _shared_out(model, weights).items():
        if name in _INPUT + _OUTPUT:
            padded = round_up(rows, VOCABULARY_PADDING * split.tensor)
            share = ceil_div(size * padded, rows * split.tensor) if rows else size
            part = RankPart(name, share, ceil_div(size, split.tensor), share, known, f"{name}: rows / {split.tensor}")
            found.append(("first" if name in _INPUT else "last", part))
            if name in _INPUT and tied(model) and split.pipeline > 1:
                found.append(("last", RankPart("lm_head", share, 0, share, known, "the tied head's own copy")))
        elif split.tensor == 1 or name in _DIVIDED:
            share = ceil_div(size, split.tensor)
            found.append(("first", RankPart(name, share, share, share, known, name)))
        else:
            why = f"{name}: counted whole on each rank; engines divide some kinds of tower by {split.tensor}"
            found.append(("first", RankPart(name, size, ceil_div(size, split.tensor), size, "estimated", why)))
    return found


def _layers(
    model: Model, weights: Weights, shapes: tuple[LayerShape, ...], cut: range, total: int, split: Split
) -> RankPart:
    """The stage's decoder layers, from the bytes of all of them."""
    known = _FROM_WEIGHTS[weights.confidence]
    own = [shapes[i] for i in cut if i < len(shapes)]
    padding = _mxfp4_padding(model, split) if split.engine == "vllm" else 1.0
    plain = len({(s.dense, s.experts) for s in shapes}) == 1
    low, high = sorted(_share(shapes, own, total, split, width, padding) for width in _widths(model, shapes, total))
    reasons = []
    if not plain and split.pipeline > 1:
        reasons.append("layers differ in size; their bytes are shared out by their shapes")
    if high - low > high // 100:
        reasons.append("the bytes of experts and of all else are not told apart")
    if split.tensor > 1 and not all(s.known for s in own):
        reasons.append("what each rank repeats of recurrent layers is estimated")
    if padding > 1:
        reasons.append(f"mxfp4 experts are padded for the kernel, {padding - 1:.1%} here")
    if reasons:
        return RankPart("layers", high, low, high, "estimated", "; ".join(reasons))
    return RankPart("layers", high, low, high, known, f"layers {cut.start} to {cut.stop - 1} of {len(shapes)}")


def _widths(model: Model, shapes: tuple[LayerShape, ...], total: int) -> tuple[float, float]:
    """Bytes an element of all but the experts, at least and at most: as the average, and as the checkpoint's own dtype."""
    elements = sum(s.dense + s.experts for s in shapes)
    average = total / elements if elements else 0.0
    whole = float(_dtype_bytes(model))
    dense = sum(s.dense for s in shapes)
    if not any(s.experts for s in shapes) or average >= whole or dense * whole > total:
        return average, average
    said = model.config.get("quantization_config")
    method = str(said.get("quant_method")) if isinstance(said, dict) else ""
    return (whole, whole) if method == "mxfp4" else (average, whole)


def _mxfp4_padding(model: Model, split: Split) -> float:
    """How much larger vLLM lays out experts in mxfp4: the model's width in multiples of 256, a rank's feed-forward of 64.

    Source: vLLM 0.33.0, quantization/mxfp4.py; gpt-oss-120b and -20b took 64.38 and 13.47 GiB on an H100 (60.8 and 12.8 stored).
    """
    said = model.config.get("quantization_config")
    mxfp4 = isinstance(said, dict) and said.get("quant_method") == "mxfp4"
    count, _, feed = expert_words(text_words(model), model.hidden_size)
    if not count or not (mxfp4 or model.model_type == "gpt_oss"):
        return 1.0
    share = feed if split.whole_experts else ceil_div(feed, split.experts)
    return round_up(model.hidden_size, 256) / model.hidden_size * round_up(share, 64) / share


def _share(
    shapes: tuple[LayerShape, ...], own: list[LayerShape], total: int, split: Split, width: float, padding: float
) -> int:
    """Bytes of `own` on one rank, with all but the experts `width` bytes an element."""
    experts = sum(s.experts for s in shapes)
    expert_width = (total - width * sum(s.dense for s in shapes)) / experts if experts else 0.0
    size = 0.0
    for shape in own:
        repeated = min(shape.replicated, shape.dense)
        size += width * (repeated + (shape.dense - repeated) / split.tensor + shape.repeated_kv(split.tensor))
        if shape.experts:
            ranks = split.experts
            part = ceil_div(shape.expert_count, ranks) / shape.expert_count if split.whole_experts else 1 / ranks
            size += expert_width * shape.experts * part * padding
    return ceil_div(int(size * 1024), 1024)


def _buffers(model: Model, shapes: tuple[LayerShape, ...], cut: range, split: Split) -> list[RankPart]:
    """What loading adds to the checkpoint: rotations and MLA's absorbed projections, on engines that keep them."""
    if split.engine not in ("vllm", "sglang"):
        return []
    words, found = text_words(model), []
    width = max((shapes[i].rotated for i in cut if i < len(shapes)), default=0)
    positions = int(words.get("max_position_embeddings") or 0)
    if width and positions:
        size = positions * width * _dtype_bytes(model)
        found.append(RankPart("rotations", size, size, 2 * size, "documented", f"rotary table of {positions:,} positions"))
    absorbed = sum(shapes[i].absorbed for i in cut if i < len(shapes))
    if absorbed:
        size = ceil_div(absorbed * 2, split.tensor)
        found.append(RankPart("absorbed projections", size, 0, size, "estimated", "MLA's kv_b kept a second time in bfloat16"))
    return found
