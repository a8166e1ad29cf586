"""A KV answer as data (JSON schema version 1) and as the table that a shell prints."""

from __future__ import annotations

from typing import Any

from planner.cache import CacheBytes
from planner.engines.explain import Reason
from planner.explain import engine_groups, groups, twins
from planner.explain_reasons import kv_reasons, share_percent
from planner.hardware import Gpu
from planner.model import Model
from planner.reasons import data as formula
from planner.units import ceil_div, format_bytes

SCHEMA_VERSION = 1


def kv_data(
    model: Model,
    cache: CacheBytes,
    *,
    engine: str,
    kv_cache_dtype: str,
    gpu: Gpu | None = None,
    reasons: tuple[Reason, ...] = (),
    plain: CacheBytes | None = None,
    ranks: int = 1,
) -> dict[str, Any]:
    """The answer of `kv` as plain data; every memory figure is a whole number of bytes and its key says so.

    engine: whose allocation `cache` is, or "architecture". plain: the architecture's own cache, for an engine's answer;
    reasons: what leads from it to the engine's bytes. ranks: GPUs that share the weights.
    """
    own = engine in ("architecture", "transformers")
    grouped = groups(model, cache, kv_cache_dtype) if own else engine_groups(cache)
    others = twins(model, cache.tokens, cache.requests, kv_cache_dtype if own else None, cache.encoder_tokens)
    data: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "model": model_data(model),
        "engine": engine,
        "kv_cache_dtype": kv_cache_dtype,
        "tokens": cache.tokens,
        "requests": cache.requests,
        "encoder_tokens": cache.encoder_tokens,
        "kv_cache_bytes": cache.total_bytes,
        "bytes_per_request": cache.bytes_per_request,
        "average_bytes_per_token": cache.bytes_per_token,
        "groups": [
            {"layers": list(g.layers), "kind": g.kind, "formula": g.formula, "bytes_per_layer": g.bytes_each, "bytes": g.bytes}
            for g in grouped
        ],
        "layers": [{"index": x.index, "kind": x.kind, "bytes": x.bytes} for x in cache.layers],
        "twins": {
            "multi_head_bytes": others.mha_bytes,
            "multi_query_bytes": others.mqa_bytes,
            "common_formula_bytes": others.common_formula_bytes,
        },
        "rule": cache.rule,
        "architecture_bytes": (plain or cache).total_bytes,
        "difference": [{"code": r.code, "bytes": r.bytes, "layers": r.layers, "text": r.text} for r in reasons],
        "warnings": [*model.notes, *cache.warnings, *([model.assumption] if model.assumption else [])],
    }
    if gpu is not None:
        data["gpu"] = gpu_data(model, cache, gpu, ranks)
    element = kv_cache_dtype if engine == "architecture" else None
    why = kv_reasons(model, cache, plain or cache, element, gpu, ranks, reasons)
    data["why"] = {name: formula(rule) for name, rule in why.items()}
    return data


def model_data(model: Model) -> dict[str, Any]:
    weights = model.weights
    return {
        "name": model.name, "model_type": model.model_type, "source": str(model.source), "commit": model.source.commit,
        "layers": len(model.layers), "kinds": model.kinds, "dtype": model.dtype, "max_context": model.max_context,
        "params": model.params, "weight_bytes": model.weight_bytes,
        "weights_confidence": model.weights_confidence,
        "weights_items": [
            {"name": i.name, "params": i.params, "bytes": i.bytes, "confidence": i.confidence, "source": i.source}
            for i in (weights.items if weights else ())
        ],
        "assumption": model.assumption,
    }  # fmt: skip


def gpu_data(model: Model, cache: CacheBytes, gpu: Gpu, ranks: int = 1) -> dict[str, Any]:
    """An even share of the weights and the cache against one accelerator's memory; activations and the runtime come on top."""
    weights = ceil_div(model.weight_bytes or 0, ranks)
    left = gpu.usable_bytes - weights
    per_request = cache.bytes_per_request
    return {
        "id": gpu.id, "name": gpu.name, "memory_bytes": gpu.memory_bytes, "usable_bytes": gpu.usable_bytes,
        "weights_and_cache_bytes": weights + cache.total_bytes,
        "share_percent": share_percent(weights + cache.total_bytes, gpu.usable_bytes),
        "headroom_bytes": left - cache.total_bytes,
        "requests_beside_weights": max(0, left // per_request) if per_request else None,
    }  # fmt: skip


def gpu_row(gpu: Gpu) -> dict[str, Any]:
    """One accelerator as data: its memory as the driver and PyTorch report it, its speeds, and what its generation supports."""
    span, supports = gpu.memory_range, gpu.supports
    return {
        "id": gpu.id, "name": gpu.name, "vendor": gpu.vendor, "memory_bytes": gpu.memory_bytes, "usable_bytes": gpu.usable_bytes,
        "usable_low_bytes": span.low, "usable_high_bytes": span.high, "usable_confidence": span.confidence,
        "bandwidth_gbs": gpu.bandwidth_gbs, "fp16_tflops": gpu.fp16_tflops, "fp8_tflops": gpu.fp8_tflops,
        "generation": gpu.generation, "bf16": supports.bf16 if supports else None,
        "kv_fp8": supports.kv_fp8 if supports else None, "status": gpu.status, "source": gpu.source,
    }  # fmt: skip


def kv_text(data: dict[str, Any]) -> str:
    """The answer for a person: the figure first, then how it comes about."""
    model = data["model"]
    kinds = ", ".join(f"{count} {kind}" for kind, count in model["kinds"].items())
    requests = f"{data['requests']:,} request" + ("s" if data["requests"] != 1 else "")
    encoder = f", {data['encoder_tokens']:,} encoder positions" if data["encoder_tokens"] else ""
    lines = [
        f"{model['name']}  ({model['model_type']}; {model['layers']} layers: {kinds})",
        f"from {model['source']}",
        "",
        f"KV cache  {_size(data['kv_cache_bytes'])}  for {requests} of {data['tokens']:,} tokens{encoder}, "
        f"{data['kv_cache_dtype']}" + ("" if data["engine"] == "architecture" else f", as {data['engine']} allocates it"),
        f"          {format_bytes(data['bytes_per_request'])} a request, "
        f"{format_bytes(round(data['average_bytes_per_token']))} a token on average",
        "",
        "How" + (f" ({data['rule']})" if data["rule"] and data["engine"] != "transformers" else ""),
    ]
    for group in data["groups"]:
        formula = f"{group['formula']} = " if group["formula"] else ""
        lines.append(f"  {len(group['layers']):>3} x {group['kind']:<12} {formula}{group['bytes_per_layer']:,} B")
    lines.append(f"  sum {data['kv_cache_bytes']:,} B")
    if data["difference"]:
        lines += ["", f"Beside the architecture's {_size(data['architecture_bytes'])}"]
        lines += [f"  {reason['text']}" for reason in data["difference"]]
    if data["engine"] in ("architecture", "transformers"):
        lines += _twin_lines(data)
    if model["params"]:
        weights = f"{model['params']:,} parameters, {format_bytes(model['weight_bytes'])}, {model['weights_confidence']}"
        lines += ["", f"Weights   {weights}"]
    if "gpu" in data:
        lines += _gpu_lines(data["gpu"])
    lines += [f"\nnote: {warning}" for warning in data["warnings"]]
    return "\n".join(lines)


def _size(count: int) -> str:
    return f"{format_bytes(count)} ({count:,} B)"


def _twin_lines(data: dict[str, Any]) -> list[str]:
    twin = data["twins"]
    rows = (
        ("multi-head twin", twin["multi_head_bytes"]),
        ("multi-query twin", twin["multi_query_bytes"]),
        ("2 x layers x hidden x tokens x bytes", twin["common_formula_bytes"]),
    )
    found = [f"  {format_bytes(count):>12}  {name}" for name, count in rows if count is not None]
    return ["", "For comparison", *found] if found else []


def _gpu_lines(gpu: dict[str, Any]) -> list[str]:
    verdict = "fit" if gpu["headroom_bytes"] >= 0 else "do not fit"
    room = f"{format_bytes(abs(gpu['headroom_bytes']))} {'left' if gpu['headroom_bytes'] >= 0 else 'short'}"
    lines = [
        "",
        f"{gpu['name']}  weights + cache {format_bytes(gpu['weights_and_cache_bytes'])} of "
        f"{format_bytes(gpu['usable_bytes'])}: {verdict}, {room} (activations and runtime not counted)",
    ]
    if gpu["requests_beside_weights"] is not None:
        lines.append(f"  {gpu['requests_beside_weights']:,} such requests fit beside the weights")
    return lines
