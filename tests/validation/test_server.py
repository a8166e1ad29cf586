"""Running servers compared with the planner: local servers answer in the shapes that each engine documents, by version.

Expected figures are worked out by hand beside each answer, or were printed by a real engine; the source stands there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.validation.fake_server import Fake, Route, moved, serving
from tests.validation.server_answers import LLAMA, METADATA, compare, labels, lines, llama_cpp, ollama, sglang, tgi, vllm
from validation import server


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
