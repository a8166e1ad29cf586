"""From a model, settings and a GPU to everything that a pool is computed from."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

from planner.engines.vllm_backends import Chooser, Platform, platform_of
from planner.engines.vllm_blocks import Layout, LayoutBuilder
from planner.engines.vllm_capacity import Capacity, Load, max_in_flight_tokens
from planner.engines.vllm_dtypes import Resolved, resolve
from planner.engines.vllm_facts import Facts, facts_of
from planner.engines.vllm_groups import bytes_per_block, group, stages
from planner.engines.vllm_refusals import check
from planner.engines.vllm_settings import Settings, SpeculativeConfig
from planner.engines.vllm_specs import SpecBuilder
from planner.engines.vllm_tables import Rules, rules_of, table
from planner.errors import EngineRefusal, UnsupportedArchitecture
from planner.hardware import Gpu
from planner.layers import Full, IndexKeys, Latent, Layer
from planner.model import Model
from planner.units import GIB

#: Storage of index keys and compressor states, which follow no KV format.
_OTHER = {"index", "float32"}
_DraftLayers = tuple[tuple[Layer, SpecBuilder], ...]


@dataclass(frozen=True)
class Setup:
    """A model under settings on a GPU, with every default resolved."""

    facts: Facts
    settings: Settings
    rules: Rules
    platform: Platform
    resolved: Resolved
    layout: Layout
    capacity: Capacity
    max_model_len: int
    max_num_batched_tokens: int
    max_num_seqs: int
    prefix_caching: bool
    async_scheduling: bool
    draft_layers: int

    @property
    def stored_format(self) -> str:
        """The format that most caches of keys, values or latents end up in."""
        found = Counter(p.spec.storage for p in self.layout.placed if p.spec.kind != "mamba" and p.spec.storage not in _OTHER)
        return found.most_common(1)[0][0] if found else self.resolved.attention.name


def prepare(model: Model, settings: Settings, gpu: Gpu) -> Setup:
    """Resolve defaults and lay the cache out. EngineRefusal for what vLLM refuses whatever the memory."""
    rules = rules_of(settings.version)
    facts = facts_of(model, settings)
    platform = platform_of(gpu)
    check(facts, settings)
    resolved = resolve(facts, settings, platform.generation)
    chooser = Chooser(facts, resolved, platform, settings.block_size, rules.backends == "old")
    prefix = _prefix_caching(facts, settings, rules)
    speculative = settings.speculative_config.num_speculative_tokens if settings.speculative_config else 0
    checkpoints = prefix and rules.mamba == "checkpoint"
    builder = LayoutBuilder(facts, settings, resolved, chooser, checkpoints=checkpoints, drafts=speculative)
    drafts = _draft_layers(facts, settings, builder.specs, platform)
    layout = builder.build(drafts)
    groups = group(layout, rules, settings.disable_hybrid_kv_cache_manager)
    cuts = stages(len(facts.layers), settings.pipeline_parallel_size, len(drafts))
    length = facts.native_length if settings.max_model_len in (None, -1) else int(settings.max_model_len or 0)
    batched, seqs = batch_defaults(facts, settings, gpu, length)
    asynchronous = not facts.pooling if settings.async_scheduling is None else settings.async_scheduling
    load = Load(
        in_flight=max_in_flight_tokens(batched, settings.pipeline_parallel_size, asynchronous, rules),
        encoder=batched, dcp=settings.decode_context_parallel_size, speculative=speculative, prefix_caching=prefix,
        extra=_draft_window(facts, settings.speculative_config),
    )  # fmt: skip
    capacity = Capacity(groups, tuple(bytes_per_block(groups, cut) for cut in cuts), load, rules)
    return Setup(
        facts, settings, rules, platform, resolved, layout, capacity, length, batched, seqs, prefix, asynchronous, len(drafts)
    )


def _prefix_caching(facts: Facts, settings: Settings, rules: Rules) -> bool:
    """On for decoders and hybrids; off where there is no attention to share, for encoders and encoder-decoders."""
    if not facts.has_attention:
        return False
    if settings.enable_prefix_caching is not None:
        return settings.enable_prefix_caching
    return not facts.encoder_decoder and (rules.hybrid_prefix_caching or not facts.has_state)


def batch_defaults(facts: Facts, settings: Settings, gpu: Gpu, length: int) -> tuple[int, int]:
    """max_num_batched_tokens and max_num_seqs of the API server where they are not set.

    16,384 and 1,024 from 160 GiB on; 8,192 and 1,024 from 70 GiB on but for the A100; else 2,048 and 256. Never more tokens than
    max_num_seqs requests of full length; never more requests than tokens. Encoders: at least one request's tokens.

    Source: vLLM 0.33.0, engine/arg_utils.py.
    """
    memory = gpu.usable_bytes
    large = memory >= 70 * GIB and not gpu.id.startswith(("a100", "a800")) and gpu.id != "dgx-spark"
    batched, seqs = (16384, 1024) if memory >= 160 * GIB else (8192, 1024) if large else (2048, 256)
    seqs = settings.max_num_seqs or seqs
    if settings.max_num_batched_tokens is None:
        batched = min(batched, seqs * length)
        batched = max(batched, facts.traits.get("min_batched", 0))
        if not facts.caches:
            batched = max(batched, length)
    else:
        batched = settings.max_num_batched_tokens
    return batched, settings.max_num_seqs or min(seqs, batched)


def kv_budget_bytes(settings: Settings, total_bytes: int, non_kv_bytes: int, cudagraph_bytes: int = 0) -> int:
    """What is left of one GPU for the cache; below 0 where nothing is.

    budget = ceil(total x gpu_memory_utilization) - everything else - the estimate of CUDA graphs (counted since 0.21).
    total_bytes: as PyTorch reports the device. non_kv_bytes: weights, the activation peak, and what lies outside PyTorch.
    kv_cache_memory_bytes, where set, is the budget itself.

    Source: vLLM 0.33.0, v1/worker/gpu_worker.py; defaults by version in vllm_versions.yaml.
    """
    if settings.kv_cache_memory_bytes:
        return settings.kv_cache_memory_bytes
    rules = rules_of(settings.version)
    share = settings.gpu_memory_utilization or rules.gpu_memory_utilization
    return math.ceil(total_bytes * share) - non_kv_bytes - (cudagraph_bytes if rules.cudagraph_estimate else 0)


def _draft_window(facts: Facts, speculative: SpeculativeConfig | None) -> int:
    """Tokens that windows keep for draft modules beyond the first."""
    if speculative is None or speculative.method != "mtp":
        return 0
    modules = facts.text.get("num_nextn_predict_layers")
    return max(0, modules - 1) if isinstance(modules, int) else 0


def _draft_layers(facts: Facts, settings: Settings, specs: SpecBuilder, platform: Platform) -> _DraftLayers:
    """The layers that a draft adds to the pool, on the last pipeline stage, each with what builds its specs."""
    speculative = settings.speculative_config
    if speculative is None or speculative.method in ("ngram", "suffix"):
        return ()
    if speculative.method == "mtp":
        return tuple((layer, specs) for layer in _mtp_layers(facts))
    assert speculative.model is not None
    own = settings.model_copy(update={"speculative_config": None, "dtype": "auto"})
    draft = replace(facts_of(speculative.model, own), dtype=facts.dtype)
    resolved = resolve(draft, own, platform.generation)
    builder = SpecBuilder(draft, settings, Chooser(draft, resolved, platform, settings.block_size), specs.speculative)
    return tuple((layer, builder) for layer in draft.layers)


def _mtp_layers(facts: Facts) -> tuple[Layer, ...]:
    """One layer like the model's own, whatever num_speculative_tokens is.

    Source: vLLM 0.33.0, the *_mtp model classes: held to the truth rows of variants mtp1 to mtp3.
    """
    if facts.traits.get("no_mtp"):
        raise EngineRefusal(f"vLLM has no MTP draft for {facts.model.model_type} under method mtp", engine="vllm")
    for row in table("models")["mtp"]:
        if facts.model.model_type not in row["types"] and facts.text_type not in row["types"]:
            continue
        wanted = {"latent": Latent, "indexed": IndexKeys, "full": Full}[row["like"]]
        for layer in reversed(facts.layers):
            if any(isinstance(cache, wanted) for cache in layer.caches):
                return (layer,)
    raise UnsupportedArchitecture(
        f"the planner does not know which caches vLLM's MTP draft of {facts.model.model_type} adds",
        model_type=facts.model.model_type,
    )
