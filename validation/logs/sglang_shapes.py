"""The lines that SGLang prints about memory while it starts, with the releases that print them so.

"GB" is 2**30 with two decimals, but of host pools, which are 10**9. Every rank prints its pools; the printed tokens are those of
the least rank. K and V are halves of one pool.

Source: server_args.py, model_executor/, mem_cache/ and managers/scheduler.py of the wheels 0.2.15 to 0.5.23; public logs.
"""

from __future__ import annotations

from typing import Final

from validation.logs.shapes import Shape, shape

_LABEL: Final = r"(?:(?P<label>[\w./ -]{1,40}?) )?"
_DTYPE: Final = r"dtype: (?P<dtype>[\w.]{1,40}), "

SHAPES: Final[tuple[Shape, ...]] = (
    shape(
        "Init torch distributed ends.",
        r"Init torch distributed ends\..{0,60}?mem usage={distributed_bytes:X} ?GB",
        "taken by NCCL",
        "0.3 on",
    ),
    shape("Load weight begin.", r"Load weight begin\. avail mem={avail_before_load_bytes:X} ?GB", "free before the weights"),
    shape(
        "Load weight end.",
        r"Load weight end\.(?: elapsed=[\d.]{1,12} s,)?(?: type=(?P<architecture>\w{1,80}))?(?:, dtype=torch\.\w{1,20})?"
        r".{0,120}?avail mem={avail_after_load_bytes:X} ?GB(?:, mem usage={weights_bytes:X} ?GB)?",
        "free after the weights, and what they took",
    ),
    shape(
        "Using KV cache dtype:",
        r"Using KV cache dtype: torch\.(?P<dtype>\w{1,20})",
        "how the cache is stored",
        "0.5.3 to 0.5.12",
        since="0.5.3",
        until="0.5.15",
    ),
    shape(
        "is allocated. K size:",
        r"KV Cache is allocated\. K size: {k_bytes:X} ?GB, V size: {v_bytes:X} ?GB",
        "halves of one pool",
        "to 0.4.2",
        until="0.4.3",
    ),
    shape(
        "is allocated. #tokens:",
        rf"{_LABEL}KV Cache is allocated\. #tokens: {{tokens:N}}, K size: {{k_bytes:X}} ?GB, "
        r"V size: {v_bytes:X} ?GB",
        "token slots without the padding page, and halves of one pool",
        "0.4.3 to 0.5.12",
        since="0.4.3",
        until="0.5.15",
    ),
    shape(
        "is allocated. #tokens:",
        rf"{_LABEL}KV Cache is allocated\. #tokens: {{tokens:N}}, KV size: {{latent_bytes:X}} ?GB",
        "a latent pool, the same on every rank",
        "0.4.6 to 0.5.12",
        since="0.4.6",
        until="0.5.15",
    ),
    shape(
        "is allocated. dtype:",
        rf"{_LABEL}KV Cache is allocated\. {_DTYPE}#tokens: {{tokens:N}}, K size: {{k_bytes:X}} ?GB, "
        r"V size: {v_bytes:X} ?GB",
        "token slots without the padding page, and halves of one pool",
        "0.5.15 on",
        since="0.5.15",
    ),
    shape(
        "is allocated. dtype:",
        rf"{_LABEL}KV Cache is allocated\. {_DTYPE}#tokens: {{tokens:N}}, KV size: {{latent_bytes:X}} ?GB",
        "a latent pool, the same on every rank",
        "0.5.15 on",
        since="0.5.15",
    ),
    shape(
        "VA upper bound",
        r"VA upper bound\. .{0,60}?#tokens: {virtual_tokens:N}",
        "addresses reserved, not memory",
        "0.5.20 on",
        since="0.5.20",
    ),
    shape(
        "SWAKVPool VA upper bound",
        r"SWAKVPool VA upper bound: {virtual_bytes:X} ?GB",
        "addresses reserved, not memory",
        "0.5.20 on",
        since="0.5.20",
    ),
    shape(
        "SWAKVPool mem usage:",
        r"SWAKVPool mem usage: {both_pools_bytes:X} ?GB, swa size: {swa_size:N}, full size: {full_size:N}",
        "the sum of the two pools before it",
        "0.5.3 on",
        since="0.5.3",
    ),
    *(
        shape(
            f"se {word}liding window memory pool",
            rf"se {word}liding window memory pool(?: \(all SWA\))?\. "
            r"(?:full_layer_tokens={full_tokens:N}, )?swa_layer_tokens={swa_tokens:N}",
            "slots of the two pools",
            when,
            since=since,
        )
        for word, when, since in (("S", "0.4.10 to 0.5.8", "0.4.10"), ("s", "0.5.9 on", "0.5.9"))
    ),
    shape(
        "Mamba Cache is allocated.",
        r"Mamba Cache is allocated\. max_mamba_cache_size: {mamba_slots:N}, conv_state size: "
        r"{conv_bytes:X} ?GB, ssm_state size: {ssm_bytes:X} ?GB ?(?:,? ?intermediate_ssm_state_cache size: "
        r"{intermediate_ssm_bytes:X} ?GB ?)?(?:,? ?intermediate_conv_window_cache size: {intermediate_conv_bytes:X} ?GB)?",
        "state slots as printed; the sizes are of one slot more",
        "0.5.3 on",
        since="0.5.3",
    ),
    shape("Memory pool end.", r"Memory pool end\. avail mem={avail_after_pool_bytes:X} ?GB", "free after the pools"),
    shape(
        "cuda graph begin.",
        r"[Cc]apture (?P<draft>draft )?.{0,30}?cuda graph begin\..{0,80}?avail mem={avail_before_graphs_bytes:X} ?GB",
        "free before graphs are captured",
    ),
    shape(
        "graph end.",
        r"[Cc]apture (?P<draft>draft )?.{0,40}?graph end\..{0,80}?mem usage={graphs_bytes:X} ?GB\. "
        r"avail mem={avail_after_graphs_bytes:X} ?GB",
        "graphs, and free after them",
        "0.5 on",
    ),
    shape(
        "graph end.",
        r"[Cc]apture (?P<draft>draft )?.{0,40}?graph end\..{0,60}?avail mem={avail_after_graphs_bytes:X} ?GB\. "
        r"mem usage={graphs_bytes:X} ?GB",
        "graphs, and free after them",
        "0.4",
    ),
    shape(
        "max_total_num_tokens=",
        r"max_total_num_tokens={max_total_num_tokens:N}(?:, chunked_prefill_size={chunked_prefill_size:N})?"
        r"(?:, max_prefill_tokens={max_prefill_tokens:N})?(?:, max_running_requests={max_running_requests:N})?"
        r"(?:, context_len={context_len:N})?(?:, available_[cg]pu_mem={left_over_bytes:X} ?GB)?",
        "tokens that all requests of the replica share; what is left over is not the pool",
    ),
    shape(
        "max_total_tokens=",
        r"max_total_tokens={max_total_tokens_asked:N} is larger than the profiled value "
        r"{max_total_tokens_profiled:N}",
        "the asked tokens were lowered",
    ),
    shape(
        "host memory for hierarchical",
        r"Allocating {host_bytes:X} ?GB host memory for hierarchical",
        "host memory, 10**9",
        "0.4.4 on",
        unit="GB",
    ),
    shape(
        "hierarchical KV host pool",
        r"Allocating \w+ hierarchical KV host pool: {host_tokens:N} tokens, {host_bytes:X} ?GB",
        "host memory, 10**9",
        "0.5.20 on",
        unit="GB",
        since="0.5.20",
    ),
    shape(
        "of the KV budget",
        r"Reserving {reserved_bytes:X} ?GB of the KV budget",
        "kept for a multimodal feature cache",
        "0.5.20 on",
        since="0.5.20",
    ),
    shape(
        "Loaded weights leave no GPU memory",
        r"--mem-fraction-static=(?P<fraction>\d\.\d{1,20})\..{0,40}?above "
        r"(?P<suggested>\d\.\d{1,6}).{0,60}?pre = (?P<least>\d\.\d{1,6})",
        "refused: the weights take the static share",
        "0.5.15 on",
        since="0.5.15",
    ),
    shape(
        "Not enough memory.",
        r"Not enough memory\. Please try to increase --mem-fraction-static(?P<refused>)"
        r"(?:.{0,60}?mem_fraction_static=(?P<fraction>\d\.\d{1,20}))?",
        "refused: nothing is left for the pool",
    ),
    shape(
        "[unified-memory-pool]",
        r"total_bytes=(?:[\d.]{1,20} GB \(=)?(?P<unified_bytes>\d{4,18})",
        "full and state pool in one buffer",
        "2026",
        unit="B",
    ),
    shape("avail mem", r"Reduce --mem-fraction-static to (?P<fraction>\d\.\d{1,20})", "the fraction was lowered", "0.4"),
    # lines of a branch that printed its own budget
    shape(
        "available_bytes",
        r"available_bytes (?P<available_bytes>\d{6,18}) / ",
        "the budget before a correction",
        "a branch",
        unit="B",
    ),
    shape(
        "candidate_kv_budget",
        r"candidate_kv_budget (?P<budget_bytes>\d{6,18}) / ",
        "the budget of the pool",
        "a branch",
        unit="B",
    ),
    shape(
        "workspace_buffer size",
        r"workspace_buffer size: {workspace_bytes:X} ?GB",
        "an attention workspace beside the pool",
        "a branch",
    ),
    shape("mem_fraction_static ", r"server_args\.mem_fraction_static (?P<fraction>\d\.\d{1,20})", "the fraction", "a branch"),
)
#: Starts that other lines have too.
COMMON: Final = frozenset(
    {
        "avail mem",
        "[unified-memory-pool]",
        "max_total_tokens=",
        "mem_fraction_static ",
        "available_bytes",
        "VA upper bound",
    }
)
#: Groups that are counts; names that end in _bytes are amounts, all others words.
COUNTS: Final = frozenset(
    {
        "tokens",
        "virtual_tokens",
        "swa_size",
        "full_size",
        "full_tokens",
        "swa_tokens",
        "mamba_slots",
        "max_total_num_tokens",
        "chunked_prefill_size",
        "max_prefill_tokens",
        "max_running_requests",
        "context_len",
        "max_total_tokens_asked",
        "max_total_tokens_profiled",
        "host_tokens",
    }
)
