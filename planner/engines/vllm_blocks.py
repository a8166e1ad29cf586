"""Block sizes: the common one of all backends, each layer's own, and the alignment of attention blocks to states."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from planner.engines.vllm_backends import Backend, Chooser
from planner.engines.vllm_dtypes import KvFormat, Resolved
from planner.engines.vllm_facts import Facts
from planner.engines.vllm_settings import Settings
from planner.engines.vllm_specs import Placed, Spec, SpecBuilder, deepseek_v4, gdn_flashinfer, kv_heads_per_rank
from planner.errors import InputError, shown
from planner.layers import Chunked, Compressed, Cross, Full, IndexKeys, Latent, Layer, LayerCache, Sliding, State
from planner.units import ceil_div

#: Without --block-size vLLM starts from this and moves to the smallest size that every backend takes.
DEFAULT_BLOCK_SIZE = 16
#: Hybrids of latent attention and states align their blocks to this many tokens at least.
_MLA_HYBRID_ALIGNMENT = 128


def common_block_size(backends: list[Backend], user_block: int | None) -> int:
    """The user's block size, else 16 if every backend takes it, else the smallest that all take.

    Source: vLLM 0.33.0, platforms/interface.py, update_block_size_for_backend.
    """
    if user_block:
        return user_block
    if all(backend.accepts(DEFAULT_BLOCK_SIZE) for backend in backends):
        return DEFAULT_BLOCK_SIZE
    sizes = sorted({size for backend in backends for size in backend.kernels})
    accepted = [size for size in sizes if all(backend.accepts(size) for backend in backends)]
    return accepted[0] if accepted else math.lcm(*(backend.smallest for backend in backends))


@dataclass(frozen=True)
class Layout:
    """The specs of one rank's whole model, in layer order, and the block size that vLLM reports."""

    placed: tuple[Placed, ...]
    block_size: int
    backends: tuple[str, ...]
    packed: bool = False


class LayoutBuilder:
    """Decides block sizes and builds every spec of a model and its draft layers."""

    def __init__(
        self, facts: Facts, settings: Settings, resolved: Resolved, chooser: Chooser, *, checkpoints: bool, drafts: int
    ) -> None:
        self.facts, self.settings, self.resolved, self.chooser = facts, settings, resolved, chooser
        self.checkpoints = checkpoints  # states are kept at block borders, to the layer's own alignment
        self.specs = SpecBuilder(facts, settings, chooser, drafts)
        self.skipped = self._skipped_layers()

    def build(self, draft_layers: tuple[tuple[Layer, SpecBuilder], ...] = ()) -> Layout:
        """The layout of the model followed by its draft layers."""
        layers = self.facts.layers
        if self.facts.traits.get("block") == "FLASHMLA_SPARSE_DSV4":
            packed = (Placed(i, spec) for i, layer in enumerate(layers) for cache in layer.caches for spec in deepseek_v4(cache))
            return Layout(tuple(packed), 256, ("FLASHMLA_SPARSE_DSV4",), packed=True)
        backends = self._backends(draft_layers)
        block = common_block_size(backends, self.settings.block_size) if backends else DEFAULT_BLOCK_SIZE
        if self.skipped:
            block = self._skip_block_size(block)
        states = [self.specs.state(c, block) for c in self._unique_caches() if isinstance(c, State)]
        if states and self.facts.has_attention:
            block = self._aligned_block_size(block, states, backends)
        placed: list[Placed] = []
        for i, layer in enumerate(layers):
            placed += [Placed(i, self._spec(cache, i, block, self.specs)) for cache in layer.caches]
        for i, (layer, specs) in enumerate(draft_layers, start=len(layers)):
            placed += [Placed(i, self._spec(cache, i, block, specs)) for cache in layer.caches]
        names = tuple(dict.fromkeys(backend.name for backend in backends))
        return Layout(self._pad_states(placed, block), block, names)

    def _unique_caches(self) -> list[LayerCache]:
        return list(dict.fromkeys(self.facts.caches))

    def _backends(self, draft_layers: tuple[tuple[Layer, SpecBuilder], ...]) -> list[Backend]:
        found = [self.chooser.backend(cache) for cache in self._unique_caches() if not isinstance(cache, State)]
        if self.skipped:
            full = [cache for cache in self._unique_caches() if isinstance(cache, Full)]
            found += [self.chooser.backend(cache, self.resolved.plain) for cache in full]
        for layer, specs in draft_layers:
            found += [specs.chooser.backend(cache) for cache in layer.caches if not isinstance(cache, State)]
        return found

    def _skipped_layers(self) -> frozenset[int]:
        """Layers that keep the model's dtype: those asked for, and turboquant's first and last two."""
        attention = [i for i, layer in enumerate(self.facts.layers) if any(isinstance(c, Full) for c in layer.caches)]
        chosen: set[int] = set()
        if self.resolved.attention.kv_class == "turboquant":
            chosen |= {*attention[:2], *attention[-2:]}
        if self.resolved.attention.kv_class != "plain":
            for entry in self.settings.kv_cache_dtype_skip_layers:
                if entry == "sliding_window":
                    chosen |= {i for i in attention if any(isinstance(c, Sliding) for c in self.facts.layers[i].caches)}
                elif entry.isdigit() and int(entry) in attention:
                    chosen.add(int(entry))
                else:
                    raise InputError(
                        f"kv_cache_dtype_skip_layers: {shown(entry)} is neither sliding_window nor an attention layer's number",
                        field="kv_cache_dtype_skip_layers",
                    )
        return frozenset(chosen)

    def _skip_block_size(self, block: int) -> int:
        """With two formats in the pool: the block grows until a quantized page covers 16 tokens of an unquantized one."""
        caches = [c for c in self._unique_caches() if isinstance(c, Full)]
        if not caches:
            return block
        widest = max(caches, key=lambda c: c.k_dim + c.v_dim)
        plain = self.resolved.plain.head_token_bytes(widest.k_dim, widest.v_dim)
        packed = self.resolved.attention.alignment_bytes(widest.k_dim, widest.v_dim)
        return block * max(1, ceil_div(DEFAULT_BLOCK_SIZE * plain, block * packed))

    def _spec(self, cache: LayerCache, layer: int, block: int, specs: SpecBuilder) -> Spec:
        if isinstance(cache, State):
            return specs.state(cache, block)
        if isinstance(cache, Latent):
            return specs.latent(cache, block)
        if isinstance(cache, IndexKeys):
            return specs.index(cache, block)
        if isinstance(cache, Compressed) or not isinstance(cache, Full):
            raise specs._unknown(f"{type(cache).__name__.lower()} caches")
        kv = self.resolved.plain if layer in self.skipped else specs.chooser.resolved.attention
        spec = specs.attention(cache, block, kv)
        if isinstance(cache, Sliding) and not isinstance(cache, Chunked | Cross):
            spec = replace(spec, block_size=self._own_block_size(spec, cache, block, specs, kv))
        return spec

    def _own_block_size(self, spec: Spec, cache: Full, block: int, specs: SpecBuilder, kv: KvFormat) -> int:
        """A sliding layer's block: the most whole kernel blocks, at most the common block, whose page still fits the main one."""
        kernel = specs.chooser.backend(cache, kv).smallest
        main = self._token_bytes(specs.chooser.resolved.attention)
        fitting = min(block, main * block // spec.token_bytes) if main else block
        return max(kernel, fitting // kernel * kernel)

    def _token_bytes(self, kv: KvFormat) -> int:
        """One token of attention by the whole model's KV heads and head size, as alignment counts it."""
        for cache in self._unique_caches():
            if isinstance(cache, Latent):
                return self.specs.latent(cache, 1).token_bytes
        full = [c for c in self._unique_caches() if isinstance(c, Full) and not isinstance(c, Cross)]
        if not full:
            return 0
        return max(
            kv_heads_per_rank(c.kv_heads, self.settings.tensor_parallel_size) * kv.alignment_bytes(c.k_dim, c.v_dim) for c in full
        )

    def _aligned_block_size(self, block: int, states: list[Spec], backends: list[Backend]) -> int:
        """The block of a hybrid: large enough that one page of attention holds one state.

        B = align x ceil(state bytes / (align x bytes of one token)), rounded up to every backend's smallest kernel block.
        align = max(smallest kernel block, block size); latent hybrids at least 128; with prefix caching on a common multiple
        of that and 64 where gated delta nets prefill with FlashInfer.

        Source: vLLM 0.33.0, platforms/interface.py.
        """
        align = max([block, *(backend.smallest for backend in backends)])
        if self.facts.latent:
            align = max(align, _MLA_HYBRID_ALIGNMENT)
        if self.checkpoints and any(s.storage == "gated_delta_net" for s in states) and gdn_flashinfer(self.chooser, self.facts):
            align = math.lcm(align, 64)
        token = self._token_bytes(self.resolved.attention)
        wanted = align * ceil_div(max(spec.natural_bytes for spec in states), align * token)
        unit = math.lcm(*(backend.smallest for backend in backends))
        return max(block, ceil_div(wanted, unit) * unit)

    def _pad_states(self, placed: list[Placed], block: int) -> tuple[Placed, ...]:
        if not self.facts.has_state or not self.facts.has_attention:
            return tuple(placed)
        page = block * self._token_bytes(self.resolved.attention)
        return tuple(
            replace(p, spec=replace(p.spec, padded=page)) if p.spec.kind == "mamba" and page > p.spec.natural_bytes else p
            for p in placed
        )
