"""A roofline of time: first token, later tokens, throughput against concurrency, and what the KV cache saves.

Every time is an estimate with a range; the factors behind it and their sources are in data/efficiency.yaml and come with the
answer. Only FLOPs of dense parts and bytes of the cache are counted exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.cache import check_count
from planner.errors import InputError
from planner.hardware import Gpu
from planner.hardware import gpu as find_gpu
from planner.latency_efficiency import Factor, Range
from planner.latency_pairs import check_length
from planner.latency_roofline import Machine, machine
from planner.latency_work import Work, recomputed_tokens, work
from planner.model import Model
from planner.reasons import Formula
from planner.texts import tell

__all__ = ["Latency", "Point", "Range", "Savings", "latency"]

#: Concurrency up to which the throughput curve is drawn at least, and batches beyond which no crossover is looked for.
_CURVE, _MOST_BATCH = 256, 1 << 20


@dataclass(frozen=True)
class Point:
    """One point of the throughput curve: requests at once, seconds of a decoding step, output tokens a second of all of them."""

    concurrency: int
    time_per_output_token_s: Range
    output_tokens_per_s: Range


@dataclass(frozen=True)
class Savings:
    """Writing the answer of one request with the cache, and recomputing everything for each token.

    projected: tokens whose keys and values are computed, over all steps: prompt + new - 1 against their sum. flops_ratio:
    without / with. time_ratio: the same for seconds, from the least to the most it can be and never below 1; short answers of
    small models gain little, because reading the weights takes longer than computing a few tokens again.
    """

    with_projected_tokens: int
    without_projected_tokens: int
    with_flops: Range
    without_flops: Range
    with_s: Range
    without_s: Range

    @property
    def flops_ratio(self) -> float:
        return self.without_flops.high / self.with_flops.high

    @property
    def time_ratio(self) -> Range:
        least = self.without_s.low / self.with_s.high
        return Range(max(1.0, least), max(1.0, self.without_s.high / self.with_s.low))


@dataclass(frozen=True)
class Latency:
    """The roofline's answer; every Range is (low, high), seconds unless its name says otherwise, and `confidence` is estimated.

    ttft_s: reading the prompt of a request that comes alone. ttft_at_once_s: until the last of `concurrency` prompts that
    come together is read. time_per_output_token_s: a step with `concurrency` requests in the middle of their answers.
    output_tokens_per_s: of all requests while decoding. crossover_concurrency: requests from which a step is limited by
    compute, at the earliest and latest; None: never, because each request's own cache takes longer to read than its token
    to compute. weight_bytes, kv_bytes: read by one GPU in a step. factors: what the ranges rest on.
    formulas: the arithmetic of each time, by its name here.
    """

    model: str
    gpu: str
    prompt_tokens: int
    output_tokens: int
    concurrency: int
    tensor_parallel_size: int
    active_params: Range
    prefill_flops: Range
    decode_flops_per_token: Range
    weight_bytes: Range
    kv_bytes: Range
    ttft_s: Range
    ttft_at_once_s: Range
    time_per_output_token_s: Range
    total_s: Range
    output_tokens_per_s: Range
    bound: str
    crossover_concurrency: tuple[int | None, int | None]
    curve: tuple[Point, ...]
    savings: Savings
    factors: tuple[Factor, ...]
    warnings: tuple[str, ...] = ()
    formulas: Mapping[str, Formula] = field(default_factory=dict, compare=False, repr=False)
    confidence: str = "estimated"


@dataclass(frozen=True)
class _Job:
    """One request's shape on a machine. middle: positions held in the middle of the answer."""

    machine: Machine
    work: Work
    prompt: int
    output: int
    encoder: int
    kv_cache_dtype: str | None
    kv_each: Range

    @property
    def middle(self) -> int:
        return _middle(self.prompt, self.output)

    def prefill(self, requests: int) -> Range:
        """Seconds to read `requests` prompts together."""
        return self.machine.seconds(*self.prefill_work(requests))

    def prefill_work(self, requests: int) -> tuple[Range, Range, int]:
        """FLOPs of all prompts, bytes of one GPU (all weights once and the cache written), and tokens."""
        written = self.work.read_bytes(self.prompt, requests, self.kv_cache_dtype, self.encoder, self.machine.ranks).high
        tokens = requests * self.prompt
        weights = self.work.active.bytes_read(tokens) * (1 / self.machine.ranks)
        return self.work.prefill_flops(self.prompt) * requests, weights + Range(0, written), tokens

    def step_work(self, requests: int) -> tuple[Range, Range]:
        """FLOPs of the whole model and bytes of one GPU in a decoding step of `requests` requests."""
        weights = self.work.active.bytes_read(requests) * (1 / self.machine.ranks)
        return self.work.decode_flops(self.middle, 1) * requests, weights + self.kv_each * requests

    def step(self, requests: int) -> Range:
        return self.machine.seconds(*self.step_work(requests), requests)

    def point(self, requests: int) -> Point:
        step = self.step(requests)
        return Point(requests, step, Range(requests / step.high, requests / step.low))


def latency(
    model: Model,
    gpu: Gpu | str,
    *,
    prompt_tokens: int,
    output_tokens: int,
    concurrency: int = 1,
    tensor_parallel_size: int = 1,
    kv_cache_dtype: str | None = None,
    encoder_tokens: int = 0,
) -> Latency:
    """How long requests of this shape take on `tensor_parallel_size` GPUs of this kind.

    seconds = max(FLOPs / (peak x e_c), bytes / (bandwidth x e_b)) + fixed, at the low end; their sum at the high end, where
    nothing overlaps. FLOPs = 2 x active parameters x tokens + 2 x heads x (key + value width) x positions read. A decoding
    step reads the weights that its tokens use once, and the cache of every request. fixed: layers x overhead + 2 x layers
    all-reduces among ranks. Peak and bandwidth are the card's, from data/gpus.yaml.

    Whether it fits in memory is not asked here. Errors: InputError where the GPU's bandwidth or FLOPs, or the model's
    weights, are not known, and for counts that cannot be.

    Source: Pope et al., arXiv 2211.05102 (the roofline of both phases); factors in data/efficiency.yaml.
    """
    prompt = check_length(check_count(prompt_tokens, "prompt_tokens", 1))
    output = check_length(check_count(output_tokens, "output_tokens", 1))
    check_count(concurrency, "concurrency", 1)
    check_count(encoder_tokens, "encoder_tokens")
    card = find_gpu(gpu) if isinstance(gpu, str) else gpu
    ranks = check_count(tensor_parallel_size, "tensor_parallel_size", 1)
    if model.attention_heads and model.attention_heads % ranks:
        raise InputError(
            f"{model.attention_heads} attention heads of {model.name} cannot be shared out among {ranks} GPUs",
            field="tensor_parallel_size",
        )
    done = work(model, encoder_tokens)
    job = _Job(
        machine(card, model, done.active, ranks), done, prompt, output, encoder_tokens, kv_cache_dtype,
        done.read_bytes(_middle(prompt, output), 1, kv_cache_dtype, encoder_tokens, ranks),
    )  # fmt: skip
    return _answer(job, concurrency)


def _middle(prompt: int, output: int) -> int:
    return prompt + (output - 1) // 2


def _answer(job: _Job, concurrency: int) -> Latency:
    machine, done, output = job.machine, job.work, job.output
    alone, together = job.prefill(1), job.prefill(concurrency)
    now = job.point(concurrency)
    step = now.time_per_output_token_s
    flops, read = job.step_work(concurrency)
    formulas = {
        "ttft_s": machine.formula("ttft", *job.prefill_work(1)),
        "ttft_at_once_s": machine.formula("ttft_at_once", *job.prefill_work(concurrency)),
        "time_per_output_token_s": machine.formula("time_per_output_token", flops, read, concurrency),
    }
    sizes = sorted({concurrency, *(1 << i for i in range(max(_CURVE, concurrency).bit_length()))})
    return Latency(
        model=done.model.name, gpu=machine.gpu.id, prompt_tokens=job.prompt, output_tokens=output, concurrency=concurrency,
        tensor_parallel_size=machine.ranks, active_params=done.active.params, prefill_flops=done.prefill_flops(job.prompt),
        decode_flops_per_token=done.decode_flops(job.middle, 1),
        weight_bytes=done.active.bytes_read(concurrency) * (1 / machine.ranks), kv_bytes=job.kv_each * concurrency,
        ttft_s=alone, ttft_at_once_s=together, time_per_output_token_s=step, total_s=together + step * (output - 1),
        output_tokens_per_s=now.output_tokens_per_s, bound=machine.bound(flops, read),
        crossover_concurrency=(_crossover(job, earliest=True), _crossover(job, earliest=False)),
        curve=tuple(job.point(size) for size in sizes), savings=_savings(job), factors=machine.factors,
        warnings=_warnings(job), formulas=formulas,
    )  # fmt: skip


def _crossover(job: _Job, earliest: bool) -> int | None:
    """The fewest requests of which a step takes longer to compute than to read. Weights are read once for all of them, so
    computing catches up as they grow, unless each request's own cache outweighs its FLOPs."""

    def computes(requests: int) -> bool:
        flops, read = job.step_work(requests)
        compute, memory = job.machine.compute_s(flops), job.machine.memory_s(read)
        return compute.high >= memory.low if earliest else compute.low >= memory.high

    if not computes(_MOST_BATCH):
        return None
    low, high = 0, _MOST_BATCH
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if computes(middle) else (middle, high)
    return high


def _savings(job: _Job) -> Savings:
    """FLOPs and seconds of one request's answer with and without the cache; without it every token is a whole prefill."""
    done, machine, prompt, output = job.work, job.machine, job.prompt, job.output
    first = done.prefill_flops(prompt)
    with_flops = first + done.decode_flops(prompt, output - 1) if output > 1 else first
    without_flops = done.recomputed_flops(prompt, output)
    read = done.active.bytes_read(prompt) * (output / machine.ranks)
    fixed_tokens = recomputed_tokens(prompt, output)
    return Savings(
        with_projected_tokens=prompt + output - 1, without_projected_tokens=fixed_tokens,
        with_flops=with_flops, without_flops=without_flops, with_s=job.prefill(1) + job.step(1) * (output - 1),
        without_s=machine.seconds(without_flops, read, fixed_tokens, steps=output),
    )  # fmt: skip


def _warnings(job: _Job) -> tuple[str, ...]:
    model, found = job.work.model, list(job.machine.warnings)
    if job.work.active.unknown:
        found.append(job.work.active.unknown)
    if model.max_context and job.prompt + job.output > model.max_context:
        found.append(tell("time.over_limit", tokens=job.prompt + job.output, limit=model.max_context))
    if model.weights and any(item.name == "encoder" for item in model.weights.items):
        found.append(tell("time.encoder"))
    return tuple(found)
