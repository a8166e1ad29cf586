"""The lines that TGI's launcher, router and shards print, with the releases that print them so.

Source: launcher/src/main.rs, router and backends/v3/src/lib.rs, server/.../flash_causal_lm.py of 0.9.4 to 3.3.7; public logs.
"""

from __future__ import annotations

from typing import Final

from validation.logs.shapes import Shape, shape

SHAPES: Final[tuple[Shape, ...]] = (
    shape("KV-cache blocks:", r"KV-cache blocks: {blocks:N}, size: {block_size:N}", "blocks of rank 0", "2.0 on", since="2.0.0"),
    shape(
        "Setting max batch total tokens to",
        r"Setting max batch total tokens to {max_batch_total_tokens:N}",
        "the least of all shards: what the router serves at once",
    ),
    shape(
        "Inferred max batch total tokens:",
        r"Inferred max batch total tokens: {max_batch_total_tokens:N}",
        "the same, in a warning",
    ),
    shape(
        "max_batch_prefill_tokens` to",
        r"Default `max_batch_prefill_tokens` to {max_batch_prefill_tokens:N}",
        "the warm-up's batch",
        "2.0 on",
    ),
    shape("Default `max_", r"Default `max_(?P<which>input_tokens|total_tokens)` to {default_tokens:N}", "one request", "3.0 on"),
    shape(
        "Using attention ",
        r"Using attention (?P<attention>[\w-]{4,20}) - Prefix caching (?P<prefix>\w{4,5})",
        "the block's size",
        "2.3 on",
        since="2.3.0",
    ),
    shape("Using Attention = ", r"Using Attention = (?P<attention>[\w-]{4,20})", "the block's size", "2.3 on", since="2.3.0"),
    shape("Forcing attention to", r"Forcing attention to '(?P<attention>[\w-]{4,20})'", "the head's width needs another block"),
    shape(
        "Using prefill chunking", r"Using prefill chunking = (?P<chunking>\w{4,5})", "prompts are cut", "3.0 on", since="3.0.0"
    ),
    shape(
        "Free memory ",
        r"Free memory {free_bytes:X} ?GB ?, \(real: {real_free_bytes:X} ?GB",
        "at DEBUG; 10^9 bytes",
        "3.0 on",
        unit="GB",
    ),
    shape(
        "Not enough memory to handle",
        r"Not enough memory to handle {refused_prefill_tokens:N} prefill tokens",
        "refused: the warm-up's batch does not fit",
    ),
    shape(
        "automatic max batch total tokens",
        r"does not support (?P<no_pool>automatic max batch total tokens)",
        "no flash implementation",
    ),
    shape("text-generation-inference", r"text-generation-inference:(?P<version>\d+\.\d+\.\d+)", "the image's release"),
    shape("text-generation-router", r"\"?text-generation-router\"?[ :]+v?(?P<version>\d+\.\d+\.\d+)", "the release"),
)
#: Starts that other lines have too.
COMMON: Final = frozenset(
    {
        "Using attention ",
        "Default `max_",
        "Free memory ",
        "Using prefill chunking",
        "text-generation-inference",
        "text-generation-router",
    }
)
#: Groups that are counts; names that end in _bytes are amounts, all others words.
COUNTS: Final = frozenset(
    {
        "blocks",
        "block_size",
        "max_batch_total_tokens",
        "max_batch_prefill_tokens",
        "default_tokens",
        "refused_prefill_tokens",
    }
)
