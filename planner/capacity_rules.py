"""The longest request of a deployment, and what engines refuse of it whatever the memory."""

from __future__ import annotations

from planner.capacity_demand import CONTEXT_WORDS
from planner.capacity_deploy import Deployment
from planner.engines import llama_cpp_ollama
from planner.engines.llama_cpp_table import architectures
from planner.engines.vllm_facts import facts_of
from planner.errors import EngineRefusal, InputError
from planner.texts import tell
from planner.units import GIB

#: Where neither the model nor the settings say how long a context may be.
_NO_LIMIT = 1 << 24
#: Engines that go beyond a model's own limit, with no more than a warning.
_WARN_ONLY = ("llama.cpp", "transformers")


def model_limit(deployment: Deployment) -> int | None:
    """Positions that the engine lets this model have; None where none is stated."""
    if deployment.engine == "vllm":
        return facts_of(deployment.model, deployment.settings).native_length
    return deployment.model.max_context


def context_limit(deployment: Deployment) -> int:
    """The longest context that is worth asking the engine for."""
    return model_limit(deployment) or _NO_LIMIT


def stated_context(deployment: Deployment) -> int:
    """The longest request as the settings say it, -1 where it is to be solved; the model's limit where they don't.

    Errors: InputError where nobody says; EngineRefusal beyond the model's limit.
    """
    name, settings, limit = deployment.engine, deployment.settings, model_limit(deployment)
    if name == "llama.cpp":
        asked = settings.n_ctx // (settings.n_seq_max or 1) if settings.n_ctx else _ollama(deployment)
    else:
        asked = getattr(settings, CONTEXT_WORDS[name]) if name in CONTEXT_WORDS else None
    work = deployment.workload
    if asked is None and (name in _WARN_ONLY or limit is None):
        asked = work.longest if work is not None else None
    if asked is None:
        if limit is None:
            word = CONTEXT_WORDS.get(name, "n_ctx" if name == "llama.cpp" else "workload")
            raise InputError(f"{deployment.model.name} states no context limit; say {word}", field=word)
        return limit
    if limit is not None and asked > limit and name not in _WARN_ONLY:
        word = CONTEXT_WORDS[name]
        raise EngineRefusal(
            f"{name} refuses this: {word} {asked:,} is beyond the {limit:,} positions that {deployment.model.name} was made for",
            engine=name, field=word,
        )  # fmt: skip
    return int(asked)


def _ollama(deployment: Deployment) -> int | None:
    """The context of a slot that Ollama takes by the GPU's memory where none is set; None for other front ends."""
    settings = deployment.settings
    if settings.front_end != "ollama" or deployment.workload is not None:
        return None
    arch = architectures().of(deployment.model) or ""
    return llama_cpp_ollama.context(deployment.model, arch, settings.version, 1, None, deployment.gpu.memory_bytes / GIB)[1]


def check_storage(deployment: Deployment) -> None:
    """EngineRefusal for a KV storage type that the GPU's generation has no kernels for.

    Source: `kv_fp8` and `kv_nvfp4` of each generation in planner/data/gpus.yaml. An amount of memory is no card to judge.
    """
    dtype, able = str(getattr(deployment.settings, "kv_cache_dtype", "auto")), deployment.gpu.supports
    if able is None:
        return
    refused = (dtype.startswith("fp8") and able.kv_fp8 == "no") or (dtype.startswith("nvfp4") and able.kv_nvfp4 != "native")
    if refused:
        generation = deployment.gpu.generation
        raise EngineRefusal(
            f"{deployment.engine} refuses this: a {dtype} cache has no attention kernels on {deployment.gpu.name} ({generation})",
            engine=deployment.engine, field="kv_cache_dtype",
        )  # fmt: skip


def check_slices(deployment: Deployment) -> None:
    """EngineRefusal for ranks, stages or layers spread over MIG slices: a process sees one slice, and slices have no peer access.

    Source: NVIDIA Multi-Instance GPU User Guide, "Deployment Considerations" (no GPU-to-GPU P2P; CUDA enumerates one instance).
    """
    size = deployment.tensor * deployment.pipeline * deployment.layer_split
    if deployment.gpu.mig_profile and (size > 1 or deployment.cards):
        raise EngineRefusal(
            f"{deployment.engine} refuses this: a process sees one MIG slice, and NCCL cannot join several; run a server on each"
            f" {deployment.gpu.mig_profile}, or take whole GPUs", engine=deployment.engine, field="gpu",
        )  # fmt: skip


def storage_warnings(deployment: Deployment) -> tuple[str, ...]:
    """A word where nothing is known of narrow caches on the GPU's generation."""
    dtype, able = str(getattr(deployment.settings, "kv_cache_dtype", "auto")), deployment.gpu.supports
    if dtype.startswith("fp8") and deployment.gpu.vendor and (able is None or able.kv_fp8 is None):
        return (tell("fp8_unknown", gpu=deployment.gpu.name, dtype=dtype),)
    return ()


def worst_length(deployment: Deployment, context: int) -> int:
    """Positions of the longest request that is planned for; a distribution without an end is cut at the context.

    Errors: InputError for requests that the engine would refuse as too long.
    """
    work = deployment.workload
    if work is None:
        return context
    longest = work.longest
    if longest is None:
        return context
    if longest - work.speculative_tokens > context:
        raise InputError(
            f"requests of up to {longest:,} tokens do not go into a context of {context:,}; raise it, or cut the requests",
            field="workload",
        )
    return min(longest, context)


def context_warnings(deployment: Deployment, context: int) -> tuple[str, ...]:
    """What an engine that goes beyond the model's limit says of it."""
    limit = model_limit(deployment)
    if limit is not None and context > limit:
        return (tell("over_limit", context=context, limit=limit, model=deployment.model.name, engine=deployment.engine),)
    return ()
