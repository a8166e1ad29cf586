"""llama.cpp's start-up text, from the paste to the verdict: figures of public logs, hand arithmetic, and the corpora's rows."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import model_configs
from planner.units import MIB
from tests.conftest import rows
from tests.logs.checked import check, said
from tests.logs.llama_cpp_text import text as written
from tests.logs.wrapped import WRAPPERS

#: Every so many rows of the corpora are read; all of them agree (docs/COVERAGE.md).
STEP = 41

MISTRAL_2025_01 = """\
llama_model_loader: loaded meta data with 25 key-value pairs and 291 tensors from /m/mistral-7b.gguf (version GGUF V3)
llm_load_print_meta: arch             = llama
llm_load_print_meta: n_ctx_train      = 32768
llm_load_print_meta: n_embd           = 4096
llm_load_print_meta: n_layer          = 32
llm_load_print_meta: n_head           = 32
llm_load_print_meta: n_head_kv        = 8
llm_load_print_meta: n_swa            = 4096
llm_load_print_meta: n_embd_head_k    = 128
llm_load_print_meta: n_embd_head_v    = 128
llm_load_print_meta: n_embd_k_gqa     = 1024
llm_load_print_meta: n_embd_v_gqa     = 1024
llm_load_tensors:        CPU buffer size =  4165.37 MiB
llama_new_context_with_model: n_ctx      = 32768
llama_new_context_with_model: n_batch    = 512
llama_new_context_with_model: n_ubatch   = 512
llama_new_context_with_model: flash_attn = 0
llama_kv_cache_init:        CPU KV buffer size =  4096.00 MiB
llama_new_context_with_model: KV self size  = 4096.00 MiB, K (f16): 2048.00 MiB, V (f16): 2048.00 MiB
llama_new_context_with_model:        CPU compute buffer size =  2144.00 MiB
"""
QWEN36_MTP = """\
build: 9893 (0123456789ab) with GNU 13.3.0 for x86_64-linux-gnu
print_info: arch                  = qwen35moe
print_info: n_ctx_train           = 262144
print_info: n_embd                = 2048
print_info: n_layer               = 40
print_info: n_layer_all           = 41
print_info: n_head                = 16
print_info: n_head_kv             = 2
print_info: n_embd_head_k         = 256
print_info: n_embd_head_v         = 256
print_info: ssm_d_conv            = 4
print_info: ssm_d_inner           = 4096
print_info: ssm_d_state           = 128
print_info: ssm_dt_rank           = 32
print_info: ssm_n_group           = 16
print_info: general.name          = Qwen3.6-35B-A3B
llama_context: constructing llama_context
llama_context: n_seq_max             = 1
llama_context: n_ctx                 = 65536
llama_context: n_ctx_seq             = 65536
llama_context: n_batch               = 2048
llama_context: n_ubatch              = 512
llama_context: flash_attn            = enabled
llama_context: kv_unified            = true
llama_context: n_rs_seq              = 2
llama_kv_cache:      CUDA0 KV buffer size =  1280.00 MiB
llama_kv_cache: size = 1280.00 MiB ( 65536 cells,  10 layers,  1/1 seqs), K (f16):  640.00 MiB, V (f16):  640.00 MiB
llama_memory_recurrent:      CUDA0 RS buffer size =   188.44 MiB
llama_memory_recurrent: size =  188.44 MiB ( 1 cells, 41 layers, 1 seqs 2 rs_seq), R (f32):  8.44 MiB, S (f32):  180.00 MiB
"""
R1_OLLAMA = """\
print_info: arch             = deepseek2
print_info: n_embd           = 7168
print_info: n_layer          = 61
print_info: n_head           = 128
print_info: n_head_kv        = 128
print_info: n_embd_head_k    = 192
print_info: n_embd_head_v    = 128
print_info: n_embd_k_gqa     = 24576
print_info: n_embd_v_gqa     = 16384
llama_init_from_model: n_seq_max     = 1
llama_init_from_model: n_ctx         = 2048
llama_init_from_model: n_ubatch      = 512
llama_init_from_model: flash_attn    = 0
llama_kv_cache_init: kv_size = 2048, offload = 1, type_k = 'f16', type_v = 'f16', n_layer = 61, can_shift = 0
llama_kv_cache_init:        CPU KV buffer size =  9600.00 MiB
llama_kv_cache_init:      CUDA0 KV buffer size =   160.00 MiB
llama_init_from_model: KV self size  = 9760.00 MiB, K (f16): 5856.00 MiB, V (f16): 3904.00 MiB
"""
GPT_OSS_65K = """\
0.16.439.387 I llama_context: n_seq_max             = 1
0.16.439.390 I llama_context: n_ctx                 = 65536
0.16.439.391 I llama_context: n_ubatch              = 512
0.16.439.392 I llama_context: flash_attn            = auto
0.16.439.400 I llama_kv_cache_iswa: creating non-SWA KV cache, size = 65536 cells
0.16.440.001 I llama_kv_cache:    Vulkan0 KV buffer size =  1536.00 MiB
0.16.440.002 I llama_kv_cache: size = 1536.00 MiB ( 65536 cells, 12 layers, 1/1 seqs), K (f16): 768.00 MiB, V (f16): 768.00 MiB
0.16.440.100 I llama_kv_cache_iswa: creating     SWA KV cache, size = 768 cells
0.16.440.101 I llama_kv_cache:    Vulkan0 KV buffer size =    18.00 MiB
0.16.440.102 I llama_kv_cache: size = 18.00 MiB ( 768 cells, 12 layers, 1/1 seqs), K (f16):  9.00 MiB, V (f16):  9.00 MiB
"""
LLAMA_31_8B = """\
print_info: arch                  = llama
print_info: n_ctx_train           = 131072
print_info: n_embd                = 4096
print_info: n_layer               = 32
print_info: n_head                = 32
print_info: n_head_kv             = 8
print_info: n_embd_head_k         = 128
print_info: n_embd_head_v         = 128
print_info: general.name          = Meta Llama 3.1 8B Instruct
"""


def test_mistral_without_flash_attention() -> None:
    """32 layers x 32,768 cells x 2 x 1,024 x 2 B = 4,096 MiB; its window is not used. Source: logdetective pull 106."""
    log, found = check(MISTRAL_2025_01)
    assert (log.engine, log.figures["kv_bytes"]) == ("llama.cpp", 4096 * MIB)
    assert log.figures["k_bytes"] == log.figures["v_bytes"] == 2048 * MIB
    assert found.agrees
    assert {line.name for line in found.lines} == {"kv_bytes", "k_bytes", "v_bytes"}
    # 32 heads x 32,768 cells x 512 x 4 B of scores: 2,048 of the 2,144 MiB that are printed.
    assert "32 layers x 32,768 cells x 4,096 B" in said(found)
    assert "2,048 MiB" in said(found)


def test_states_kept_for_speculative_decoding() -> None:
    """30 layers keep 3 x 8,192 + 128 x 4,096 floats, three copies of them. Source: llama.cpp pull 23269."""
    log, found = check(QWEN36_MTP)
    assert (log.version, log.model, log.settings["n_rs_seq"]) == ("b9893", "Qwen3.6-35B-A3B", 2)
    states = next(line for line in found.lines if line.name == "state_bytes")
    assert states.ours == 30 * (3 * 8192 + 128 * 4096) * 4 * 3 == 197_591_040
    assert found.agrees
    assert "30 of 40 layers" in states.rule
    assert "3 copies" in states.rule


def test_expanded_heads_over_two_devices() -> None:
    """61 layers x 2,048 x (24,576 + 16,384) x 2 B = 9,760 MiB; one layer of 160 MiB is on the GPU. Source: Ollama issue 8447."""
    _, found = check(R1_OLLAMA)
    assert found.agrees
    assert "61 layers x 2,048 cells x 81,920 B" in said(found)
    assert "CPU 60, CUDA0 1" in said(found)


def test_window_cells_and_a_model_that_is_not_named() -> None:
    """12 x 65,536 x 2,048 B and 12 x pad(128 + 512, 256) x 2,048 B; the log names no model, its sizes do."""
    log, found = check(GPT_OSS_65K)
    assert log.figures["swa_cells"] == 768
    assert log.settings["n_ubatch"] == 512
    assert found.agrees
    assert "openai/gpt-oss-20b" in said(found)
    assert "pad(128 + 512, 256) = 768 cells" in said(found)


def test_a_wrong_model_is_told_by_its_row() -> None:
    """Meta's 8B has 8 heads of 128, so that its cache is twice as large as gpt-oss's half of the layers and no window."""
    _, found = check(GPT_OSS_65K, model="catalogue:meta-llama/Llama-3.1-8B")
    assert not found.agrees
    wrong = {line.name: line for line in found.lines if not line.agrees}
    assert wrong["non_swa_layers"].printed == 12
    assert wrong["non_swa_layers"].ours == 32


def test_unified_sequences_share_their_cells() -> None:
    """Two sequences in one stream: 12 layers x 65,536 x 2 x 512 x 2 B = 1,536 MiB, not doubled. Source: llama.cpp issue 23321."""
    text = (
        "llama_context: n_seq_max = 2\nllama_context: n_ctx = 65536\nllama_context: n_ubatch = 1088\n"
        "llama_context: kv_unified = true\n"
        "llama_kv_cache:        CPU KV buffer size =  1536.00 MiB\n"
        "llama_kv_cache: size = 1536.00 MiB ( 65536 cells,  12 layers,  2/1 seqs), K (f16):  768.00 MiB, V (f16):  768.00 MiB\n"
        "llama_memory_recurrent: size = 150.75 MiB ( 2 cells, 48 layers, 2 seqs), R (f32): 6.75 MiB, S (f32): 144.00 MiB\n"
    )
    _, found = check(text, model="catalogue:Qwen/Qwen3-Next-80B-A3B-Instruct")
    # 36 states of 3 x 8,192 and 128 x 4,096 floats for each of two sequences: 6.75 and 144 MiB.
    assert found.agrees
    assert "which share the cells" in said(found)


def test_lists_that_the_dump_cuts_are_said_or_rebuilt() -> None:
    """A pattern of 40 characters is cut; the widths of the layers tell it, and without them it is asked for."""
    metadata = {
        "general.architecture": "gemma4", "gemma4.block_count": 12, "gemma4.embedding_length": 2560,
        "gemma4.context_length": 8192,
        "gemma4.attention.head_count": 8, "gemma4.attention.head_count_kv": 2, "gemma4.attention.key_length": 512,
        "gemma4.attention.value_length": 512, "gemma4.attention.key_length_swa": 256, "gemma4.attention.value_length_swa": 256,
        "gemma4.attention.sliding_window": 512,
        "gemma4.attention.sliding_window_pattern": [True] * 5 + [False] + [True] * 5 + [False],
    }  # fmt: skip
    widths = "[" + ", ".join(["512"] * 5 + ["1024"] + ["512"] * 5 + ["1024"]) + "]"
    info = f"print_info: arch = gemma4\nprint_info: n_layer = 12\nprint_info: n_embd_k_gqa = {widths}\n"
    # 2 full layers x 8,192 x 2 x 1,024 x 2 B = 64 MiB; 10 x pad(512 + 512, 256) x 2 x 512 x 2 B = 20 MiB.
    caches = (
        "llama_context: n_ctx = 8192\nllama_context: n_ubatch = 512\n"
        "llama_kv_cache_iswa: creating non-SWA KV cache, size = 8192 cells\n"
        "llama_kv_cache: size =   64.00 MiB (  8192 cells,   2 layers,  1/1 seqs), K (f16):   32.00 MiB, V (f16):   32.00 MiB\n"
        "llama_kv_cache_iswa: creating     SWA KV cache, size = 1024 cells\n"
        "llama_kv_cache: size =   20.00 MiB (  1024 cells,  10 layers,  1/1 seqs), K (f16):   10.00 MiB, V (f16):   10.00 MiB\n"
    )
    dump = written({"gguf": metadata, "model_info": _info(metadata)}, _row(), metadata=True).split("print_info")[0]
    assert "..." in dump
    _, found = check(dump + info + caches)
    assert found.agrees
    assert not found.missing
    _, without = check(dump + caches)
    assert any("sliding_window_pattern" in text for text in without.missing)


def _info(metadata: dict[str, Any]) -> dict[str, Any]:
    layers = metadata["gemma4.block_count"]
    heads = [f"n_embd_head_{half}_{kind}" for half in "kv" for kind in ("full", "swa")]
    zero = dict.fromkeys(("n_ctx_train", "n_embd", "n_swa", *heads), 0)
    lists = dict.fromkeys(("n_head_kv", "n_embd_k_gqa", "n_embd_v_gqa"), [0] * layers)
    return {"arch": "gemma4", "n_layer": layers, "n_layer_all": layers, **zero, **lists}


def _row() -> dict[str, Any]:
    return {
        "commit": "0c1e57098", "requested": {"flash_attn": "auto", "n_seq_max": 1}, "n_ctx_actual": 8192, "n_batch": 2048,
        "n_ubatch": 512, "kv_unified": False, "n_rs_seq": 0, "memory_type": "none", "reported": {"pools": []},
    }  # fmt: skip


@cache
def models(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["model"]: row for row in rows(folder / "truth/llamacpp_models.jsonl")}


@pytest.mark.parametrize(("file", "metadata"), [("llamacpp", True), ("llamacpp_old", True), ("llamacpp", False)])
def test_rows_of_the_corpora(truth: Path, file: str, metadata: bool) -> None:
    """The text that a row's start printed gives the row's bytes, from the log's own metadata and nothing else.

    Without the dump print_info leaves out what some architectures need (RWKV's head size), which is asked for.
    """
    known = models(truth)
    sample = [
        row for number, row in enumerate(rows(truth / f"truth/{file}.jsonl"))
        if number % STEP == 7 and row["status"] == "ok" and row["memory_type"] != "none" and row["model"] in known
    ]  # fmt: skip
    different = []
    for row in sample:
        log, found = check(written(known[row["model"]], row, metadata=metadata))
        reported = row["reported"]
        printed = sum(f.value for name, f in log.printed.items() if name.endswith("kv_bytes") and "buffer" not in name)
        assert printed == pytest.approx(reported["k_bytes"] + reported["v_bytes"], abs=5 * MIB // 100), row["id"]
        if not found.agrees and not (not metadata and found.missing):
            different.append(row["id"])
    assert len(sample) > 10
    assert different == []


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrapped(name: str) -> None:
    """The same figures and the same verdict in every wrapper."""
    for text in (MISTRAL_2025_01, QWEN36_MTP, R1_OLLAMA, GPT_OSS_65K):
        plain, plain_check = check(text)
        log, found = check(WRAPPERS[name](text))
        assert log.figures == plain.figures
        assert found.agrees
        assert [line.name for line in found.lines] == [line.name for line in plain_check.lines]


def test_two_files_and_two_contexts() -> None:
    """A draft model's file follows the main one's: each context is held to its own file."""
    small = LLAMA_31_8B.replace("n_layer               = 32", "n_layer               = 16").replace("8B", "1B")
    first = "llama_kv_cache: size = 1024.00 MiB (8192 cells, 32 layers, 1/1 seqs), K (f16): 512.00 MiB, V (f16): 512.00 MiB\n"
    second = "llama_kv_cache: size =  512.00 MiB (8192 cells, 16 layers, 1/1 seqs), K (f16): 256.00 MiB, V (f16): 256.00 MiB\n"
    words = "llama_context: n_seq_max = 1\nllama_context: n_ctx = 8192\n"
    log, found = check(LLAMA_31_8B + words + first + small + words + second)
    assert log.model == "Meta Llama 3.1 8B Instruct"
    assert found.agrees
    assert sorted(line.ours for line in found.lines if line.name == "kv_bytes") == [512 * MIB, 1024 * MIB]


def test_the_planner_refuses_what_the_log_cannot_have_had() -> None:
    """A head of 80 has no quantised cache in 2026: the refusal is said instead of a figure."""
    model = model_configs.read(
        {"general.architecture": "phi2", "phi2.block_count": 32, "phi2.embedding_length": 2560, "phi2.attention.head_count": 32}
    )
    text = (
        "build: 9893 (0123456789ab)\nllama_context: n_ctx = 2048\nllama_context: flash_attn = enabled\n"
        "llama_kv_cache: size =  340.00 MiB (  2048 cells,  32 layers,  1/1 seqs), K (q8_0):  170.00 MiB, V (q8_0):  170.00 MiB\n"
    )
    _, found = check(text, model=model)
    assert "blocks of 32" in said(found)
    assert not found.agrees


def test_json_is_not_needed_to_read_a_figure_back() -> None:
    """Every figure keeps its text and line, so that a page can show where it stands."""
    log, _ = check(MISTRAL_2025_01)
    figure = log.printed["kv_bytes"]
    assert MISTRAL_2025_01.splitlines()[figure.line - 1].endswith("V (f16): 2048.00 MiB")
    assert figure.text == "4096.00"
    assert json.loads(json.dumps(log.figures))["kv_bytes"] == figure.value
