"""Which attention backend each cache gets on a GPU, and the block sizes that its kernels take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.engines.vllm_dtypes import KvFormat, Resolved, kv_format
from planner.engines.vllm_facts import Facts
from planner.engines.vllm_tables import table
from planner.errors import EngineRefusal, InputError, UnsupportedArchitecture
from planner.hardware import Gpu
from planner.layers import Compressed, Cross, Full, IndexKeys, Latent, LayerCache


@dataclass(frozen=True)
class Platform:
    """A GPU as the backend tables know it: its generation, the one whose rows it follows, and what its kernels have."""

    gpu: Gpu
    generation: str
    rows: str
    held: bool
    traits: Mapping[str, Any]

    @property
    def capability(self) -> int:
        """Ten times the compute capability; that of Hopper for a GPU without one."""
        digits = self.generation.removeprefix("sm")
        return int(digits) if digits.isdigit() else 90


def platform_of(gpu: Gpu) -> Platform:
    """The row of a GPU's generation. InputError for one that the tables do not cover: block sizes are not guessed."""
    generations = table("backends")["generations"]
    generation = "sm90" if gpu.id == "custom" else gpu.generation
    if generation not in generations or generation is None:
        raise InputError(
            f"the planner has vLLM's attention backends for NVIDIA GPUs from compute capability 7.0 on and AMD Instinct, not for"
            f" {gpu.name}", field="gpu",
        )  # fmt: skip
    row = generations[generation]
    return Platform(gpu, generation, row.get("like", generation), bool(row.get("held")) and gpu.id != "custom", row)


@dataclass(frozen=True)
class Backend:
    """A chosen backend: its kernels' block sizes, and the format that keys and values end up in."""

    name: str
    kernels: tuple[int, ...]
    kv: KvFormat

    def accepts(self, block_size: int) -> bool:
        return any(block_size % size == 0 for size in self.kernels)

    @property
    def smallest(self) -> int:
        return min(self.kernels)


class Chooser:
    """Chooses backends for one model on one platform; `user_block` removes the backends that cannot take it."""

    def __init__(
        self, facts: Facts, resolved: Resolved, platform: Platform, user_block: int | None, older: bool = False
    ) -> None:
        self.facts, self.resolved, self.platform, self.user_block, self.older = facts, resolved, platform, user_block, older
        sizes = {cache.k_dim for cache in facts.caches if isinstance(cache, Full) and not isinstance(cache, Cross)}
        # A model of two head sizes runs all layers on one backend where FlashAttention 4 is missing.
        self.mixed_heads = len(sizes) > 1 and bool(facts.traits.get("one_backend")) and not platform.traits.get("fa4")
        self._known: dict[tuple[Any, ...], Backend] = {}

    def backend(self, cache: LayerCache, kv: KvFormat | None = None) -> Backend:
        """The backend of one cache, keys and values in `kv`. EngineRefusal where none takes it."""
        kv = kv or self.resolved.attention
        key = (type(cache), getattr(cache, "k_dim", 0), getattr(cache, "v_dim", 0), kv.name)
        if key not in self._known:
            self._known[key] = self._choose(cache, kv)
        return self._known[key]

    def _choose(self, cache: LayerCache, kv: KvFormat) -> Backend:
        if "block" in self.facts.traits:
            name = self.facts.traits["block"]
            return self._fitting(name, kv)
        if isinstance(cache, Latent):
            return self._latent(self.resolved.latent)
        if isinstance(cache, IndexKeys):
            return Backend("indexer", (64,), kv)
        if isinstance(cache, Compressed):
            raise InputError("a compressed cache has a backend of its own only in DeepSeek-V4", field="model")
        assert isinstance(cache, Full)
        return self._dense(cache, kv)

    def _fitting(self, name: str, kv: KvFormat) -> Backend:
        kernels = tuple(table("backends")["kernels"][name])
        backend = Backend(name, kernels, kv)
        if self.user_block and not backend.accepts(self.user_block):
            raise self._refusal(f"{name} takes blocks of a multiple of {_listed(kernels)} tokens, not {self.user_block}")
        return backend

    def _refusal(self, why: str) -> EngineRefusal:
        where = f"on {self.platform.gpu.name} ({self.platform.generation})"
        return EngineRefusal(f"vLLM has no attention backend for {self.facts.model.name} {where}: {why}", engine="vllm")

    def _dense(self, cache: Full, kv: KvFormat) -> Backend:
        traits, rows = self.facts.traits, table("backends")["dense"][self.platform.rows]
        for row in rows:
            if not self._row_matches(row, cache, kv):
                continue
            kernels = self._kernels(row["backend"], kv)
            if self.user_block and not any(self.user_block % size == 0 for size in kernels):
                continue
            refuse = row.get("refuse", {})
            if kv.kv_class in refuse.get("kv", ()) or (refuse.get("alibi") and traits.get("alibi")):
                raise self._refusal(f"kv_cache_dtype {kv.name}: {refuse['because']}")
            if row["backend"] == "TRITON_ATTN" and kv.kv_class in ("fp8", "e5m2") and not self.platform.traits["fp8_triton"]:
                raise self._refusal(f"{kv.name} in the Triton backend needs compute capability 8.9; use kv_cache_dtype auto")
            return Backend(row["backend"], kernels, kv)
        block = f" and block_size {self.user_block}" if self.user_block else ""
        raise self._refusal(f"heads of {cache.k_dim} with kv_cache_dtype {kv.name}{block}")

    def _row_matches(self, row: Mapping[str, Any], cache: Full, kv: KvFormat) -> bool:
        traits = self.facts.traits
        if kv.kv_class not in row["kv"] or bool(row.get("unequal")) != (cache.k_dim != cache.v_dim):
            return False
        if row["backend"] == "FLASH_ATTN" and self.platform.traits.get("flash_attn") is False:
            return False
        if "mm_prefix" in row and row["mm_prefix"] != bool(traits.get("mm_prefix")):
            return False
        if row.get("sinks") is False and traits.get("sinks"):
            return False
        if row.get("cross") is False and isinstance(cache, Cross):
            return False
        if row.get("mixed_heads") is False and self.mixed_heads:
            return False
        heads = row.get("heads")
        if isinstance(heads, Mapping):
            width = cache.k_dim
            return bool(width % heads.get("multiple", 1) == 0 and heads.get("min", 0) <= width <= heads.get("max", width))
        return heads is None or cache.k_dim in heads

    def _kernels(self, name: str, kv: KvFormat) -> tuple[int, ...]:
        for row in table("backends")["wide_head_kernels"]:
            if (
                name in row["backends"]
                and self.platform.rows == row["generation"]
                and kv.kv_class in row["kv"]
                and self.facts.largest_head == row["largest_head"]
            ):
                return tuple(row["sizes"])
        return tuple(table("backends")["kernels"][name])

    def _latent_rows(self) -> list[dict[str, Any]]:
        tables = table("backends")
        if self.platform.rows not in tables["mla"]:
            raise UnsupportedArchitecture(
                f"the planner has no block sizes of vLLM's latent attention on {self.platform.gpu.name}",
                model_type=self.facts.model.model_type,
            )
        older = tables["older_mla"].get(self.platform.rows, []) if self.older else []
        return [*older, *tables["mla"][self.platform.rows]]

    def _latent(self, kv: KvFormat) -> Backend:
        sparse = any(isinstance(cache, IndexKeys) for cache in self.facts.caches)
        nope = self.facts.text.get("qk_nope_head_dim")
        for row in self._latent_rows():
            if row["sparse"] != sparse or not (kv.kv_class in row.get("kv", ()) or kv.name in row.get("formats", ())):
                continue
            if "nope" in row and nope not in row["nope"]:
                continue
            kernels = tuple(table("backends")["kernels"][row["backend"]])
            if self.user_block and not any(self.user_block % size == 0 for size in kernels):
                continue
            if row["backend"] == "TRITON_MLA" and kv.kv_class == "fp8" and not self.platform.traits["fp8_triton"]:
                raise self._refusal(f"{kv.name} in the Triton MLA backend needs compute capability 8.9; use kv_cache_dtype auto")
            becomes = row.get("becomes")
            kv = kv_format(becomes, self.facts.dtype) if becomes else kv
            return Backend(row["backend"], kernels, kv)
        kind = "sparse latent" if sparse else "latent"
        block = f" and block_size {self.user_block}" if self.user_block else ""
        raise self._refusal(f"{kind} attention with kv_cache_dtype {kv.name}{block}")


def _listed(sizes: tuple[int, ...]) -> str:
    return " or ".join(str(size) for size in sizes)
