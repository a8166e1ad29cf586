"""llama.cpp, and Ollama on top of it: everything is allocated when the server starts, whatever is asked later.

Held to llama.cpp's own allocations of real GGUF files (docs/COVERAGE.md). Other files of this engine: `llama_cpp_table`
(versions, types), `llama_cpp_context` (rounding), `llama_cpp_memory` (bytes), `llama_cpp_checks` (refusals),
`llama_cpp_ollama` (Ollama's defaults and environment).
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.cache import check_count
from planner.engines import llama_cpp_ollama as ollama
from planner.engines.base import Pool, PoolGroup
from planner.engines.llama_cpp_checks import check_types, flash_attention
from planner.engines.llama_cpp_command import command
from planner.engines.llama_cpp_context import Asked, context
from planner.engines.llama_cpp_memory import LlamaCppBytes, Plan, allocate, row_elements
from planner.engines.llama_cpp_search import Fit, search
from planner.engines.llama_cpp_settings import Settings
from planner.engines.llama_cpp_table import (
    NAME,
    Era,
    architectures,
    cache_types,
    check_known,
    era_of,
    eras,
    table,
)
from planner.engines.llama_cpp_trained import trained_context
from planner.errors import EngineRefusal, InputError
from planner.hardware import Gpu
from planner.hardware import gpu as find_gpu
from planner.layers import Full, Layer, State
from planner.model import Model
from planner.texts import tell
from planner.units import GIB

__all__ = ["VERSIONS", "LlamaCppBytes", "Settings", "cache_bytes", "launch_command", "name", "pool"]

name = NAME
#: The version rows: the commit that was read for each (or the build near its change), and since when.
VERSIONS = {row.commits[-1] if row.commits else f"b{row.build}": str(row.date) for row in eras()}


def cache_bytes(
    model: Model,
    settings: Settings | None = None,
    tokens: int = 0,
    requests: int = 1,
    encoder_tokens: int = 0,
    prompt_tokens: int | None = None,
) -> LlamaCppBytes:
    """What llama.cpp allocates at start for this model and these settings, in bytes.

    total = sum over layers of row(K) x cells x streams + row(V) x cells x streams, plus for each recurrent layer
    float32 states x n_seq_max x (1 + n_rs_seq). Indexer, compressed and sliding pools have cells of their own.

    tokens, requests: where the settings leave n_ctx and n_seq_max out, `requests` sequences of `tokens` cells each. The
    rest of the arguments other engines ask for does not matter here.
    Errors: EngineRefusal (what llama.cpp does not start with), InputError.

    Source: llama_cpp_memory.py, llama_cpp_context.py; measured with llama.cpp 0c1e57098, 4227c9be4 and 7841fc723.
    """
    settings = settings or Settings()
    tokens, requests = check_count(tokens, "tokens"), check_count(requests, "requests", 1)
    if tokens and settings.n_ctx is None:
        sequences = settings.n_seq_max or requests
        settings = settings.model_copy(update={"n_ctx": tokens * sequences, "n_seq_max": sequences})
    elif requests > 1 and settings.n_seq_max is None:
        settings = settings.model_copy(update={"n_seq_max": requests})
    era = ollama.era_of(settings.version) if settings.front_end == "ollama" else era_of(settings.version)
    arch = check_known(architectures().of(model), model, era)
    layers = _layers(model, settings, arch)
    k_type, v_type = cache_types()[settings.cache_type_k], cache_types()[settings.cache_type_v]
    flash = flash_attention(_flash_asked(settings, era), era, arch, layers, v_type)
    check_types(model, arch, layers, era, flash, k_type, v_type)
    asked, warnings = _asked(model, settings, arch, flash)
    plan = _plan(model, settings, asked, layers, era, arch)
    if settings.n_rs_seq and plan.copies == 1 and any(isinstance(c, State) for x in layers for c in x.caches):
        warnings = (*warnings, tell("llama.rollback", arch=arch))
    return allocate(layers, plan, warnings)


def _flash_asked(settings: Settings, era: Era) -> str:
    value = settings.flash_attn
    if isinstance(value, bool):
        return "on" if value else "off"
    return value or era.flash_attn


def _layers(model: Model, settings: Settings, arch: str) -> tuple[Layer, ...]:
    """The layers that the context keeps a cache for. EngineRefusal for a draft context of a model without draft layers."""
    draft = model.engine_layers.get(f"{name} mtp")
    if settings.ctx_type == "mtp" and not draft:
        raise EngineRefusal(f"{model.name} has no draft (MTP) layers, so llama.cpp has no mtp context for it", engine=name)
    if architectures().has("no_cache", arch):
        return tuple(Layer() for _ in model.layers_for(name))
    if settings.ctx_type == "mtp" and not architectures().has("draft_graphs", arch):
        raise EngineRefusal(f"llama.cpp cannot run the draft (MTP) layers of {arch} in a context of their own", engine=name)
    return draft if settings.ctx_type == "mtp" and draft else model.layers_for(name)


def _asked(model: Model, settings: Settings, arch: str, flash: bool) -> tuple[Asked, tuple[str, ...]]:
    """The settings with the front end's defaults filled in."""
    defaults = table()["front_ends"][settings.front_end]
    sequences = settings.n_seq_max or defaults["n_seq_max"]
    warnings: list[str] = []
    n_ctx = settings.n_ctx
    if settings.front_end == "ollama":
        sequences, n_ctx, warnings = ollama.context(model, arch, settings.version, sequences, n_ctx)
    elif n_ctx is None:
        n_ctx = defaults["n_ctx"]
    if n_ctx == 0:
        n_ctx = trained_context(model, arch)
        if not n_ctx:
            raise InputError(f"n_ctx is 0 and {model.name} does not say how long its context is; give n_ctx", field="n_ctx")
    n_ubatch = settings.n_ubatch
    if n_ubatch is None:
        n_ubatch = ollama.batch(n_ctx // sequences) if settings.front_end == "ollama" else defaults["n_ubatch"]
    n_batch = settings.n_batch or max(defaults["n_batch"], n_ubatch if settings.front_end == "ollama" else 0)
    unified = settings.kv_unified
    if unified is None:
        unified = defaults["kv_unified"] or bool(defaults.get("unified_when_auto") and settings.n_seq_max is None)
    swa_full = defaults["swa_full"] if settings.swa_full is None else settings.swa_full
    causal = model.config.get(f"{arch}.attention.causal") is not False
    return Asked(n_ctx, sequences, n_batch, n_ubatch, swa_full, unified, flash, causal), tuple(warnings)


def _plan(model: Model, settings: Settings, asked: Asked, layers: tuple[Layer, ...], era: Era, arch: str) -> Plan:
    facts, draft = architectures(), settings.ctx_type == "mtp"
    own = {cache for layer in layers for cache in layer.caches}
    # Widths are compared over all layers of the file, in whichever context they are.
    every = own | {cache for layer in model.layers_for(name) for cache in layer.caches}
    every |= {cache for layer in model.engine_layers.get(f"{name} mtp", ()) for cache in layer.caches}
    recurrent = any(isinstance(cache, State) for cache in own)
    padded = era.v_padded and not asked.flash_attn
    return Plan(
        asked=asked,
        context=context(asked, era, hybrid=recurrent and any(not isinstance(cache, State) for cache in own)),
        era=era,
        arch=arch,
        k_type=cache_types()[settings.cache_type_k],
        v_type=cache_types()[settings.cache_type_v],
        copies=1 + (settings.n_rs_seq if facts.has("rollback", arch) else 0),
        v_widest=max((row_elements(cache, era)[1] for cache in every), default=0),
        v_head=max((cache.v_dim for cache in every if isinstance(cache, Full)), default=0),
        pads_empty=padded and not recurrent and not draft and not facts.has("no_cache", arch),
        key_only=facts.has("per_sequence_key_only", arch) and not draft,
    )


def pool(model: Model, settings: Settings | None = None, *, budget_bytes: int, gpu: str | Gpu | None = None) -> Pool:
    """What context, and how many slots, `budget_bytes` of memory hold.

    fits: what the settings ask for is allocated within the budget. tokens: the largest n_ctx that it holds with these
    n_seq_max slots, all slots together, by search over whole paddings (allocations never shrink as n_ctx grows). num_blocks =
    tokens / 256 and bytes_per_block is what the last 256 cells of it cost. max_concurrency: slots of the asked context.
    max_model_len: what one request can have: as asked, or where n_ctx is left to the model the most that fits, up to the
    trained context. A model whose memory does not grow with the context has no limit: tokens are then the trained ones.

    gpu: with front_end ollama its memory chooses the context. Errors: EngineRefusal, InputError.

    Source: cache_bytes; src/common/fit.cpp 266-275 at 0c1e57098 for lowering a context that was not asked for.
    """
    settings, budget = settings or Settings(), check_count(budget_bytes, "budget_bytes")
    if settings.front_end == "ollama" and settings.n_ctx is None and gpu is not None:
        found = find_gpu(gpu) if isinstance(gpu, str) else gpu
        arch = architectures().of(model) or ""
        slots, n_ctx, _ = ollama.context(model, arch, settings.version, settings.n_seq_max or 1, None, found.memory_bytes / GIB)
        settings = settings.model_copy(update={"n_ctx": n_ctx, "n_seq_max": slots})
    asked = cache_bytes(model, settings)
    unified = asked.n_stream == 1 and asked.requests > 1

    def need(n_ctx: int, sequences: int) -> int:
        update = {"n_ctx": n_ctx, "n_seq_max": sequences, "kv_unified": unified if asked.requests > 1 else settings.kv_unified}
        return cache_bytes(model, settings.model_copy(update=update)).total_bytes

    fit = search(need, budget, asked.n_ctx, asked.requests, per_slot=not unified)
    return _pool(model, settings, asked, fit, budget)


def _pool(model: Model, settings: Settings, asked: LlamaCppBytes, fit: Fit, budget: int) -> Pool:
    trained = model.max_context or 0
    share = asked.tokens
    if not settings.n_ctx and settings.front_end != "library":
        solved = fit.n_ctx // (1 if asked.n_stream == 1 else asked.requests) if fit.grows else trained
        share = min(solved, trained) if trained else solved
    groups: dict[tuple[str, int], list[int]] = {}
    for layer in asked.layers:
        for part in layer.parts:
            groups.setdefault((part.kind, part.positions), []).append(layer.index)
    return Pool(
        fits=asked.total_bytes <= budget,
        num_blocks=fit.n_ctx // 256 if fit.grows else 0,
        bytes_per_block=fit.bytes_per_256,
        tokens=fit.n_ctx if fit.grows else trained,
        max_concurrency=float(fit.slots),
        max_model_len=share,
        blocks_per_request=-(-asked.tokens // 256),
        groups=tuple(
            PoolGroup(kind, tuple(members), cells, asked.layers[members[0]].parts[0].bytes)
            for (kind, cells), members in groups.items()
        ),
        warnings=asked.warnings,
        details={
            "total_bytes": asked.total_bytes, "k_bytes": asked.k_bytes, "v_bytes": asked.v_bytes,
            "state_bytes": asked.state_bytes, "n_ctx": asked.n_ctx, "n_ctx_seq": asked.tokens, "n_seq_max": asked.requests,
        },
    )  # fmt: skip


def launch_command(model: Model, settings: Settings | None = None, cards: Sequence[Gpu] = ()) -> str:
    """The command (or the Python) that starts llama.cpp with these settings, its layers split over `cards` by their memory."""
    return command(model, settings or Settings(), cards)
