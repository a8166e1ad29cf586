"""llama.cpp's settings under its own names."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.engines.base import EngineSettings

CacheType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]


class Settings(EngineSettings):
    """llama.cpp's own parameters; what is left out is the default of `front_end` at `version`.

    version: a build ("b6123"), a commit, a llama-cpp-python version or a date; with front_end ollama an Ollama version.
    n_ctx: cells of all sequences together, 0 for the context that the model was trained for. n_seq_max: sequences (`-np`).
    n_batch, n_ubatch: tokens of a batch and of one pass; the window's cells depend on it. cache_type_k, cache_type_v:
    storage. swa_full: sliding layers keep the whole context. kv_unified: all sequences share the cells. n_rs_seq: states
    kept back for speculative decoding. ctx_type: mtp is the draft layers' own context. front_end: library (and
    llama-cpp-python), cli, server (llama-server) or ollama. cache_ram: MiB of host memory for prompts that the server keeps
    (--cache-ram), 0 for none, -1 without a limit.
    """

    version: str | None = None
    n_ctx: int | None = Field(default=None, ge=0)
    n_seq_max: int | None = Field(default=None, ge=1)
    n_batch: int | None = Field(default=None, ge=1)
    n_ubatch: int | None = Field(default=None, ge=0)
    cache_type_k: CacheType = "f16"
    cache_type_v: CacheType = "f16"
    swa_full: bool | None = None
    kv_unified: bool | None = None
    flash_attn: Literal["auto", "on", "off"] | bool | None = None
    n_rs_seq: int = Field(default=0, ge=0)
    ctx_type: Literal["default", "mtp"] = "default"
    front_end: Literal["library", "cli", "server", "ollama"] = "library"
    cache_ram: int | None = Field(default=None, ge=-1)
