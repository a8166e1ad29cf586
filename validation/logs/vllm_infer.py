"""What a log does not say and its figures do: settings that alone, or with as few others as possible, reproduce all of them.

The log's own settings stand. What is left is first vLLM's defaults; where those do not give the printed figures, one unknown at a
time takes other values, then two, then three. What is found so is said to be inferred.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from model_configs import catalogue
from model_configs import read as read_model
from planner.accelerators import Gpu
from planner.engines.vllm import DEFAULT_GPU, Settings
from planner.engines.vllm_setup import Setup, prepare
from planner.errors import PlannerError
from planner.hardware import gpu as find_gpu
from planner.layers import Chunked, Cross, Latent, Sliding, State
from planner.model import Model
from validation.logs.log import CheckLine, Log
from validation.logs.models import candidates
from validation.logs.vllm_blocks import block_lines
from validation.logs.vllm_gpu import Card
from validation.logs.vllm_pool import Bytes, Outcome, compare

#: More layouts than these are not tried.
MOST_TRIES: Final = 600
_RANKS: Final = (1, 2, 4, 8, 16)
_BATCHES: Final = (2048, 4096, 8192, 16384, 32768, 65536, 1024, 512, 131072, 256)
#: Cards whose kernels, block sizes or default batches differ.
_CARDS: Final = ("a100-80gb", "l40s", "b200", "rtx-5090", "h200", "t4")
#: What is tried alone, and what three at once are tried of.
_ALONE: Final = ("gpu", "block_size", "pipeline_parallel_size", "decode_context_parallel_size")
_OFTEN: Final = ("version", "tensor_parallel_size", "kv_cache_dtype", "speculative_config")


@dataclass(frozen=True)
class Fit:
    """A layout beside the log. changes: what was inferred, by name; equals: others that fit as well; tried: of how many."""

    setup: Setup
    outcome: Outcome
    extra: tuple[CheckLine, ...]
    length: int
    changes: Mapping[str, Any]
    equals: tuple[Mapping[str, Any], ...] = ()
    tried: int = 1

    @property
    def lines(self) -> tuple[CheckLine, ...]:
        return self.extra + self.outcome.lines

    @property
    def agrees(self) -> bool:
        return bool(self.lines) and all(line.agrees for line in self.lines)

    @property
    def right(self) -> int:
        return sum(line.agrees for line in self.lines)


def fit(log: Log, model: Model, card: Card | None, source: Bytes | None) -> Fit | PlannerError:
    """The layout that gives the log's figures, with the fewest unknowns that are not vLLM's defaults; else the defaults' own.

    The planner's error where no layout can be made of what the log says.
    """
    known, axes = _known(log, model), _axes(log, model, card)
    first: Fit | PlannerError | None = None
    best: list[Fit] = []
    tried = 0
    for level in range(4):
        for changes in _combinations(axes, level):
            if tried >= MOST_TRIES:
                break
            tried += 1
            found = _try(log, model, card, source, known, changes)
            if first is None or (isinstance(first, PlannerError) and isinstance(found, Fit)):
                first = found
            if isinstance(found, Fit) and found.agrees:
                best.append(found)
        if best:
            others = tuple(each.changes for each in best[1:])
            return replace(best[0], equals=others, tried=tried)
        if isinstance(first, Fit) and not first.lines:
            break
    assert first is not None
    return replace(first, tried=tried) if isinstance(first, Fit) else first


def _known(log: Log, model: Model) -> dict[str, Any]:
    """The log's settings, with what its tags and its draft show."""
    known = dict(log.settings)
    release = log.other["release"]
    known.setdefault("version", release.candidates[0])
    ranks: Mapping[str, int] = log.other["ranks"]
    for kind, name in (("TP", "tensor_parallel_size"), ("PP", "pipeline_parallel_size")):
        if kind in ranks:
            known.setdefault(name, next((n for n in _RANKS if n >= ranks[kind]), ranks[kind]))
    if "speculative_config" not in known and (draft := _draft(log, model)):
        known["speculative_config"] = draft
    return known


def _draft(log: Log, model: Model) -> dict[str, Any] | None:
    """A draft with a model of its own: from the catalogue; an EAGLE head is one layer like the model's."""
    words: Mapping[str, str] = log.other["speculative"]
    method, count = words.get("method", ""), words.get("num_speculative_tokens", "1")
    number = int(count) if count.isdigit() and 0 < int(count) <= 1024 else 1
    for name in candidates(words.get("model", "")):
        if "eagle" not in method and (entry := catalogue.find(name)):
            draft = read_model(f"catalogue:{entry.id}")
            return {"method": "draft_model", "model": draft, "num_speculative_tokens": number}
    if "eagle" in method:
        return {"method": "eagle", "model": _head(model), "num_speculative_tokens": number}
    return None


def _head(model: Model) -> Model:
    """One layer like the model's last, as EAGLE's heads are."""
    return replace(model, layers=model.layers[-1:], engine_layers={})


def _axes(log: Log, model: Model, card: Card | None) -> dict[str, tuple[Any, ...]]:
    """The unknowns and the values other than vLLM's default that they may have, the likeliest first."""
    known, ranks = log.settings, log.other["ranks"]
    caches = [cache for layer in model.layers_for("vllm") for cache in layer.caches]
    states = any(isinstance(cache, State) for cache in caches)
    windows = any(isinstance(cache, Sliding | Chunked | Cross) for cache in caches)
    axes: dict[str, tuple[Any, ...]] = {}
    if others := log.other["release"].candidates[1:]:
        axes["version"] = others
    if "tensor_parallel_size" not in known:
        least = ranks.get("TP", 1)
        axes["tensor_parallel_size"] = tuple(n for n in _RANKS if n >= least)[0 if least == 1 else 1 :]
    if "kv_cache_dtype" not in known:
        axes["kv_cache_dtype"] = ("fp8",)
    if "speculative_config" not in known and not log.other["speculative"]:
        drafts = [{"method": "mtp", "num_speculative_tokens": n} for n in range(1, 6)]
        axes["speculative_config"] = (*drafts, {"method": "eagle", "model": _head(model), "num_speculative_tokens": 1})
    if windows and "max_num_batched_tokens" not in known:
        axes["max_num_batched_tokens"] = _BATCHES
    if states and "enable_prefix_caching" not in known:
        axes["enable_prefix_caching"] = (True, False)
    if "decode_context_parallel_size" not in known and any(isinstance(cache, Latent) for cache in caches):
        axes["decode_context_parallel_size"] = (2, 4, 8, 16)
    if card is None or not card.sure:
        axes["gpu"] = _CARDS
    if "block_size" not in known:
        axes["block_size"] = (16, 32, 64, 128, 256)
    if "pipeline_parallel_size" not in known:
        axes["pipeline_parallel_size"] = (2, 4)
    return {name: values for name, values in axes.items() if values}


def _combinations(axes: Mapping[str, tuple[Any, ...]], level: int) -> Iterator[dict[str, Any]]:
    names = [name for name in axes if (level < 2 or name not in _ALONE) and (level < 3 or name in _OFTEN)]
    for chosen in itertools.combinations(names, level):
        for values in itertools.product(*(axes[name] for name in chosen)):
            yield dict(zip(chosen, values, strict=True))


def _try(
    log: Log, model: Model, card: Card | None, source: Bytes | None, known: Mapping[str, Any], changes: Mapping[str, Any]
) -> Fit | PlannerError:
    given = {**known, **{name: value for name, value in changes.items() if name != "gpu"}}
    gpu: Gpu = find_gpu(changes["gpu"]) if "gpu" in changes else card.gpu if card else find_gpu(DEFAULT_GPU)
    try:
        setup = prepare(model, Settings(**given), gpu)
    except PlannerError as error:
        return error
    length = _length(log, setup)
    return Fit(setup, compare(setup, log.printed, source, length), block_lines(log, setup), length, changes)


def _length(log: Log, setup: Setup) -> int:
    """The length that concurrency and tokens are of."""
    for name in ("concurrency_tokens", "refused_max_model_len", "max_model_len"):
        if name in log.printed:
            return max(1, int(log.printed[name].value))
    return max(1, setup.max_model_len)
