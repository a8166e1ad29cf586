"""Start-up text of llama.cpp that prints what a row of the truth sets reports, in the shapes of the row's version."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

MIB = 1 << 20
#: Bytes of so many elements, for the split of an old row's keys and values between its caches.
TYPES = {
    "f32": (1, 4),
    "f16": (1, 2),
    "bf16": (1, 2),
    "q8_0": (32, 34),
    "q5_1": (32, 24),
    "q5_0": (32, 22),
    "q4_1": (32, 20),
    "q4_0": (32, 18),
    "iq4_nl": (32, 18),
}
#: How each cache is announced, by the kind of memory and the pool's name in a row.
LABELS = {
    "base": "non-SWA",
    "swa": "SWA",
    "mla": "main",
    "lid": "indexer",
    "idx": "indexer",
    "kv": "",
    "attn": "",
    "csa": "DSV4 CSA compressed",
    "hca": "DSV4 HCA compressed",
    "raw_base": "non-SWA",
    "raw_swa": "SWA",
}
_WORDS = (
    ("n_ctx_train", "n_ctx_train"),
    ("n_embd", "n_embd"),
    ("n_layer", "n_layer"),
    ("n_layer_all", "n_layer_all"),
    ("n_swa", "n_swa"),
    ("n_embd_head_k", "n_embd_head_k_full"),
    ("n_embd_head_v", "n_embd_head_v_full"),
)
_STATES = (
    ("ssm.conv_kernel", "ssm_d_conv"),
    ("ssm.inner_size", "ssm_d_inner"),
    ("ssm.state_size", "ssm_d_state"),
    ("ssm.time_step_rank", "ssm_dt_rank"),
    ("ssm.group_count", "ssm_n_group"),
)


def mib(size: float, width: int = 7) -> str:
    """%7.2f of MiB in 32-bit floating point, as llama.cpp computes it."""
    value = struct.unpack("f", struct.pack("f", size))[0] / MIB
    return f"{struct.unpack('f', struct.pack('f', value))[0]:{width}.2f}"


def text(model: Row, row: Row, device: str = "CUDA0", metadata: bool = True) -> str:
    """The log of one start. metadata: whether the dump of the file's keys is there, beside print_info."""
    old = row["commit"] == "7841fc723"
    lines = [*_dump(model["gguf"])] if metadata else []
    lines += [*_print_info(model, old), *_weights(old), *_context(row)]
    lines += [*_caches_2025_03(row)] if old else [*_caches(model, row, device)]
    compute = "sched_reserve" if row["commit"] == "0c1e57098" else "llama_init_from_model" if old else "llama_context"
    lines += [f"{compute}: {device:>10} compute buffer size = {mib(304 * MIB, 8)} MiB"]
    return "\n".join(lines) + "\n"


def _dump(gguf: Row) -> Iterator[str]:
    name = "llama_model_loader"
    counts = f"{len(gguf)} key-value pairs and 291 tensors"
    yield f"{name}: loaded meta data with {counts} from /models/model.gguf (version GGUF V3 (latest))"
    yield f"{name}: Dumping metadata keys/values. Note: KV overrides do not apply in this output."
    for number, (key, value) in enumerate(gguf.items()):
        kind, shown = _printed(value)
        shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
        yield f"{name}: - kv {number:3d}: {key:>42} {kind:<16} = {shown}"
    yield f"{name}: - type  f32:   65 tensors"


def _printed(value: Any) -> tuple[str, str]:
    if isinstance(value, bool):
        return "bool", str(value).lower()
    if isinstance(value, int):
        return "u32", str(value)
    if isinstance(value, float):
        return "f32", f"{value:.6f}"
    if isinstance(value, list):
        kind = _printed(value[0])[0] if value else "u32"
        shown = ", ".join(f'"{one}"' if isinstance(one, str) else _printed(one)[1] for one in value)
        return f"arr[{'i32' if kind == 'u32' else kind},{len(value)}]", f"[{shown}]"
    return "str", str(value)


def _per_layer(values: Sequence[int]) -> str:
    return str(values[0]) if len(set(values)) == 1 else "[" + ", ".join(map(str, values)) + "]"


def _print_info(model: Row, old: bool) -> Iterator[str]:
    info, gguf = model["model_info"], model["gguf"]
    arch, depth = info["arch"], info["n_layer_all"]
    heads = gguf.get(f"{arch}.attention.head_count", 0)
    ff = gguf.get(f"{arch}.feed_forward_length", 0)
    found = {"arch": arch, **{word: info[key] for word, key in _WORDS}}
    if old:
        found["n_layer"] = found.pop("n_layer_all")
    found["n_head"] = _per_layer(heads if isinstance(heads, list) else [heads] * depth)
    found["n_head_kv"] = _per_layer(info["n_head_kv"])
    found["n_embd_k_gqa"] = _per_layer(info["n_embd_k_gqa"])
    found["n_embd_v_gqa"] = _per_layer(info["n_embd_v_gqa"])
    found["n_ff"] = _per_layer(ff if isinstance(ff, list) else [ff] * depth)
    found["n_embd_head_k_swa"], found["n_embd_head_v_swa"] = info["n_embd_head_k_swa"], info["n_embd_head_v_swa"]
    found |= {word: gguf[f"{arch}.{key}"] for key, word in _STATES if f"{arch}.{key}" in gguf}
    for key, word in (
        ("attention.key_length_mla", "n_embd_head_k_mla"),
        ("attention.value_length_mla", "n_embd_head_v_mla"),
        ("attention.kv_lora_rank", "n_lora_kv"),
    ):
        if f"{arch}.{key}" in gguf:
            found[word] = gguf[f"{arch}.{key}"]
    found["general.name"] = "synthetic"
    for word, value in found.items():
        yield f"print_info: {word:<21} = {value}"


def _weights(old: bool) -> Iterator[str]:
    yield "load_tensors: offloading 32 repeating layers to GPU"
    yield "load_tensors: offloaded 33/33 layers to GPU"
    yield "load_tensors:   CPU_Mapped model buffer size =   281.81 MiB"
    yield "load_tensors:        CUDA0 model buffer size =  4403.49 MiB"


def _context(row: Row) -> Iterator[str]:
    asked, new = row["requested"], row["commit"] == "0c1e57098"
    name = "llama_init_from_model" if row["commit"] == "7841fc723" else "llama_context"
    if name == "llama_context":
        yield f"{name}: constructing llama_context"
    sequences = asked.get("n_seq_max") or 1
    words: dict[str, Any] = {"n_seq_max": sequences, "n_ctx": row["n_ctx_actual"]}
    words["n_ctx_seq" if new else "n_ctx_per_seq"] = row.get("n_ctx_seq", row["n_ctx_actual"] // sequences)
    words |= {"n_batch": row["n_batch"], "n_ubatch": row["n_ubatch"]}
    flash = asked["flash_attn"]
    words["flash_attn"] = int(flash) if isinstance(flash, bool) else {"on": "enabled", "off": "disabled"}.get(flash, flash)
    if row["commit"] != "7841fc723":
        words["kv_unified"] = str(bool(row["kv_unified"])).lower()
    if new:
        words["n_rs_seq"] = row["n_rs_seq"]
    for word, value in words.items():
        yield f"{name}: {word:<13} = {value}"
    yield f"{name}: freq_base     = 10000.0"
    yield f"{name}: {'CUDA_Host':>10}  output buffer size = {mib(int(0.49 * MIB), 8)} MiB"


def _caches_2025_03(row: Row) -> Iterator[str]:
    """March 2025: one cache, or states in its place, each cell of which is a sequence."""
    asked, reported = row["requested"], row["reported"]
    kinds = asked.get("cache_type_k", "f16"), asked.get("cache_type_v", "f16")
    kinds = ("f32", "f32") if row["memory_type"] == "recurrent" else kinds
    cells = reported["pools"][0]["cells"]
    yield (
        f"llama_kv_cache_init: kv_size = {cells}, offload = 1, type_k = '{kinds[0]}', type_v = '{kinds[1]}',"
        " n_layer = 4, can_shift = 1"
    )
    total = reported["k_bytes"] + reported["v_bytes"]
    yield f"llama_kv_cache_init: {'CUDA0':>10} KV buffer size = {mib(total, 8)} MiB"
    yield (
        f"llama_init_from_model: KV self size  = {mib(total)} MiB, K ({kinds[0]}): {mib(reported['k_bytes'])} MiB,"
        f" V ({kinds[1]}): {mib(reported['v_bytes'])} MiB"
    )


def _caches(model: Row, row: Row, device: str) -> Iterator[str]:
    new = row["commit"] == "0c1e57098"
    who = "llama_kv_cache" if new else "llama_kv_cache_unified"
    asked, reported = row["requested"], row["reported"]
    kinds = asked.get("cache_type_k", "f16"), asked.get("cache_type_v", "f16")
    sequences = asked.get("n_seq_max") or 1
    pools = reported["pools"]
    for pool in pools if new else _split(model, row):
        name = pool["pool"]
        if name == "recr":
            yield from _states(row, pool, device, new)
            continue
        if name.endswith("_state"):
            size = pool["state_bytes"]
            what = name.removesuffix("_state")
            yield f"llama_dsv4_comp_state: {device:>10} DSV4 {what} state buffer size = {mib(size, 8)} MiB"
            yield (
                f"llama_dsv4_comp_state: {what} ratio = 4, state = 8 x 256, streams = {sequences}, rs_seq = 0,"
                f" layers = {pool['layers']},"
                f" size = {mib(size)} MiB"
            )
            continue
        label = _label(row["memory_type"], name)
        if label == "non-SWA" and asked.get("swa_full"):
            yield f"{who}_iswa: using full-size SWA cache (ref: https://example.org)"
        if label:
            yield f"{who}_iswa: creating {label:>7} KV cache, size = {pool['cells']} cells"
        k, v = pool.get("k_bytes", 0), pool.get("v_bytes", 0)
        if k + v:
            yield f"{who}: {device:>10} KV buffer size = {mib(k + v, 8)} MiB"
        yield (
            f"{who}: size = {mib(k + v)} MiB ({pool['cells']:6d} cells, {pool['layers']:3d} layers,"
            f" {sequences:2d}/{pool['n_stream']} seqs),"
            f" K ({kinds[0]}): {mib(k)} MiB, V ({kinds[1]}): {mib(v)} MiB"
        )


def _label(memory: str, pool: str) -> str:
    if memory == "kv_msa" and pool == "base":
        return "main"
    if memory == "kv_dsv4" and pool == "lid":
        return "DSV4 lightning-indexer"
    return LABELS.get(pool, pool)


def _states(row: Row, pool: Row, device: str, new: bool) -> Iterator[str]:
    reported = row["reported"]
    r = pool.get("r_bytes", reported["rs_r_bytes"])
    s = pool.get("s_bytes", reported["rs_s_bytes"])
    p = reported.get("rs_p_bytes", 0)
    sequences = row["requested"].get("n_seq_max") or 1
    yield f"llama_memory_recurrent: {device:>10} RS buffer size = {mib(r + s + p, 8)} MiB"
    kept = f" {row['n_rs_seq']:2d} rs_seq" if new else ""
    more = f", P (f32): {mib(p)} MiB" if new else ""
    yield (
        f"llama_memory_recurrent: size = {mib(r + s + p)} MiB ({pool['cells']:6d} cells, {pool.get('layers', 4):3d} layers,"
        f" {sequences:2d}"
        f" seqs{kept}), R (f32): {mib(r)} MiB, S (f32): {mib(s)} MiB{more}"
    )


def _split(model: Row, row: Row) -> Iterator[dict[str, Any]]:
    """The pools of August 2025 with their bytes: rows of the layers that slide, and of the others, x cells."""
    info, asked = model["model_info"], row["requested"]
    for pool in row["reported"]["pools"]:
        if pool["pool"] == "recr":
            yield dict(pool)
            continue
        wanted = {"base": 0, "swa": 1}.get(pool["pool"])
        layers = [
            i
            for i in range(info["n_layer"])
            if info["has_kv"][i] and info["n_embd_k_gqa"][i] and (wanted is None or info["is_swa"][i] == wanted)
        ]
        size = {}
        for half, kind in (("k", asked.get("cache_type_k", "f16")), ("v", asked.get("cache_type_v", "f16"))):
            block, each = TYPES[kind]
            rows = sum(info[f"n_embd_{half}_gqa"][i] // block * each for i in layers)
            size[f"{half}_bytes"] = rows * pool["cells"] * pool["n_stream"]
        if len([one for one in row["reported"]["pools"] if one["pool"] != "recr"]) == 1:
            size = {"k_bytes": row["reported"]["k_bytes"], "v_bytes": row["reported"]["v_bytes"]}
        yield {**pool, **size, "layers": len(layers)}
