"""One real generation through transformers' own `generate`, with its cache kept and the memory read around it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from transformers import GenerationConfig, StoppingCriteria, StoppingCriteriaList
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils.import_utils import is_hqq_available, is_optimum_quanto_available

from planner.engines import transformers
from planner.errors import InputError
from validation.measure_build import Built, quietly
from validation.measure_cache import Weighed, cache_of, weigh
from validation.measure_memory import Reading, meter

#: Ids below this are left to special tokens.
_FIRST_ID = 3


@dataclass(frozen=True)
class Generated:
    """What came out: token ids, the weighed cache, memory, seconds in all and to the first token."""

    sequences: torch.Tensor
    weighed: Weighed
    reading: Reading
    seconds: float
    first_token_s: float


class AfterPrompt(StoppingCriteria):
    """Never stops; calls `told` once, when the prompt has been processed."""

    def __init__(self, told: Any) -> None:
        self.told: Any = told

    def __call__(self, input_ids: torch.Tensor, scores: Any, **more: Any) -> torch.Tensor:
        if self.told is not None:
            self.told()
            self.told = None
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)


@dataclass
class Encoded(BaseModelOutput):
    """An encoder's output, with what the decoders of some classes ask of it besides: nothing was masked, none routed."""

    pooler_output: torch.Tensor | None = None
    attention_mask: torch.Tensor | None = None
    router_logits: tuple[torch.Tensor, ...] | None = None


def cache_words(settings: transformers.Settings) -> dict[str, Any]:
    """The words of a generation config that ask for this cache."""
    if settings.cache_implementation == "dynamic":
        return {}
    words: dict[str, Any] = {"cache_implementation": settings.cache_implementation}
    if settings.max_cache_len is not None:
        words["max_cache_len"] = settings.max_cache_len
    if settings.cache_implementation == "quantized":
        names = ("nbits", "q_group_size", "residual_length", "axis_key", "axis_value") if settings.backend != "fp8" else ()
        words["cache_config"] = {"backend": settings.backend, **{name: getattr(settings, name) for name in names}}
    return words


def generation(new: int, settings: transformers.Settings | None, chunk: int | None = None, **more: Any) -> GenerationConfig:
    """Greedy generation of exactly `new` tokens; without settings it keeps no cache."""
    cached = {"use_cache": False} if settings is None else {"use_cache": True, **cache_words(settings)}
    with quietly():
        return GenerationConfig(
            max_new_tokens=new, min_new_tokens=new, do_sample=False, num_beams=1, pad_token_id=0, eos_token_id=None,
            return_dict_in_generate=True, disable_compile=True, prefill_chunk_size=chunk, **cached, **more,
        )  # fmt: skip


def inputs(built: Built, batch: int, prompt: int, encoder: int, device: torch.device, seed: int = 0) -> dict[str, Any]:
    """A random prompt of exactly `prompt` positions, and an encoder's output where the model has one."""
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(_FIRST_ID, max(built.vocabulary, _FIRST_ID + 1), (batch, prompt), generator=random)
    config = built.model.config
    if not built.encoder:
        ids = ids.to(device)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    ids[:, 0] = start = getattr(config, "decoder_start_token_id", None) or 0
    width = _encoder_width(config)
    states = torch.randn((batch, encoder, width), generator=random).to(device, built.model.dtype)
    built.model.generation_config.decoder_start_token_id = start
    return {
        "decoder_input_ids": ids.to(device),
        "encoder_outputs": Encoded(last_hidden_state=states, pooler_output=states),
        "attention_mask": torch.ones((batch, encoder), dtype=torch.long, device=device),
    }


def _encoder_width(config: Any) -> int:
    """The width of the vectors that an encoder hands to its decoder."""
    for name in ("encoder", "encoder_config", "text_config"):
        config = getattr(config, name, config)
    width = getattr(config, "d_model", None) or getattr(config, "hidden_size", None)
    if isinstance(width, int):
        return width
    raise InputError(f"the config of this {config.model_type} model does not say how wide its encoder is", field="model")


def extra_positions(built: Built) -> int:
    """Positions that a model's class caches beside those of its tokens: CPM-Ant's soft prompt, XLM's and XLNet's mask."""
    config = built.model.config
    return {"cpmant": getattr(config, "prompt_length", 0), "xlm": 1, "xlnet": 1}.get(config.model_type, 0)


def check_cache(settings: transformers.Settings, device: torch.device) -> None:
    """InputError where this cache cannot run here at all."""
    if settings.cache_implementation.startswith("offloaded") and device.type != "cuda":
        text = "an offloaded cache moves layers between a CUDA device and the host; there is no CUDA device here"
        raise InputError(text, field="cache")
    here = {"quanto": is_optimum_quanto_available, "hqq": is_hqq_available}
    if settings.cache_implementation == "quantized" and settings.backend in here and not here[settings.backend]():
        package = {"quanto": "optimum-quanto"}.get(settings.backend, settings.backend)
        raise InputError(
            f"the {settings.backend} backend is not installed: pip install {package}, or use --cache-config backend=fp8",
            field="cache",
        )


def generate(
    built: Built, settings: transformers.Settings, batch: int, prompt: int, new: int, encoder: int = 0,
    chunk: int | None = None, depth: int = 0, metered: bool = True,
) -> Generated:  # fmt: skip
    """Generates `new` tokens after a random prompt and weighs what is held: prompt + new - 1 positions a request.

    depth: layers, for stores that are plain lists. metered: whether memory is read; on the CPU that costs time.
    Errors: torch.OutOfMemoryError or RuntimeError when memory runs out, InputError for a cache that transformers refuses.
    """
    model = built.model
    given = inputs(built, batch, prompt, encoder, model.device)
    model._previous_max_cache_length = -1  # a static cache would keep an earlier, longer run's size
    wanted = generation(new, settings, chunk)
    there = [*model.parameters(), *model.buffers(), *_given_tensors(given)]
    reader = meter(model.device, there)
    first: list[float] = []

    def prefilled() -> None:
        reader.prefilled()
        first.append(time.perf_counter())

    stopping = StoppingCriteriaList([AfterPrompt(prefilled)])
    with quietly(), torch.no_grad():
        started = time.perf_counter()
        with reader if metered else nullcontext():
            outputs = model.generate(**given, generation_config=wanted, stopping_criteria=stopping)
        seconds = time.perf_counter() - started
    reading = reader.finish()
    return Generated(outputs.sequences, weigh(cache_of(outputs), depth), reading, seconds, first[0] - started)


def _given_tensors(given: Mapping[str, Any]) -> list[torch.Tensor]:
    found = []
    for value in given.values():
        found += [value] if isinstance(value, torch.Tensor) else [v for v in value.values() if isinstance(v, torch.Tensor)]
    return found
