"""vLLM's settings under its own flag names."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, InstanceOf, field_validator, model_validator

from planner.engines.base import EngineSettings
from planner.errors import InputError
from planner.model import Model

SpeculativeMethod = Literal["mtp", "eagle", "eagle3", "draft_model", "ngram", "suffix"]


class SpeculativeConfig(EngineSettings):
    """--speculative-config: what drafts tokens. `model` is the draft's own description (eagle, eagle3, draft_model)."""

    method: SpeculativeMethod
    num_speculative_tokens: int = Field(default=1, ge=1, le=1024)
    model: InstanceOf[Model] | None = None

    @model_validator(mode="after")
    def _has_its_draft(self) -> SpeculativeConfig:
        if self.method in ("eagle", "eagle3", "draft_model") and self.model is None:
            raise ValueError(f"method {self.method} needs the draft's description in `model`")
        return self


class Settings(EngineSettings):
    """The flags of `vllm serve` that decide its KV cache; absent ones have the version's default.

    max_model_len: None is the model's own limit, -1 the largest that fits. kv_cache_dtype: "auto" is the model's dtype unless
    the checkpoint says otherwise. block_size: tokens a block, chosen by attention backend when None.
    max_num_batched_tokens, max_num_seqs: by GPU memory when None. enable_prefix_caching, async_scheduling: by model.
    kv_cache_dtype_skip_layers: layer numbers, or "sliding_window", that keep the model's dtype.
    kv_cache_memory_bytes: the budget itself, in place of a share of the GPU. enable_lora: slots for max_loras adapters of up to
    max_lora_rank on lora_target_modules, all where none are named. kv_offloading_size: GiB of host memory for blocks, all ranks
    together; swap_space: the same of engine V0, a GPU. cpu_offload_gb: GiB of each GPU's weights that stay in host memory.
    """

    version: str = "0.33.0"
    dtype: Literal["auto", "half", "float16", "bfloat16", "float", "float32"] = "auto"
    kv_cache_dtype: str = "auto"
    tensor_parallel_size: int = Field(default=1, ge=1, le=4096)
    pipeline_parallel_size: int = Field(default=1, ge=1, le=4096)
    decode_context_parallel_size: int = Field(default=1, ge=1, le=4096)
    data_parallel_size: int = Field(default=1, ge=1, le=65536)
    block_size: int | None = Field(default=None, ge=1, le=1 << 20)
    max_model_len: int | None = Field(default=None, ge=-1, le=1 << 31)
    max_num_batched_tokens: int | None = Field(default=None, ge=1, le=1 << 31)
    max_num_seqs: int | None = Field(default=None, ge=1, le=1 << 31)
    async_scheduling: bool | None = None
    enable_prefix_caching: bool | None = None
    disable_hybrid_kv_cache_manager: bool = False
    kv_cache_dtype_skip_layers: tuple[str, ...] = ()
    num_gpu_blocks_override: int | None = Field(default=None, ge=1, le=1 << 40)
    kv_cache_memory_bytes: int | None = Field(default=None, ge=1)
    mamba_cache_dtype: Literal["auto", "float16", "bfloat16", "float32"] = "auto"
    mamba_ssm_cache_dtype: Literal["auto", "float16", "bfloat16", "float32"] = "auto"
    runner: Literal["auto", "generate", "pooling"] = "auto"
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)
    language_model_only: bool = False
    speculative_config: SpeculativeConfig | None = None
    enable_lora: bool = False
    max_loras: int = Field(default=1, ge=1, le=4096)
    max_lora_rank: int = Field(default=16, ge=1, le=1 << 16)
    max_cpu_loras: int | None = Field(default=None, ge=1, le=1 << 20)
    lora_dtype: Literal["auto", "float16", "bfloat16"] = "auto"
    lora_target_modules: tuple[str, ...] = ()
    fully_sharded_loras: bool = False
    kv_offloading_size: float | None = Field(default=None, gt=0, le=1 << 20)
    kv_offloading_backend: Literal["native", "lmcache"] = "native"
    swap_space: float | None = Field(default=None, ge=0, le=1 << 20)
    cpu_offload_gb: float = Field(default=0, ge=0, le=1 << 20)

    @field_validator("max_model_len")
    @classmethod
    def _length(cls, value: int | None) -> int | None:
        if value == 0:
            raise ValueError("must be a length of at least 1, or -1 to solve for the largest that fits")
        return value

    @field_validator("kv_cache_dtype_skip_layers", "lora_target_modules", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(str(entry) for entry in value) if isinstance(value, list | tuple) else value

    @field_validator("speculative_config", mode="before")
    @classmethod
    def _described(cls, value: Any) -> Any:
        try:
            return SpeculativeConfig(**value) if isinstance(value, dict) else value
        except InputError as error:
            raise ValueError(error.message) from None
