"""Start-up text of SGLang, TensorRT-LLM and TGI that prints what a public log's row states, in its version's shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.engines.versions import version_key

Entry = Mapping[str, Any]

#: Names of settings in SGLang's printed arguments.
_ARGS = {"tensor_parallel_size": "tp_size", "pipeline_parallel_size": "pp_size", "data_parallel_size": "dp_size"}
_NOT_ARGS = ("version", "max_total_tokens", "max_mamba_cache_size")


def text(entry: Entry, row: Mapping[str, Any]) -> str:
    """The log of a row of sglang_trtllm_tgi_logs.yaml whose settings are the golden file's `entry`."""
    write = {"sglang": _sglang, "tensorrt-llm": _tensorrt, "tgi": _tgi}[entry["engine"]]
    return "\n".join(write(entry, {**row["reported"], **entry["printed"]}, str(row["model"]))) + "\n"


def _at_least(entry: Entry, version: str) -> bool:
    return version_key(str(entry["settings"].get("version", "0.5.23"))) >= version_key(version)


def _sglang(entry: Entry, printed: Mapping[str, Any], model: str) -> Iterator[str]:
    settings = entry["settings"]
    args = {_ARGS.get(key, key): value for key, value in settings.items() if key not in _NOT_ARGS}
    given = ", ".join(f"{key}={value!r}" for key, value in {"model_path": model, **args}.items())
    yield f"[2026-03-01 12:00:00] server_args=ServerArgs({given}, load_format='auto', random_seed=42)"
    ranks = settings.get("tensor_parallel_size", 1)
    for rank in range(min(ranks, 4)):
        head = f"[2026-03-01 12:00:0{rank} TP{rank}] " if ranks > 1 else "[2026-03-01 12:00:01] "
        yield from (head + line for line in _rank(entry, printed))
    total = printed.get("full_tokens") or printed.get("kv_tokens") or settings.get("max_total_tokens")
    limits = f", max_running_requests={printed['max_running_requests']}" if "max_running_requests" in printed else ""
    context = f", context_len={printed.get('context_len', 131072)}" if limits and "mamba_slots" not in printed else ""
    if not isinstance(total, list):
        batch = f"chunked_prefill_size=8192, max_prefill_tokens=16384{limits}{context}"
        yield f"[2026-03-01 12:00:09 TP0] max_total_num_tokens={total}, {batch}"


def _rank(entry: Entry, printed: Mapping[str, Any]) -> Iterator[str]:
    settings = entry["settings"]
    if "free" in entry:
        before, after = entry["free"]
        yield f"Load weight begin. avail mem={before:.2f} GB"
        taken = f"avail mem={after:.2f} GB, mem usage={before - after:.2f} GB."
        yield f"Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, {taken}"
    if "mamba_slots" in printed:
        draft = (
            f"intermediate_ssm_state_cache size: {printed['intermediate_ssm_gb']:.2f}GB "
            if "intermediate_ssm_gb" in printed
            else ""
        )
        yield (
            f"Mamba Cache is allocated. max_mamba_cache_size: {printed['mamba_slots']},"
            f" conv_state size: {printed['conv_gb']:.2f}GB,"
            f" ssm_state size: {printed['ssm_gb']:.2f}GB {draft}"
        )
    tokens = printed.get("full_tokens") or printed.get("kv_tokens") or settings["max_total_tokens"]
    if "swa_tokens" in printed:
        word = "s" if _at_least(entry, "0.5.9") else "S"
        counts = f"full_layer_tokens={printed['full_tokens']}, swa_layer_tokens={printed['swa_tokens']}"
        yield f"Use {word}liding window memory pool. {counts}"
        yield _allocated(entry, printed["swa_tokens"], printed["swa_k_gb"], printed.get("swa_v_gb", printed["swa_k_gb"]))
        if "full_k_gb" in printed:
            yield _allocated(entry, tokens, printed["full_k_gb"], printed["full_k_gb"])
    elif "kv_gb" in printed:
        yield _allocated(entry, tokens, printed["kv_gb"], None)
    elif "kv_bytes" in printed:
        yield _allocated(entry, tokens, printed["kv_bytes"] / 2**31, printed["kv_bytes"] / 2**31)
    elif "k_gb" in printed:
        yield _allocated(entry, tokens, printed["k_gb"], printed.get("v_gb", printed["k_gb"]))
    yield "Memory pool end. avail mem=8.34 GB"
    if "draft_k_gb" in printed:
        yield _allocated(entry, tokens, printed["draft_k_gb"], printed["draft_k_gb"])
        yield "Memory pool end. avail mem=7.61 GB"


def _allocated(entry: Entry, tokens: int, k: float, v: float | None) -> str:
    sizes = f"K size: {k:.2f} GB, V size: {v:.2f} GB" if v is not None else f"KV size: {k:.2f} GB"
    if not _at_least(entry, "0.4.3"):
        return f"KV Cache is allocated. {sizes}."
    kind = {"fp8_e4m3": "float8_e4m3fn", "nvfp4": "uint8"}.get(entry["settings"].get("kv_cache_dtype", ""), "bfloat16")
    dtype = f"dtype: torch.{kind}, " if _at_least(entry, "0.5.15") else ""
    return f"KV Cache is allocated. {dtype}#tokens: {tokens}, {sizes}"


def _tensorrt(entry: Entry, printed: Mapping[str, Any], model: str) -> Iterator[str]:
    settings, engines = entry["settings"], not _at_least(entry, "1.0.0")
    per = settings.get("tokens_per_block") or (64 if not _at_least(entry, "0.17.0") else 32)
    yield f"[TensorRT-LLM] TensorRT-LLM version: {settings['version']}"
    fraction = settings.get("free_gpu_memory_fraction", 0.9)
    cache = f"kv_cache_dtype='{settings['kv_cache_dtype']}', " if "kv_cache_dtype" in settings else ""
    args = f"model='{model}', {cache}free_gpu_memory_fraction={fraction}, tensor_parallel_size=1"
    yield f"[03/01/2026-12:00:00] [TRT-LLM] [I] LLM Args: {args}"
    if not engines:
        yield "[03/01/2026-12:00:01] [TRT-LLM] [I] max_tokens is set by kv_cache_config.max_tokens: 8224"
    if "free" in entry:
        total = printed.get("total_gib", 79.2)
        yield (
            f"[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: {total:.2f} GiB, available:"
            f" {entry['free'][0]:.2f} GiB"
        )
    if "blocks" in printed and engines:
        yield f"[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: {printed['blocks']}"
        yield f"[TensorRT-LLM][INFO] Number of tokens per block: {per}."
    if "kv_gib" in printed:
        blocks = printed["kv_tokens"] // per
        if not engines:
            yield (
                f"[TensorRT-LLM][INFO] Max KV cache blocks per sequence: 64 [window size=2048], tokens per block={per},"
                f" primary blocks={blocks}, secondary blocks=0, max sequence length=2048"
            )
        yield (
            f"[TensorRT-LLM][INFO] [MemUsageChange] Allocated {printed['kv_gib']:.2f} GiB for max tokens in paged KV cache"
            f" ({printed['kv_tokens']})."
        )


def _tgi(entry: Entry, printed: Mapping[str, Any], model: str) -> Iterator[str]:
    at, router = "2026-03-01T12:00:00.123456Z", "text_generation_router::server: router/src/server.rs:"
    yield f"{at}  INFO text_generation_launcher: Args {{"
    yield f'    model_id: "{model}",'
    yield "    num_shard: None,"
    yield "}"
    yield f"{at}  INFO {router}1572: Warming up model"
    if "blocks" in printed:
        yield f"{at}  INFO text_generation_launcher: Using attention flashinfer - Prefix caching true"
        yield f"{at}  INFO text_generation_launcher: KV-cache blocks: {printed['blocks']}, size: {printed['block_size']}"
    else:
        yield f"{at}  WARN {router}1580: Model does not support automatic max batch total tokens"
    yield f"{at}  INFO {router}1651: Setting max batch total tokens to {printed['max_batch_total_tokens']}"
    yield f"{at}  INFO {router}1889: Connected"
