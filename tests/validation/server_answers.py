"""What running engines answer at their endpoints, in the shapes that each documents, and the command run against it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.validation.fake_server import Route, serving
from validation import server

#: Llama-3.1-8B: 32 layers x (K and V) x 8 heads x 128 x 2 bytes = 131,072 bytes of one token.
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def labels(**values: object) -> str:
    text = ",".join(f'{name}="{value}"' for name, value in values.items())
    return f"# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{{text}}} 1.0\n"


def vllm(model: str, length: int, version: str, *metrics: str, **more: Route) -> dict[str, Route]:
    card = {"id": model, "object": "model", "owned_by": "vllm", "root": model, "parent": None, "max_model_len": length}
    adapter = {"id": "an-adapter", "parent": model, "root": "/adapters/a", "max_model_len": None}
    models = {"object": "list", "data": [adapter, card]}
    return {"/metrics": "".join(metrics), "/v1/models": models, "/version": {"version": version}, **more}


def compare(routes: Mapping[str, Route], capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit status, and the JSON that was printed."""
    with serving(routes) as fake:
        status = server.main([fake.url, "--json", *arguments])
    captured = capsys.readouterr()
    return status, json.loads(captured.out) if captured.out else {"error": captured.err}


def lines(report: Mapping[str, Any]) -> dict[str, tuple[float, float, bool]]:
    return {line["name"]: (line["printed"], line["ours"], line["agrees"]) for line in report["lines"]}


def sglang(**more: Any) -> dict[str, Any]:
    """What a Qwen2.5-0.5B of SGLang's documentation answered, March 2026.

    Source: the notebook native_api of SGLang's documentation: 20,480 tokens, "kvcache": 0.23, 128 requests.
    """
    flags = {
        "model_path": "qwen/qwen2.5-0.5b-instruct", "tokenizer_path": "qwen/qwen2.5-0.5b-instruct", "dtype": "auto",
        "kv_cache_dtype": "auto", "tp_size": 1, "pp_size": 1, "dp_size": 1, "page_size": 1, "context_length": None,
        "max_running_requests": 128, "max_total_tokens": 20480, "mem_fraction_static": 0.83, "chunked_prefill_size": 8192,
        "attention_backend": "fa3", "cuda_graph_max_bs": 4, "disable_radix_cache": False, "speculative_algorithm": None,
        "swa_full_tokens_ratio": 0.8, "served_model_name": "qwen/qwen2.5-0.5b-instruct", "enable_dp_attention": False,
    }  # fmt: skip
    memory = {"weight": 0.98, "kvcache": 0.23, "token_capacity": 20480, "graph": 0}
    state = {**flags, "last_gen_throughput": 129.3, "memory_usage": memory, "effective_max_running_requests_per_dp": 128}
    return {
        **flags, "status": "ready", "max_total_num_tokens": 20480, "max_req_input_len": 20474, "internal_states": [state],
        "version": "0.5.9", **more,
    }  # fmt: skip


def tgi(**more: Any) -> dict[str, Any]:
    """TGI 2.0.2 with a 70B model. Source: the fields of struct Info at 2.0.2, figures of a public example."""
    return {
        "model_id": "meta-llama/Llama-3.3-70B-Instruct", "model_sha": None, "model_dtype": "torch.bfloat16",
        "model_device_type": "cuda", "model_pipeline_tag": None, "max_concurrent_requests": 128, "max_best_of": 2,
        "max_stop_sequences": 4, "max_input_tokens": 8191, "max_total_tokens": 8192, "waiting_served_ratio": 0.3,
        "max_batch_total_tokens": 1259392, "max_waiting_tokens": 20, "max_batch_size": None, "validation_workers": 32,
        "max_client_batch_size": 4, "router": "text-generation-router", "version": "2.0.2", "sha": "dccab72",
        "docker_label": "sha-dccab72", **more,
    }  # fmt: skip


def llama_cpp(n_ctx: int = 4096, slots: int = 2, **more: Route) -> dict[str, Route]:
    """llama-server's answers, as a server of October 2026 gave them; the model is named by a path of another machine."""
    props = {
        "default_generation_settings": {"params": {"temperature": 0.8}, "n_ctx": n_ctx}, "total_slots": slots,
        "model_alias": LLAMA, "model_path": "/models/elsewhere/llama.gguf", "modalities": {"vision": False},
        "endpoint_slots": True, "build_info": "b9123-0c1e57098", "is_sleeping": False,
    }  # fmt: skip
    rows = [{"id": i, "n_ctx": n_ctx, "speculative": False, "is_processing": False} for i in range(slots)]
    metrics = "# TYPE llamacpp:n_tokens_max counter\nllamacpp:n_tokens_max 1234\n"
    meta = {"vocab_type": 1, "n_ctx": n_ctx, "n_ctx_train": 131072, "n_params": 8030261312, "size": 4912898304}
    models = {"object": "list", "data": [{"id": LLAMA, "owned_by": "llamacpp", "meta": meta}]}
    return {"/props": props, "/slots": rows, "/metrics": metrics, "/v1/models": models, **more}


METADATA = {
    "general.architecture": "llama", "general.parameter_count": 8030261312, "llama.block_count": 32,
    "llama.context_length": 131072, "llama.embedding_length": 4096, "llama.attention.head_count": 32,
    "llama.attention.head_count_kv": 8, "llama.feed_forward_length": 14336,
    "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": None,
}  # fmt: skip


def ollama(show: Route, size: int = 5_137_025_024, **row: Any) -> dict[str, Route]:
    """Source: Ollama's API documentation, /api/ps and /api/show."""
    loaded = {"name": "llama3.1:latest", "model": "llama3.1:latest", "size": size, "size_vram": size, "context_length": 4096,
              "details": {"format": "gguf", "family": "llama", "quantization_level": "Q4_0"}, **row}  # fmt: skip
    return {"/api/version": {"version": "0.33.0"}, "/api/ps": {"models": [loaded]}, "/api/show": show, "/": "Ollama is running"}
