"""Prefill and decode on GPUs of their own: does each pool start, what moves between them for each request, and which waits.

The prefill pool reads prompts and sends what it cached; the decode pool holds it and writes the answers. Times are the
roofline's, always ranges (planner.latency).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from planner.capacity import Plan, plan
from planner.capacity_deploy import changed
from planner.capacity_solve import Settings
from planner.disaggregate_bytes import Moved, moved
from planner.engines import engine as find_engine
from planner.errors import EngineRefusal, InputError, shown
from planner.hardware import Gpu, Node
from planner.latency import latency
from planner.latency_efficiency import Range, factor
from planner.model import Model
from planner.texts import tell
from planner.units import GB, ceil_div
from planner.workload import Workload

#: What makes an engine send or receive a request's cache.
_FLAGS = {
    "vllm": dict.fromkeys(
        ("prefill", "decode"), "--kv-transfer-config '{\"kv_connector\": \"NixlConnector\", \"kv_role\": \"kv_both\"}'"),
    "sglang": {"prefill": "--disaggregation-mode prefill", "decode": "--disaggregation-mode decode"},
    "tensorrt-llm": {"prefill": "--server_role CONTEXT", "decode": "--server_role GENERATION"},
}  # fmt: skip
Bound = Literal["prefill", "decode", "either"]


@dataclass(frozen=True)
class Pool:
    """GPUs of one role: their kind, how many, the engine's settings, and figures of the budget that the person knows."""

    gpu: str | Gpu | Node
    gpus: int = 1
    settings: Settings = None
    given: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Role:
    """One pool as planned. seconds: of one prompt read alone, or of one step of a full batch, on one replica. requests_per_s: of
    all replicas together, None where the roofline does not know. concurrency: requests at once on one replica. command: what
    starts a replica in this role."""

    plan: Plan
    seconds: Range | None
    requests_per_s: Range | None
    concurrency: int
    command: str


@dataclass(frozen=True)
class Disaggregation:
    """Two pools and what lies between them.

    moved: bytes of one request. link_bytes_per_s: of one GPU, one direction. transfer_s: until a request's cache is over, from
    all GPUs sending at once to one of them. prefill_per_decode: prefill GPUs for each decode GPU at which neither waits. bound:
    the pool that the other waits for, "either" where the ranges overlap. fits: whether both start and hold what is asked.
    """

    prefill: Role
    decode: Role
    moved: Moved
    link_bytes_per_s: float
    transfer_s: Range
    prefill_per_decode: Range | None
    bound: Bound | None
    notes: tuple[str, ...]

    @property
    def fits(self) -> bool:
        return self.prefill.plan.fits and self.decode.plan.fits


def disaggregate(
    model: Model,
    engine: str = "vllm",
    *,
    prefill: Pool,
    decode: Pool,
    link: str | float,
    prompt_tokens: int,
    output_tokens: int,
    requests: int | None = None,
) -> Disaggregation:
    """Prefill and decode of `model` on two pools.

    The prefill pool holds one prompt a replica, the decode pool `requests` whole requests at once, all that it can where None.
    link: what a GPU sends over, one direction: "400Gb" (bits a second, a network card for each GPU), "50GB", bytes a second as a
    number, "nvlink" or "pcie" (the slower of both pools' GPUs).

    prefill requests a second = replicas / seconds of a prompt; decode = replicas x concurrency / (output x seconds of a step)
    transfer = received bytes / (GPUs that send side by side x link x share that copies reach), one GPU at the high end

    Errors: EngineRefusal for engines without disaggregation and splits that they cannot move between, InputError.
    Source: vLLM 0.33.0, distributed/kv_transfer/kv_connector/v1/nixl; SGLang 0.5.23, disaggregation/; TensorRT-LLM, disaggregated
    serving.
    """
    if engine not in _FLAGS:
        find_engine(engine)
        raise EngineRefusal(f"{engine} has no prefill and decode on separate GPUs; {', '.join(_FLAGS)} have", engine=engine)
    work = Workload(prompt_tokens, output_tokens)
    asked = _with_length(engine, decode, prompt_tokens + output_tokens)
    first = plan(model, engine, _with_length(engine, prefill, prompt_tokens + 1), prefill.gpu, prefill.gpus,
                 Workload(prompt_tokens, 1), prefill.given, advice=False)  # fmt: skip
    second = plan(model, engine, asked, decode.gpu, decode.gpus, work, decode.given, advice=False)
    if first.replicas > 1:
        first = plan(model, engine, first.deployment.settings, prefill.gpu, prefill.gpus,
                     Workload(prompt_tokens, 1, first.replicas), prefill.given, advice=False)  # fmt: skip
    many = requests if requests is not None else max(1, second.max_requests or second.replicas)
    second = plan(model, engine, second.deployment.settings, decode.gpu, decode.gpus,
                  Workload(prompt_tokens, output_tokens, many), decode.given, advice=False)  # fmt: skip
    _check(engine, first, second)
    size = moved(model, engine, second, prompt_tokens)
    rate = link_rate(link, first.gpu, second.gpu)
    one, two = _prefill(first, prompt_tokens), _decode(second, prompt_tokens, output_tokens)
    balance, bound = _balance(one, two)
    return Disaggregation(one, two, size, rate, _transfer(size, rate, first, second), balance, bound, _notes(one, two))


def _with_length(engine: str, pool: Pool, length: int) -> Any:
    """The pool's settings, with a longest request as long as needed where they say none: the model's own may not fit."""
    word = {"vllm": "max_model_len", "sglang": "context_length", "tensorrt-llm": "max_seq_len"}[engine]
    own = find_engine(engine).Settings
    made: Any = own(**pool.settings) if isinstance(pool.settings, Mapping) else pool.settings or own()
    return made if word in made.model_fields_set else changed(made, **{word: length})


def _check(engine: str, first: Plan, second: Plan) -> None:
    """What no engine moves between: other storage, other blocks, ranks of which neither number divides the other."""
    kinds = [str(one.pool.details["kv_cache_dtype"]) if one.pool else "" for one in (first, second)]
    if kinds[0] != kinds[1]:
        raise EngineRefusal(f"{engine} moves blocks as they are: the pools store {kinds[0]} and {kinds[1]}", engine=engine,
                            field="kv_cache_dtype")  # fmt: skip
    small, large = sorted((first.tensor_parallel_size, second.tensor_parallel_size))
    if large % small:
        raise EngineRefusal(f"{engine} moves heads between ranks whose numbers divide each other, not {small} and {large}",
                            engine=engine, field="tensor_parallel_size")  # fmt: skip


def link_rate(link: str | float, *cards: Gpu) -> float:
    """Bytes a second that one GPU sends over a link, one direction. Errors: InputError for what is no rate, or not known."""
    if isinstance(link, int | float) and not isinstance(link, bool) and link > 0:
        return float(link)
    text = str(link).strip()
    if text.lower() in ("nvlink", "pcie"):
        name = "link_gbs" if text.lower() == "nvlink" else "pcie_gbs"
        rates = [getattr(card, name) for card in cards]
        if not all(rates):
            raise InputError(f"the {text} of {cards[rates.index(None)].name} is not known; give a rate like 400Gb", field="link")
        return float(min(rates)) * GB / 2
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT])(b|B)(?:ps|it|/s|it/s)?", text)
    if match is None or not float(match[1]):
        raise InputError(f"link is {shown(link)}; write what each GPU has a second: 400Gb, 50GB, nvlink or pcie", field="link")
    scale = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}[match[2]]
    return float(match[1]) * scale / (8 if match[3] == "b" else 1)


def _transfer(size: Moved, rate: float, first: Plan, second: Plan) -> Range:
    share = factor("copy")
    side_by_side = min(one.tensor_parallel_size * one.pipeline_parallel_size for one in (first, second))
    return Range(size.received_bytes / (side_by_side * rate * share.high), size.received_bytes / (rate * share.low))


def _latency(found: Plan, prompt: int, output: int, concurrency: int) -> Any:
    """The roofline of one replica; None where it is not known."""
    dtype = str(getattr(found.settings, "kv_cache_dtype", "auto"))
    if found.pipeline_parallel_size > 1:
        return None
    try:
        return latency(found.model, found.gpu, prompt_tokens=prompt, output_tokens=output, concurrency=concurrency,
                       tensor_parallel_size=found.tensor_parallel_size,
                       kv_cache_dtype="fp8" if dtype.startswith("fp8") else None)  # fmt: skip
    except InputError:
        return None


def _prefill(found: Plan, prompt: int) -> Role:
    times = _latency(found, prompt, 1, 1)
    seconds = times.ttft_s if times else None
    rate = Range(found.replicas / seconds.high, found.replicas / seconds.low) if seconds else None
    return Role(found, seconds, rate, 1, f"{found.command} {_FLAGS[found.engine]['prefill']}")


def _decode(found: Plan, prompt: int, output: int) -> Role:
    """With as many requests as are asked for, no more than are held."""
    held = found.requests if found.max_requests is None else min(found.requests, found.max_requests)
    each = max(1, ceil_div(held, found.replicas))
    times = _latency(found, prompt, max(1, output), each)
    step = times.time_per_output_token_s if times else None
    many = found.replicas * each / max(1, output)
    rate = Range(many / step.high, many / step.low) if step else None
    return Role(found, step, rate, each, f"{found.command} {_FLAGS[found.engine]['decode']}")


def _balance(first: Role, second: Role) -> tuple[Range | None, Bound | None]:
    one, two = first.requests_per_s, second.requests_per_s
    if one is None or two is None:
        return None, None
    per_gpu = first.plan.gpus / second.plan.gpus
    ratio = Range(two.low / one.high * per_gpu, two.high / one.low * per_gpu)
    bound: Bound = "prefill" if one.high < two.low else "decode" if two.high < one.low else "either"
    return ratio, bound


def _notes(first: Role, second: Role) -> tuple[str, ...]:
    found = list[str]()
    if first.requests_per_s is None or second.requests_per_s is None:
        found.append(tell("apart.no_balance"))
    if first.plan.engine == "tensorrt-llm":
        found.append(tell("apart.transceiver"))
    found.append(tell("apart.leaves"))
    return tuple(dict.fromkeys((*first.plan.notes, *second.plan.notes, *found)))
