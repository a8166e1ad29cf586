"""Running servers compared with the planner: local servers answer in the shapes that each engine documents, by version.

Expected figures are worked out by hand beside each answer, or were printed by a real engine; the source stands there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.validation.fake_server import Fake, Route, moved, serving
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


def test_vllm_tokens_and_concurrency(capsys: pytest.CaptureFixture[str]) -> None:
    """A Qwen3-4B on vLLM 0.29.0 published these labels: 661 blocks of 16, 4,096 tokens a request, 10,576 tokens, 2.58203125x.

    A request takes 4096 / 16 = 256 blocks; 661 / 256 = 2.58203125; floor(2.58203125 x 4096) = 10,576. A block is
    36 layers x 2 x 8 heads x 128 x 2 bytes x 16 tokens = 2,359,296 bytes.

    Source: public notes of runs of vLLM 0.29.0 with typhoon2.5-qwen3-4b, September 2026.
    """
    info = labels(
        block_size=16, cache_dtype="auto", enable_prefix_caching="True", gpu_memory_utilization="0.7", num_gpu_blocks=661,
        kv_cache_max_concurrency="2.58203125", kv_cache_size_tokens=10576, kv_cache_memory_bytes="None",
        num_gpu_blocks_override="None", user_specified_block_size="False",
    )  # fmt: skip
    routes = vllm("typhoon2.5-qwen3-4b", 4096, "0.29.0", "vllm:num_requests_running 0.0\n", info)
    status, report = compare(routes, capsys, "--model", "Qwen/Qwen3-4B-Instruct-2507")
    assert status == 0
    assert report["engine"] == "vllm"
    assert report["version"] == "0.29.0"
    assert report["served_model"] == "typhoon2.5-qwen3-4b"
    assert lines(report) == {
        "block_size": (16, 16, True),
        "max_concurrency": (2.58203125, 2.58203125, True),
        "gpu_kv_cache_tokens": (10576, 10576, True),
        "max_model_len": (4096, 4096, True),
    }
    assert "661 blocks x 2,359,296 bytes" in report["rules"][0]
    assert any("tensor_parallel_size" in wanted for wanted in report["missing"])


def test_vllm_a_differing_figure_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """One block less than the tokens say: 660 / 256 x 4,096 = 10,560 tokens, not 10,576."""
    info = labels(block_size=16, cache_dtype="auto", kv_cache_size_tokens=10576, num_gpu_blocks=660)
    status, report = compare(vllm("Qwen/Qwen3-4B-Instruct-2507", 4096, "0.29.0", info), capsys)
    assert status == 1
    assert lines(report)["gpu_kv_cache_tokens"] == (10576, 10560, False)


def test_vllm_blocks_of_a_given_pool(capsys: pytest.CaptureFixture[str]) -> None:
    """kv_cache_memory_bytes 2 GiB over two GPUs: half of 131,072 bytes x 16 tokens is 1,048,576, so 2,048 blocks."""
    info = labels(block_size=16, cache_dtype="auto", kv_cache_memory_bytes=2 * 1024**3, num_gpu_blocks=2048)
    status, report = compare(vllm(LLAMA, 8192, "0.19.1+cu128", info), capsys, "--set", "tensor_parallel_size=2")
    assert status == 0
    assert lines(report)["num_gpu_blocks"] == (2048, 2048, True)


def test_vllm_fp8_takes_half(capsys: pytest.CaptureFixture[str]) -> None:
    """The dtype label halves a block: 1 GiB of fp8 is 1 GiB / (131,072 / 2 x 16) = 1,024 blocks; in bf16 it would be 512."""
    info = labels(block_size=16, cache_dtype="fp8", kv_cache_memory_bytes=1024**3, num_gpu_blocks=1024)
    status, report = compare(vllm(LLAMA, 8192, "0.19.1", info), capsys)
    assert (status, lines(report)["num_gpu_blocks"]) == (0, (1024, 1024, True))


def test_vllm_parallel_sizes_of_its_development_mode(capsys: pytest.CaptureFixture[str]) -> None:
    """/server_info, there with VLLM_SERVER_DEV_MODE=1, prints the whole configuration as text."""
    config = "model='x', tokenizer='x', tensor_parallel_size=4, pipeline_parallel_size=1, data_parallel_size=1, seed=0"
    info = labels(block_size=16, cache_dtype="auto", kv_cache_memory_bytes=1024**3, num_gpu_blocks=2048)
    routes = vllm(LLAMA, 8192, "0.11.0", info, **{"/server_info": {"vllm_config": config}})
    status, report = compare(routes, capsys)
    assert status == 0  # 1 GiB / (131,072 / 4 x 16)
    assert report["settings"]["tensor_parallel_size"] == 4
    assert not any("tensor_parallel_size" in wanted for wanted in report["missing"])


def test_vllm_the_smallest_of_several_engines(capsys: pytest.CaptureFixture[str]) -> None:
    info = labels(engine=0, block_size=16, num_gpu_blocks=700, cache_dtype="auto", kv_cache_size_tokens=11200)
    info += labels(engine=1, block_size=16, num_gpu_blocks=661, cache_dtype="auto", kv_cache_size_tokens=10576)
    status, report = compare(vllm("Qwen/Qwen3-4B-Instruct-2507", 4096, "0.29.0", info), capsys)
    assert status == 0
    assert report["figures"]["num_gpu_blocks"] == 661
    assert "2 engines" in report["rules"][0]


@pytest.mark.parametrize(
    "info",
    [
        # The first form of the metric, vLLM 0.3.3. Source: pull request 3100.
        'vllm:cache_config_info{block_size="16",cache_dtype="auto",gpu_memory_utilization="0.9",num_cpu_blocks="7281",'
        'num_gpu_blocks="24188",sliding_window="None",swap_space_bytes="4294967296"} 1.0\n',
        # vLLM V1 of 2025. Source: public notes of a Qwen3-32B service.
        'vllm:cache_config_info{block_size="16",cache_dtype="auto",calculate_kv_scales="False",cpu_offload_gb="0",'
        'enable_prefix_caching="True",gpu_memory_utilization="0.82",is_attention_free="False",num_cpu_blocks="1024",'
        'num_gpu_blocks="573",num_gpu_blocks_override="573",sliding_window="None",swap_space_bytes="4294967296"} 1.0\n',
    ],
)
def test_vllm_older_labels(info: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before mid 2026 no tokens were told: the block size and that a request fits are compared, and the tokens worked out."""
    status, report = compare(vllm(LLAMA, 8192, "0.10.0", info), capsys)
    assert status == 0
    assert {"block_size", "max_model_len"} <= set(lines(report))
    blocks = report["figures"]["num_gpu_blocks"]
    assert f"{blocks * 16:,} tokens" in " ".join(report["rules"])  # uniform layers at 0.10: blocks x block_size


def test_vllm_blocks_that_are_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Some releases of 2025 printed None (issue 16560): nothing is compared, and the log is asked for."""
    status, report = compare(vllm(LLAMA, 8192, "0.8.3", labels(block_size=16, num_gpu_blocks="None")), capsys)
    assert status == 2
    assert not report["agrees"]
    assert "start-up log" in report["missing"][0]


def test_vllm_a_block_size_from_before_it_was_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    """For hybrids the label said 16 until mid 2026 (issue 42966), whatever the states needed: it is explained, not compared."""
    info = labels(block_size=16, cache_dtype="auto", num_gpu_blocks=400)
    status, report = compare(vllm("Qwen/Qwen3.5-27B", 32768, "0.19.1", info), capsys)
    assert "block_size" not in lines(report)
    assert "before it was aligned" in report["rules"][0]
    assert status == 0


def test_vllm_another_block_size(capsys: pytest.CaptureFixture[str]) -> None:
    """Asked for and told: compared. Chosen by the kernels of a card that was not named: taken as it is, and said."""
    asked = labels(block_size=32, user_specified_block_size="True", cache_dtype="auto", num_gpu_blocks=1000)
    status, report = compare(vllm(LLAMA, 8192, "0.33.0", asked), capsys)
    assert (status, lines(report)["block_size"]) == (0, (32, 32, True))
    chosen = labels(block_size=64, user_specified_block_size="False", cache_dtype="auto", num_gpu_blocks=1000)
    status, report = compare(vllm(LLAMA, 8192, "0.33.0", chosen), capsys)
    assert status == 0
    assert "say --gpu" in report["rules"][0]
    status, report = compare(vllm(LLAMA, 8192, "0.33.0", chosen), capsys, "--gpu", "h100")
    assert (status, lines(report)["block_size"]) == (1, (64, 16, False))


def test_the_pool_of_a_named_gpu_is_estimated(capsys: pytest.CaptureFixture[str]) -> None:
    """An 8B model on an 80 GB card leaves between 40 and 60 GiB at 0.9 for 2 MiB blocks; ten blocks are no usual pool."""
    fits = labels(block_size=16, cache_dtype="auto", gpu_memory_utilization="0.9", num_gpu_blocks=27500)
    status, report = compare(vllm(LLAMA, 8192, "0.19.1", fits), capsys, "--gpu", "h100")
    _, ours, agrees = lines(report)["num_gpu_blocks"]
    assert agrees
    assert 40 * 1024**3 // 2**21 < ours < 60 * 1024**3 // 2**21
    few = labels(block_size=16, cache_dtype="auto", gpu_memory_utilization="0.9", num_gpu_blocks=5000)
    status, report = compare(vllm(LLAMA, 8192, "0.19.1", few), capsys, "--gpu", "h100")
    assert status == 1
    assert lines(report)["num_gpu_blocks"][::2] == (5000, False)


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


def test_sglang_pool(capsys: pytest.CaptureFixture[str]) -> None:
    """24 layers x 2 heads x 64 x (K and V) x 2 bytes = 12,288 bytes of a token; with one row of padding 20,481 of them are
    251,670,528 bytes = 0.2344 x 2^30."""
    status, report = compare({"/get_server_info": sglang(), "/get_model_info": {}}, capsys)
    assert (status, report["engine"], report["version"]) == (0, "sglang", "0.5.9")
    found = lines(report)
    assert found["kvcache_gb"][0] == 0.23
    assert found["kvcache_gb"][1] == pytest.approx(20481 * 12288 / 2**30)
    assert found["max_running_requests"] == (128, 128, True)


def test_sglang_newer_form_rounds_to_three_digits(capsys: pytest.CaptureFixture[str]) -> None:
    """/server_info of 0.5.23: 0.2344 prints as 0.234, and 0.235 is then no rounding of it."""
    for printed, status in ((0.234, 0), (0.235, 1)):
        memory = {"weight": 0.98, "kvcache": printed, "startup_available": 70.1, "token_capacity": 20480,
                  "token_capacity_swa": None, "graph": {"decode": 0.1}}  # fmt: skip
        state = {"memory_usage": memory, "effective_max_running_requests_per_dp": 128, "version": None}
        answer = sglang(version="0.5.23", internal_states=[state], launch_command=["sglang", "serve"])
        found, report = compare({"/server_info": answer}, capsys)
        assert (found, lines(report)["kvcache_gb"][2]) == (status, status == 0)


def test_sglang_the_token_count_follows_from_the_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    """Without max_total_tokens the count is what the fraction leaves; 100 tokens are no usual pool of an 80 GB card."""
    answer = sglang(max_total_tokens=None, max_total_num_tokens=100, internal_states=[])
    answer.pop("max_running_requests")
    status, report = compare({"/server_info": answer}, capsys, "--gpu", "h100")
    assert status == 1
    assert lines(report)["max_total_num_tokens"][::2] == (100, False)


def test_sglang_development_builds_and_flags_without_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    """0.0.0.dev1 names no release, and -1 switches chunks off: both are left out and said."""
    answer = sglang(version="0.0.0.dev1+gf97c09dac", chunked_prefill_size=-1)
    answer["internal_states"][0]["chunked_prefill_size"] = -1
    status, report = compare({"/server_info": answer}, capsys)
    assert status == 0
    assert {"version", "chunked_prefill_size"} <= {rule.split()[0] for rule in report["rules"]}


def test_sglang_an_unknown_cache_type_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    answer = sglang(kv_cache_dtype="fp2_marvel")
    answer["internal_states"][0]["kv_cache_dtype"] = "fp2_marvel"
    status, report = compare({"/server_info": answer}, capsys)
    assert status == 2
    assert "fp2_marvel" in report["error"]


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


def test_tgi_pool(capsys: pytest.CaptureFixture[str]) -> None:
    """1,259,392 tokens are 78,712 blocks of 16. A block on one of 8 shards: 80 layers x 2 x 1 head x 128 x 2 bytes x 16."""
    status, report = compare({"/info": tgi()}, capsys, "--set", "num_shard=8")
    assert (status, report["engine"]) == (0, "tgi")
    assert lines(report) == {
        "max_batch_total_tokens": (1259392, 1259392, True),
        "max_total_tokens": (8192, 1259376, True),  # block 0 is kept: (78,712 - 1) x 16
    }
    assert "78,712 blocks x 655,360 bytes" in report["rules"][0]


def test_tgi_a_part_of_a_block_is_no_pool(capsys: pytest.CaptureFixture[str]) -> None:
    status, report = compare({"/info": tgi(max_batch_total_tokens=1259393)}, capsys)
    assert status == 1
    assert lines(report)["max_batch_total_tokens"] == (1259393, 1259392, False)


def test_tgi_the_oldest_and_the_newest_form(capsys: pytest.CaptureFixture[str]) -> None:
    """1.x says max_input_length; the routers of 3.x keep the pool to themselves, and their log is asked for."""
    old = tgi(version="1.4.0")
    old["max_input_length"] = old.pop("max_input_tokens")
    status, report = compare({"/info": old}, capsys)
    assert (status, report["figures"]["max_input_tokens"]) == (0, 8191)
    new = tgi(version="3.3.4-dev0")
    for key in ("max_batch_total_tokens", "waiting_served_ratio", "max_batch_size", "model_dtype", "model_device_type"):
        del new[key]
    status, report = compare({"/info": new}, capsys)
    assert status == 0
    assert lines(report) == {"max_total_tokens": (8192, 131072, True)}  # the model's own limit
    assert "Setting max batch total tokens" in " ".join(report["missing"])


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


def test_llama_cpp_slots_and_cells(capsys: pytest.CaptureFixture[str]) -> None:
    """2 slots of 4,096 cells: 131,072 bytes x 8,192 = 1 GiB in f16, and 34/64 of it in q8_0."""
    status, report = compare(llama_cpp(), capsys)
    assert (status, report["engine"], report["version"]) == (0, "llama.cpp", "b9123")
    assert lines(report) == {"n_ctx": (4096, 4096, True), "slots": (2, 2, True), "n_tokens_max": (1234, 4096, True)}
    assert "1,073,741,824 bytes" in report["rules"][-1]
    q8 = ("--set", "cache_type_k=q8_0", "--set", "cache_type_v=q8_0", "--set", "kv_unified=false")
    status, report = compare(llama_cpp(), capsys, *q8)
    assert "570,425,344 bytes" in report["rules"][-1]
    assert not report["missing"]


def test_llama_cpp_a_context_that_was_not_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """-c 3000 for 2 slots is pad(1500, 256) = 1,536 cells each; a server with 4,096 was started otherwise."""
    status, report = compare(llama_cpp(1536), capsys, "--set", "n_ctx=3000")
    assert status == 0
    status, report = compare(llama_cpp(4096), capsys, "--set", "n_ctx=3000")
    assert (status, lines(report)["n_ctx"]) == (1, (4096, 1536, False))
    status, report = compare(llama_cpp(3072), capsys, "--set", "n_ctx=3000", "--set", "kv_unified=true")
    assert status == 0


def test_llama_cpp_without_its_optional_endpoints(capsys: pytest.CaptureFixture[str]) -> None:
    """/slots and /metrics answer 501 unless they are switched on."""
    off = (501, {"error": {"code": 501, "message": "This server does not support it", "type": "not_supported_error"}})
    status, report = compare(llama_cpp(**{"/slots": off, "/metrics": off}), capsys)
    assert (status, set(lines(report))) == (0, {"n_ctx"})


def test_llama_cpp_slots_that_differ_from_props(capsys: pytest.CaptureFixture[str]) -> None:
    status, report = compare(llama_cpp(**{"/slots": [{"id": 0, "n_ctx": 4096}]}), capsys)
    assert (status, lines(report)["slots"]) == (1, (1, 2, False))


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


def test_ollama_context_and_memory(capsys: pytest.CaptureFixture[str]) -> None:
    """The cache of 4,096 cells is 131,072 x 4,096 = 536,870,912 bytes. One tensor of q4_0: 4096 x 1,000,000 / 32 x 18 bytes."""
    tensors = [{"name": "token_embd.weight", "type": "Q4_0", "shape": [4096, 1_000_000]}]
    weights = 4096 * 1_000_000 // 32 * 18
    for size, status in ((weights + 536_870_912, 0), (weights + 536_870_911, 1)):
        found, report = compare(ollama({"model_info": METADATA, "tensors": tensors}, size), capsys)
        assert found == status
        assert lines(report)["size"][1] == weights + 536_870_912
        assert lines(report)["context_length"] == (4096, 4096, True)


def test_ollama_lists_that_the_short_answer_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    """Lists of a value for each layer come empty unless the full answer is asked for; an empty list is no description."""
    hybrid = {
        "general.architecture": "lfm2", "lfm2.block_count": 3, "lfm2.context_length": 8192, "lfm2.embedding_length": 64,
        "lfm2.attention.head_count": 4, "lfm2.shortconv.l_cache": 3, "lfm2.feed_forward_length": 96,
        "lfm2.attention.key_length": 16, "lfm2.attention.value_length": 16,
    }  # fmt: skip

    def show(handler: Any) -> None:
        asked = json.loads(handler.server.seen[-1][3])
        heads = [0, 0, 2] if asked["verbose"] else []
        body = json.dumps({"model_info": {**hybrid, "lfm2.attention.head_count_kv": heads}}).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    status, report = compare(ollama(show), capsys)
    assert status == 0
    # One attention layer: 2 heads x 16 x (K and V) x 2 bytes x 4,096 cells; two states of 64 x (3 - 1) x 4 bytes.
    assert f"{2 * 16 * 2 * 2 * 4096 + 2 * 64 * 2 * 4:,} bytes" in report["rules"][-1]
    never = {"model_info": {**hybrid, "lfm2.attention.head_count_kv": None}}
    status, report = compare(ollama(never), capsys)
    assert (status, report["lines"]) == (2, [])


def test_ollama_with_nothing_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    status, report = compare({"/api/version": {"version": "0.33.0"}, "/api/ps": {"models": []}}, capsys)
    assert status == 3
    assert "no model loaded" in report["error"]


@pytest.mark.parametrize(
    ("routes", "engine"),
    [(llama_cpp(), "llama.cpp"), ({"/server_info": sglang()}, "sglang"), ({"/info": tgi()}, "tgi"),
     (ollama({"model_info": METADATA}), "ollama"),
     (vllm(LLAMA, 8192, "0.33.0", labels(num_gpu_blocks=900, block_size=16)), "vllm")],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_each_engine_is_recognised_and_read_by_a_person(
    routes: Mapping[str, Route], engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(routes) as fake:
        assert server.main([fake.url]) == 0
        text = capsys.readouterr().out
        assert text.startswith(f"{engine} ")
        assert text.rstrip().endswith("all compared figures agree")
        assert server.main([fake.url, "--engine", engine]) == 0
        capsys.readouterr()
        other = "tgi" if engine != "tgi" else "vllm"
        assert server.main([fake.url, "--engine", other]) == 3
        assert f"does not answer like {other}" in capsys.readouterr().err


def test_what_is_no_engine(capsys: pytest.CaptureFixture[str]) -> None:
    """An embedding server, and a page."""
    embedding = {"model_id": "BAAI/bge-large-en-v1.5", "model_type": {"embedding": {"pooling": "cls"}}, "max_input_length": 512,
                 "max_concurrent_requests": 512, "version": "1.5.0"}  # fmt: skip
    for routes in ({"/info": embedding}, {"/": "<html>", "/metrics": "up 1\n", "/props": "[]", "/slots": "null"}):
        status, report = compare(routes, capsys)
        assert status == 3
        assert "answers like none of" in report["error"]


def test_a_model_that_nobody_describes_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that a server gives is looked up in the catalogue alone: no file of that name, and nothing on the Hub."""
    info = labels(block_size=16, num_gpu_blocks=900, cache_dtype="auto")
    status, report = compare(vllm("../../etc/passwd", 8192, "0.33.0", info), capsys)
    assert status == 2
    assert report["missing"] == ["--model: the model that is served; '../../etc/passwd' is not in the catalogue"]


def test_metrics_behind_a_redirect_of_the_same_server(capsys: pytest.CaptureFixture[str]) -> None:
    """vLLM mounts /metrics as an application of its own, which some versions reach by /metrics/."""
    routes = vllm(LLAMA, 8192, "0.33.0")
    routes |= {"/metrics": moved("/metrics/"), "/metrics/": labels(block_size=16, num_gpu_blocks=900, cache_dtype="auto")}
    assert compare(routes, capsys)[0] == 0


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_addresses_as_people_write_them(suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(llama_cpp()) as fake:
        assert server.main([fake.url.removeprefix("http://") + suffix]) == 0
        assert server.main([fake.url.replace("127.0.0.1", "0.0.0.0") + suffix]) == 0  # as a server prints where it listens
    capsys.readouterr()


def test_a_server_behind_a_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    with serving({f"/llama{path}": route for path, route in llama_cpp().items()}) as fake:
        assert server.main([f"{fake.url}/llama/v1"]) == 0
        assert all(path.startswith("/llama/") for _, path, _, _ in _requests(fake))
    capsys.readouterr()


def _requests(fake: Fake) -> list[tuple[str, str, Mapping[str, str], bytes]]:
    assert fake.seen
    return fake.seen
