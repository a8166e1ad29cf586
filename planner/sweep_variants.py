"""Variants of a sweep from common words: an engine's settings for a KV dtype and a split, under its own names."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from planner.cli_settings import settings_of
from planner.dtypes import storage_format
from planner.engines import engine as find_engine
from planner.errors import InputError
from planner.sweep import ARCHITECTURE, Variant


def variant(
    engine: str,
    kv_cache_dtype: str = "auto",
    tensor_parallel_size: int = 1,
    pipeline_parallel_size: int = 1,
    *,
    max_model_len: int | None = None,
    block_size: int | None = None,
    version: str | None = None,
    others: Iterable[str] = (),
) -> Variant:
    """A variant with the same words as the `kv` command. others: any other setting as "NAME=VALUE".

    Errors: InputError for an unknown engine, a dtype or a split that it does not have.
    """
    base = Variant(engine, None, kv_cache_dtype, tensor_parallel_size, pipeline_parallel_size)
    if engine == ARCHITECTURE:
        if base.tensor_parallel_size != 1 or base.pipeline_parallel_size != 1:
            raise InputError("the architecture alone is not split over GPUs; name an engine", field="tensor_parallel_size")
        if kv_cache_dtype != "auto":
            storage_format(kv_cache_dtype)
        return base
    find_engine(engine)
    words = argparse.Namespace(
        kv_cache_dtype=kv_cache_dtype,
        tensor_parallel_size=None if tensor_parallel_size == 1 else tensor_parallel_size,
        pipeline_parallel_size=None if pipeline_parallel_size == 1 else pipeline_parallel_size,
        max_model_len=max_model_len, block_size=block_size, cache_implementation=None, engine_version=version,
        set=list(others),
    )  # fmt: skip
    return Variant(engine, settings_of(engine, words), kv_cache_dtype, tensor_parallel_size, pipeline_parallel_size)
