"""llama.cpp's start-up text: single caches of public logs, the tables of --fit, what could not be had, and forks."""

from __future__ import annotations

import pytest

from planner.units import MIB
from tests.logs.checked import check, said
from tests.logs.test_llama_cpp_text import LLAMA_31_8B


@pytest.mark.parametrize(("types", "size"), [(("q8_0", "q8_0"), 16384 * 17 / 32), (("q8_0", "q4_0"), 16384 * (17 + 9) / 64)])
def test_quantised_caches(types: tuple[str, str], size: float) -> None:
    """34 bytes for 32 elements of q8_0, 18 of q4_0: 17/32 and 9/32 of 2 bytes each."""
    keys, values = (8192 * {"q8_0": 17, "q4_0": 9}[kind] / 32 for kind in types)
    text = (
        LLAMA_31_8B + "llama_context: n_seq_max = 1\nllama_context: n_ctx = 131072\nllama_context: n_ubatch = 512\n"
        f"llama_kv_cache: size = {size:.2f} MiB (131072 cells, 32 layers, 1/1 seqs), K ({types[0]}): {keys:.2f} MiB,"
        f" V ({types[1]}): {values:.2f} MiB\n"
    )
    log, found = check(text)
    assert found.agrees
    assert (log.settings["cache_type_k"], log.settings["cache_type_v"]) == types


def test_what_could_not_be_allocated() -> None:
    """32 x 1,048,576 x 2,048 x 2 B and 32 bytes of alignment. Source: llama.cpp issue 8101, build 3184."""
    text = LLAMA_31_8B.replace("131072", "1048576") + (
        "main: build = 3184 (9c77ec1d)\nllama_new_context_with_model: n_ctx      = 1048576\n"
        "llama_new_context_with_model: flash_attn = 0\n"
        "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 137438953504\n"
        "llama_kv_cache_init: failed to allocate buffer for kv cache\n"
    )
    log, found = check(text)
    assert log.figures["refused_bytes"] == 137_438_953_504
    assert found.agrees
    assert found.lines[0].ours == 137_438_953_472


def test_dry_runs_and_what_fits() -> None:
    """Llama 3.1 8B at its trained 131,072 tokens: 16,384 MiB of context; whole MiB are cut; below 0 unaccounted is a dry run."""
    gpu = "CUDA0 (RTX 4090)   | 24081 = 23600 + (21557 =  4403 +   16384 +     769) +      -21075"
    row = f"I common_memory_breakdown_print: |   - {gpu} |"
    text = (
        LLAMA_31_8B + row + "\nI common_memory_breakdown_print: |   - Host    |    323 =   281 +       0"
        " +      42                |\n"
        "I common_params_fit_impl: projected to use 21557 MiB of device memory vs. 23600 MiB of free device memory\n"
        "I common_params_fit_impl: context size reduced from 131072 to 98304 -> need 4108 MiB less memory in total\n"
    )
    log, found = check(text)
    assert log.figures["table 1 CUDA0 (RTX 4090) context_bytes"] == 16384 * MIB
    assert log.figures["n_ctx_fitted"] == 98304
    assert found.agrees
    assert "dry run" in said(found)
    assert "131,072 to 98,304" in said(found)


def test_a_forks_type_is_not_judged() -> None:
    """q6_0 is not one of llama.cpp's types: its bytes are not known, so that nothing is compared."""
    text = LLAMA_31_8B + (
        "llama_kv_cache: size = 6656.00 MiB (131072 cells, 32 layers, 1/1 seqs), K (q6_0): 3328.00 MiB, V (q6_0): 3328.00 MiB\n"
    )
    log, found = check(text)
    assert log.figures["kv_bytes"] == 6656 * MIB
    assert not found.agrees
    assert not found.lines
    assert "q6_0" in said(found)


def test_a_context_that_only_the_table_tells() -> None:
    """Two cards with 18 and 14 of 32 layers at 40,960 tokens: 160 MiB a layer, 2,880 and 2,240 MiB of 5,120."""
    row = "I common_memory_breakdown_print: |   - CUDA{} (RTX 3090) | 24123 = 19000 + ({} = 2000 + {} + 100) + {} |\n"
    _, found = check(LLAMA_31_8B + row.format(0, 4980, 2880, 143) + row.format(1, 4340, 2240, 783))
    context = next(line for line in found.lines if line.name.startswith("context_bytes"))
    assert context.agrees
    assert context.ours == 5120 * MIB
    assert "40,960 tokens in f16" in said(found)
    assert "2 cards with whole layers" in said(found)


def test_rows_that_the_log_prints_layer_by_layer() -> None:
    """Two layers of a model that no catalogue has: (96 + 160) and (192 + 320) elements of 2 B x 1,024 cells are 1.5 MiB."""
    text = (
        "llama_kv_cache_init: layer 0: n_embd_k_gqa = 96, n_embd_v_gqa = 160\n"
        "llama_kv_cache_init: layer 1: n_embd_k_gqa = 192, n_embd_v_gqa = 320\n"
        "llama_kv_cache_unified: size = 1.50 MiB (1024 cells, 2 layers, 1/1 seqs), K (f16): 0.56 MiB, V (f16): 0.94 MiB\n"
    )
    log, found = check(text)
    line = next(line for line in found.lines if line.name == "kv_bytes")
    assert line.agrees
    assert line.ours == (256 + 512) * 2 * 1024 == 1_572_864
    assert any("--model" in text for text in found.missing)
    assert log.figures["kv_bytes"] == 1.5 * MIB


def test_the_files_size_and_the_devices() -> None:
    text = LLAMA_31_8B + (
        "print_info: file size   = 4.58 GiB (4.89 BPW) \nprint_info: model params     = 8.03 B\n"
        "  Device 0: NVIDIA GeForce RTX 3090, compute capability 8.6, VMM: yes, VRAM: 24123 MiB\n"
        "ggml_cuda_host_malloc: failed to allocate 512.00 MiB of pinned memory: out of memory\n"
    )
    log, _ = check(text)
    assert log.gpu == "NVIDIA GeForce RTX 3090"
    assert log.figures["file_bytes"] == round(4.58 * 1024 * MIB)
    assert log.figures["model_params"] == 8_030_000_000
    assert log.figures["gpu_total_bytes"] == 24_123 * MIB
    assert log.figures["refused_bytes"] == 512 * MIB


def size_line(size: float, cells: int, layers: int, label: str = "") -> str:
    """A cache of f16 whose keys and values are halves, after what announces it."""
    creating = f"llama_kv_cache_iswa: creating {label} KV cache, size = {cells} cells\n" if label else ""
    halves = f"K (f16): {size / 2:.2f} MiB, V (f16): {size / 2:.2f} MiB"
    return f"{creating}llama_kv_cache: size = {size:.2f} MiB ({cells} cells, {layers} layers, 1/1 seqs), {halves}\n"


@pytest.mark.parametrize(
    ("model", "text"),
    [
        # 36 layers x 4,096 x 2 x 256 x 2 B (LLamaSharp issue 1099) and 28 x 2,048 x 2 x 512 x 2 B (llama-cpp-python pull 1)
        ("Qwen/Qwen2.5-3B", "llama_context: n_ctx = 4096\n" + size_line(144, 4096, 36)),
        ("Qwen/Qwen2.5-7B", "llama_context: n_ctx = 2048\n" + size_line(112, 2048, 28)),
        # 24 of 32 layers: 3 x 8,192 and 128 x 4,096 floats (llama-cpp-python issue 78), beside 8 x 4,096 x 2 x 1,024 x 2 B
        ("Qwen/Qwen3.5-9B", "llama_context: n_ctx = 4096\n" + size_line(128, 4096, 8) + "llama_memory_recurrent: size = 50.25 MiB"
         " ( 1 cells, 32 layers, 1 seqs), R (f32): 2.25 MiB, S (f32): 48.00 MiB\n"),
        # 48 window layers of 4,096 + 512 cells (llama.cpp issue 14043), and 16 x 240,128 cells of all 256 that they are padded to
        ("CohereLabs/c4ai-command-a-03-2025", "llama_context: n_ctx = 240128\nllama_context: n_ubatch = 512\n"
         + size_line(16 * 240128 * 4096 / MIB, 240128, 16, "non-SWA") + size_line(864, 4608, 48, "SWA")),
    ],
)  # fmt: skip
def test_sizes_of_public_logs(model: str, text: str) -> None:
    """The model as the catalogue has it, in llama.cpp's reading of it."""
    _, found = check(text, model=f"catalogue:{model}")
    assert found.agrees, [line for line in found.lines if not line.agrees]


def test_a_forks_latent_cache_is_not_judged() -> None:
    """61 x 32,768 x 576 x 2 B are 2,196 MiB (ik_llama.cpp pull 235): what the fork allocates besides is not known here."""
    text = "llama_new_context_with_model: n_ctx      = 32768\nllama_kv_cache_init:      CUDA0 KV buffer size =  2196.00 MiB\n"
    text += "llama_new_context_with_model: KV self size  = 2196.00 MiB, c^KV (f16): 2196.00 MiB, kv^T: not used\n"
    log, found = check(text)
    assert log.figures["fork_bytes"] == 61 * 32768 * 576 * 2
    assert not found.agrees
    assert "not judged" in said(found)
