"""The lines that TensorRT-LLM prints about its cache, with the releases that print them so. GiB and GB are 2**30.

The C++ engines print without a time, the Python ones with one. Source: kvCacheManager.cpp, trtGptModelInflightBatching.cpp,
resource_manager.py, _util.py of 0.5 to 1.4; public logs.
"""

from __future__ import annotations

from typing import Final

from validation.logs.shapes import Shape, shape

SHAPES: Final[tuple[Shape, ...]] = (
    shape("TensorRT-LLM version", r"TensorRT-LLM version:? ?(?P<version>\d+\.\d+(?:\.\d+)?[\w.]{0,20})", "the release"),
    shape(
        "Allocated ",
        r"Allocated {kv_bytes:X} GiB for max tokens in paged KV cache \({kv_tokens:N}\)",
        "blocks x tokens of a block, and their volume; twice in the PyTorch backend",
        "0.9 on",
    ),
    shape("Number of tokens per block:", r"Number of tokens per block: {tokens_per_block:N}", "a block"),
    shape(
        "blocks per sequence:",
        r"Max KV cache blocks per sequence: {blocks_per_sequence:N}(?: \[window size={window:N}\])?",
        "one request of the longest length; a line for each window",
        "1.0 on",
    ),
    shape("pages per sequence:", r"Max KV cache pages per sequence: {blocks_per_sequence:N}", "one request", "to 0.20"),
    shape("tokens per block=", r"tokens per block={tokens_per_block:N}", "a block", "1.0 on"),
    shape("primary blocks=", r"primary blocks={primary_blocks:N}", "blocks of the pool", "1.0 on"),
    shape("secondary blocks=", r"secondary blocks={secondary_blocks:N}", "blocks in host memory", "1.0 on"),
    shape(
        "KV cache primary pool:",
        r"KV cache primary pool: {primary_blocks:N}(?:, size of block in bytes: {block_bytes:N})?",
        "blocks of the least rank",
        "to 1.0",
        unit="B",
    ),
    shape("KV cache secondary pool:", r"KV cache secondary pool: {secondary_blocks:N}", "blocks in host memory", "to 1.0"),
    shape(
        "calculating max tokens in paged kv cache",
        r"paged kv cache: total: {total_bytes:X} GiB, available: {available_bytes:X} GiB",
        "the card, and what the fraction is taken of",
    ),
    shape(
        "Max tokens in paged KV cache",
        r"Max tokens in paged KV cache: {kv_tokens:N}\. Allocating {kv_exact_bytes:N} bytes",
        "tokens, rounded to blocks or not",
        "0.5 to 0.8",
        unit="B",
    ),
    shape("for k/v cache", r"Allocate {kv_exact_bytes:N} bytes for k/v cache", "the pool", "0.5 to 0.8", unit="B"),
    shape("tokens in paged KV cache", r"Using {kv_tokens:N} tokens in paged KV cache", "tokens", "0.5 to 0.8"),
    shape(
        "kv_cache_config.max_tokens",
        r"max_tokens is set by kv_cache_config\.max_tokens: {max_tokens_set:N}",
        "what limits the tokens: the profiler's own limit before the trial, a setting after it",
        "1.0 on",
    ),
    shape(
        "Both free_gpu_memory_fraction and max_tokens",
        r"are set \(to (?P<free_gpu_memory_fraction>\d\.\d{1,20}) and "
        r"{max_tokens_set:N} with free memory {free_bytes:X}",
        "the smaller of the two counts",
    ),
    shape(
        "Attention window size",
        r"Attention window size {window_asked:N} exceeds upper bound {window_most:N}",
        "the context is cut",
    ),
    shape("Adjusted max_seq_len", r"Adjusted max_seq_len to {max_seq_len_adjusted:N}", "the context is cut"),
    shape("for model weights", r"[Uu]ses? {weights_bytes:X} GB for model weights", "GB is 2**30"),
    shape(
        "after loading model weights (inside torch)",
        r"\(inside torch\) in memory usage profiling: {weights_torch_bytes:X} ?GiB",
        "PyTorch backend",
    ),
    shape(
        "after loading model weights (outside torch)",
        r"\(outside torch\) in memory usage profiling: {weights_other_bytes:X} ?GiB",
        "PyTorch backend",
    ),
    shape(
        "dynamically allocated during inference",
        r"during inference \(inside torch\).{0,60}?: {activation_bytes:X} ?GiB",
        "PyTorch backend",
    ),
    shape("Memory used outside torch", r"outside torch \(e\.g\..{0,60}?: {outside_bytes:X} ?GiB", "NCCL and CUDA graphs"),
    shape(
        "Peak memory during memory usage profiling",
        r"\(torch \+ non-torch\): {peak_bytes:X} ?GiB, available KV cache memory when "
        r"calculating max tokens: {budget_bytes:X} ?GiB, fraction is set "
        r"(?P<free_gpu_memory_fraction>\d(?:\.\d{1,20})?), kv size is "
        r"{bytes_per_token:N}\.? device total memory {total_bytes:X} ?GiB, ,? ?tmp kv_mem {trial_bytes:X} ?GiB",
        "the trial run; kv size is bytes of a token on this rank",
        "1.0 on",
    ),
    shape(
        "Estimated max memory in KV cache", r"Estimated max memory in KV cache ?: {budget_bytes:X} ?GiB", "the budget", "1.0 on"
    ),
    shape(
        "PyTorch memory fraction",
        r"PyTorch memory fraction to (?P<torch_fraction>\d(?:\.\d{1,20})?) \({torch_cap_bytes:X} ?GiB\)",
        "a cap for torch outside the cache, not the cache's fraction",
    ),
    shape(
        "self KV cache primary pool",
        r"self KV cache primary pool: {primary_blocks:N}, in cross KV cache primary pool: {cross_blocks:N}",
        "encoder-decoder",
    ),
)
#: Starts that other lines have too.
COMMON: Final = frozenset({"Allocated ", "TensorRT-LLM version", "tokens in paged KV cache", "for model weights"})
#: Groups that are counts; names that end in _bytes are amounts, all others words.
COUNTS: Final = frozenset(
    {
        "kv_tokens",
        "tokens_per_block",
        "blocks_per_sequence",
        "window",
        "primary_blocks",
        "secondary_blocks",
        "max_tokens_set",
        "window_asked",
        "window_most",
        "max_seq_len_adjusted",
        "cross_blocks",
        "bytes_per_token",
    }
)
