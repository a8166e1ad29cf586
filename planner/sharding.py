"""Weights of one rank: how an engine cuts a model's weights over tensor, pipeline, expert and data parallel ranks.

Bytes of a part are the model's own (`planner.weights`); what is here is who holds which share of them. A split that the
description does not settle is taken at its larger reading, is marked `estimated`, and says why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Literal

from planner.engines import costs, vllm_groups
from planner.errors import EngineRefusal, InputError
from planner.model import Model
from planner.reasons import Formula, Number, identifier, known, step, sum_of
from planner.sharding_layers import LayerShape, expert_words, layer_shapes, text_words, vocabulary
from planner.texts import joined, tell
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
    formula: Formula = field(default=(), compare=False, repr=False)


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
        return joined(unsettled)

    @property
    def formula(self) -> Formula:
        """Each part, and their sum."""
        each = tuple(one for part in self.parts for one in part.formula)
        return (*each, sum_of("weights", ((part.name, part.bytes) for part in self.parts), self.bytes))


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

    @property
    def formula(self) -> Formula:
        return self.fullest.formula


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
    sure = _FROM_WEIGHTS[weights.confidence]
    rows = vocabulary(model)
    found: list[Placed] = []
    rule: Formula
    for name, size in _shared_out(model, weights).items():
        if name in _INPUT + _OUTPUT:
            padded = round_up(rows, VOCABULARY_PADDING * split.tensor)
            share = ceil_div(size * padded, rows * split.tensor) if rows else size
            rule = _rows(name, size, padded, rows, split.tensor, share)
            why = tell("weights.rows", name=name, ranks=split.tensor)
            part = RankPart(name, share, ceil_div(size, split.tensor), share, sure, why, rule)
            found.append(("first" if name in _INPUT else "last", part))
            if name in _INPUT and tied(model) and split.pipeline > 1:
                copy = _rows("lm_head", size, padded, rows, split.tensor, share)
                found.append(("last", RankPart("lm_head", share, 0, share, sure, tell("weights.tied"), copy)))
        elif split.tensor == 1 or name in _DIVIDED:
            share = ceil_div(size, split.tensor)
            rule = (step(identifier(name), "ceil({stored} / {ranks})", share, stored=size, ranks=split.tensor),)
            found.append(("first", RankPart(name, share, share, share, sure, name, rule)))
        else:
            why = tell("weights.whole", name=name, ranks=split.tensor)
            rule = known(identifier(name), "stored", size)
            found.append(("first", RankPart(name, size, ceil_div(size, split.tensor), size, "estimated", why, rule)))
    return found


def _rows(name: str, size: int, padded: int, rows: int, ranks: int, share: int) -> Formula:
    """A matrix of the vocabulary on one rank."""
    if share == size:
        return known(name, "stored", size)
    given = {"stored": size, "padded_rows": padded, "rows": rows, "ranks": ranks}
    return (step(name, "ceil({stored} x {padded_rows} / ({rows} x {ranks}))", share, **given),)


def _layers(
    model: Model, weights: Weights, shapes: tuple[LayerShape, ...], cut: range, total: int, split: Split
) -> RankPart:
    """The stage's decoder layers, from the bytes of all of them."""
    sure = _FROM_WEIGHTS[weights.confidence]
    own = [shapes[i] for i in cut if i < len(shapes)]
    padding = _mxfp4_padding(model, split) if split.engine == "vllm" else Fraction(1)
    plain = len({(s.dense, s.experts) for s in shapes}) == 1
    rules = [_share(shapes, own, total, split, width, padding) for width in dict.fromkeys(_widths(model, shapes, total))]
    low, high = (int(rule[-1].value) for rule in (min(rules, key=_result), max(rules, key=_result)))
    rule = max(rules, key=_result)
    reasons = list[str]()
    if not plain and split.pipeline > 1:
        reasons.append(tell("weights.differ"))
    if high - low > high // 100:
        reasons.append(tell("weights.experts"))
    if split.tensor > 1 and not all(s.known for s in own):
        reasons.append(tell("weights.recurrent"))
    if padding > 1:
        reasons.append(tell("weights.mxfp4", share=float(padding - 1)))
    if reasons:
        return RankPart("layers", high, low, high, "estimated", joined(reasons), rule)
    why = tell("weights.layers", first=cut.start, last=cut.stop - 1, all=len(shapes))
    return RankPart("layers", high, low, high, sure, why, rule)


def _result(rule: Formula) -> int:
    return int(rule[-1].value)


def _widths(model: Model, shapes: tuple[LayerShape, ...], total: int) -> tuple[Fraction, Fraction]:
    """Bytes an element of all but the experts, at least and at most: as the average, and as the checkpoint's own dtype."""
    elements = sum(s.dense + s.experts for s in shapes)
    average = Fraction(total, elements) if elements else Fraction(0)
    whole = Fraction(_dtype_bytes(model))
    dense = sum(s.dense for s in shapes)
    if not any(s.experts for s in shapes) or average >= whole or dense * whole > total:
        return average, average
    said = model.config.get("quantization_config")
    method = str(said.get("quant_method")) if isinstance(said, dict) else ""
    return (whole, whole) if method == "mxfp4" else (average, whole)


def _mxfp4_padding(model: Model, split: Split) -> Fraction:
    """How much larger vLLM lays out experts in mxfp4: the model's width in multiples of 256, a rank's feed-forward of 64.

    Source: vLLM 0.33.0, quantization/mxfp4.py; gpt-oss-120b and -20b took 64.38 and 13.47 GiB on an H100 (60.8 and 12.8 stored).
    """
    said = model.config.get("quantization_config")
    mxfp4 = isinstance(said, dict) and said.get("quant_method") == "mxfp4"
    count, _, feed = expert_words(text_words(model), model.hidden_size)
    if not count or not (mxfp4 or model.model_type == "gpt_oss"):
        return Fraction(1)
    share = feed if split.whole_experts else ceil_div(feed, split.experts)
    return Fraction(round_up(model.hidden_size, 256), model.hidden_size) * Fraction(round_up(share, 64), share)


def _share(
    shapes: tuple[LayerShape, ...], own: list[LayerShape], total: int, split: Split, width: Fraction, padding: Fraction
) -> Formula:
    """Bytes of `own` on one rank, with all but the experts `width` bytes an element. In fractions, so that nothing is lost."""
    dense, experts = sum(s.dense for s in shapes), sum(s.experts for s in shapes)
    if len(own) == len(shapes) and split.tensor == 1 and (split.experts == 1 or not experts) and padding == 1:
        return known("layers", "stored", total)
    mine, whole = sum(s.dense for s in own), sum(min(s.replicated, s.dense) for s in own)
    repeated = sum((s.repeated_kv(split.tensor) for s in own), Fraction(0))
    rank_dense = whole + Fraction(mine - whole, split.tensor) + repeated
    found = [step(
        "rank_dense", "{replicated} + ({dense} - {replicated}) / {ranks} + {repeated_kv}", rank_dense,
        replicated=whole, dense=mine, ranks=split.tensor, repeated_kv=repeated,
    )]  # fmt: skip
    held = Fraction(0)
    if experts:
        ranks, all_of = split.experts, sum(s.experts for s in own)
        parts = [ceil_div(s.expert_count, ranks) * Fraction(s.experts, s.expert_count) for s in own if s.experts]
        held = (sum(parts, Fraction(0)) if split.whole_experts else Fraction(all_of, ranks)) * padding
        if split.whole_experts:
            rule = "{experts_of_rank} x {padding}" if padding > 1 else "{experts_of_rank}"
            found.append(step("rank_experts", rule, held, experts_of_rank=held / padding, padding=padding))
        else:
            rule = "{experts} / {expert_ranks}" + (" x {padding}" if padding > 1 else "")
            found.append(step("rank_experts", rule, held, experts=all_of, expert_ranks=ranks, padding=padding))
    elements = dense + experts
    if width * elements == total:
        size, rule = ceil(width * (rank_dense + held)), "ceil({stored} / {elements} x ({rank_dense}" + (
            " + {rank_experts}))" if experts else "))")
    else:
        expert_width = Fraction(total - width * dense) / experts if experts else Fraction(0)
        size = ceil(width * rank_dense + expert_width * held)
        rule = "ceil({bytes_each} x {rank_dense} + ({stored} - {bytes_each} x {all_dense}) / {all_experts} x {rank_experts})"
    given: dict[str, Number] = {
        "stored": total, "elements": elements, "rank_dense": rank_dense, "rank_experts": held, "bytes_each": width,
    }  # fmt: skip
    return (*found, step("layers", rule, size, **given, all_dense=dense, all_experts=experts))


def _buffers(model: Model, shapes: tuple[LayerShape, ...], cut: range, split: Split) -> list[RankPart]:
    """What loading adds to the checkpoint: rotations and MLA's absorbed projections, on engines that keep them."""
    if split.engine not in ("vllm", "sglang"):
        return []
    words, found = text_words(model), []
    width = max((shapes[i].rotated for i in cut if i < len(shapes)), default=0)
    positions = int(words.get("max_position_embeddings") or 0)
    if width and positions:
        size = positions * width * _dtype_bytes(model)
        given = {"positions": positions, "rotated_width": width, "bytes_each": _dtype_bytes(model)}
        rule = step("rotations", "{positions} x {rotated_width} x {bytes_each}", size, **given)
        why = tell("weights.rotations", positions=positions)
        found.append(RankPart("rotations", size, size, 2 * size, "documented", why, (rule,)))
    absorbed = sum(shapes[i].absorbed for i in cut if i < len(shapes))
    if absorbed:
        size = ceil_div(absorbed * 2, split.tensor)
        rule = step("absorbed_projections", "ceil({elements} x 2 / {ranks})", size, elements=absorbed, ranks=split.tensor)
        found.append(
            RankPart("absorbed projections", size, 0, size, "estimated", tell("weights.absorbed"), (rule,))
        )
    return found
