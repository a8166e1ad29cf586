"""A running vLLM compared with the planner, by the labels of its metrics and their changes.

Expected figures are worked out by hand beside each answer, or were printed by a real engine; the source stands there.
"""

from __future__ import annotations

import pytest

from tests.validation.server_answers import LLAMA, compare, labels, lines, vllm


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


def test_vllm_layers_that_keep_the_models_dtype(capsys: pytest.CaptureFixture[str]) -> None:
    """The label is a list as Python prints it."""
    info = labels(block_size=16, cache_dtype="fp8", kv_cache_dtype_skip_layers="['0', 'sliding_window']", num_gpu_blocks=900)
    _, report = compare(vllm(LLAMA, 8192, "0.33.0", info), capsys)
    assert report["settings"]["kv_cache_dtype_skip_layers"] == ["0", "sliding_window"]


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


def test_vllm_a_quantized_copy_of_a_known_model(capsys: pytest.CaptureFixture[str]) -> None:
    """Its cache is that of the model without AWQ; its weights are not, so the pool of a GPU is not worked out from them."""
    info = labels(block_size=16, cache_dtype="auto", kv_cache_size_tokens=10576, num_gpu_blocks=661)
    for name in ("Qwen/Qwen3-4B-Instruct-2507-AWQ", "/models/Qwen3-4B-Instruct-2507-AWQ/"):
        status, report = compare(vllm(name, 4096, "0.29.0", info), capsys, "--gpu", "l4")
        assert (status, lines(report)["gpu_kv_cache_tokens"]) == (0, (10576, 10576, True))
        assert "num_gpu_blocks" not in lines(report)
        assert any("weights" in wanted for wanted in report["missing"])


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


def test_vllm_windows_keep_the_tokens_in_flight(capsys: pytest.CaptureFixture[str]) -> None:
    """gpt-oss: 12 layers slide over 128. With batches of 2,048, two of them in flight, a request of 8,192 takes 512 blocks of
    the full layers and ceil((127 + 4,096) / 16) + 1 = 265 of the others; 60,000 / 777 = 77.22, x 8,192 = 632,586 tokens.

    The batch is not told. Its default goes by the GPU; the printed concurrency shows which default it was.
    """
    size = {"block_size": 16, "cache_dtype": "auto", "num_gpu_blocks": 60000}
    told = labels(**size, kv_cache_size_tokens=632586, kv_cache_max_concurrency=60000 / 777)
    status, report = compare(vllm("openai/gpt-oss-20b", 8192, "0.33.0", told), capsys)
    assert status == 0
    assert lines(report)["gpu_kv_cache_tokens"] == (632586, 632586, True)
    assert "max_num_batched_tokens 2,048" in report["rules"][0]
    unknown = labels(**size, kv_cache_size_tokens=640000)
    status, report = compare(vllm("openai/gpt-oss-20b", 8192, "0.33.0", unknown), capsys)
    assert (status, set(lines(report))) == (0, {"block_size"})
    assert any("max_num_batched_tokens" in wanted for wanted in report["missing"])
    status, report = compare(vllm("openai/gpt-oss-20b", 8192, "0.33.0", unknown), capsys, "--set", "max_num_batched_tokens=2048")
    assert (status, lines(report)["gpu_kv_cache_tokens"]) == (1, (640000, 632586, False))


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
