"""Ollama's start-up text: its own engine's sizes, its estimates, and the llama.cpp lines of the versions that run it."""

from __future__ import annotations

import pytest

from planner.units import GIB, MIB
from tests.logs.checked import check, said
from tests.logs.wrapped import WRAPPERS
from validation.logs import explain, read

AT = "time=2026-03-01T10:00:00.000+01:00 level=INFO"
REQUEST = (
    "{{Operation:{what} LoraPath:[] Parallel:{slots} BatchSize:512 FlashAttention:Enabled KvSize:{cells} KvCacheType:{kind}"
    " NumThreads:8 GPULayers:33[ID:GPU-1 Layers:33(0..32)] MultiUserCache:false ProjectorPath: MainGPU:0 UseMmap:false}}"
)


def own_engine(slots: int, cells: int, kind: str, cache: str) -> str:
    """A start of the engine of its own, for Llama 3.1 8B; the tries before the commit have other sizes."""
    tries = [REQUEST.format(what=what, slots=slots, cells=n, kind=kind) for what, n in (("fit", 131072), ("commit", cells))]
    return (
        f'{AT} source=routes.go:1689 msg="Listening on 127.0.0.1:11434 (version 0.14.2)"\n'
        f'{AT} source=types.go:60 msg="inference compute" id=GPU-1 library=CUDA name=CUDA0 description="NVIDIA RTX 4090"'
        ' total="24.0 GiB" available="23.1 GiB"\n'
        f'{AT} source=server.go:757 msg="loading model" "model layers"=33 requested=-1\n'
        f'{AT} source=ggml.go:136 msg="" architecture=llama file_type=Q4_K_M name="Meta Llama 3.1 8B Instruct" num_tensors=292\n'
        + "".join(f'{AT} source=runner.go:1284 msg=load request="{one}"\n' for one in tries)
        + f'{AT} source=ggml.go:494 msg="offloaded 33/33 layers to GPU"\n'
        f'{AT} source=device.go:245 msg="model weights" device=CUDA0 size="4.3 GiB"\n'
        f'{AT} source=device.go:256 msg="kv cache" device=CUDA0 size="{cache}"\n'
        f'{AT} source=device.go:267 msg="compute graph" device=CUDA0 size="300.0 MiB"\n'
    )


ESTIMATE = (
    "time=2025-03-01T10:00:00.000Z level=INFO source=server.go:105 msg=offload library=cuda layers.requested=-1 layers.model=33"
    ' layers.offload=33 layers.split="" memory.available="[23.1 GiB]" memory.gpu_overhead="0 B" memory.required.full="6.2 GiB"'
    ' memory.required.partial="6.2 GiB" memory.required.kv="{kv}" memory.required.allocations="[6.2 GiB]"'
    ' memory.weights.total="4.3 GiB" memory.graph.full="560.0 MiB"\n'
    'time=2025-03-01T10:00:01.000Z level=INFO source=server.go:380 msg="starting llama server" cmd="/usr/bin/ollama runner'
    ' --model /m/blobs/sha256-1 --ctx-size 8192 --batch-size 512 --n-gpu-layers 33 --parallel 4 {flags}--port 40000"\n'
)
LLAMA_SERVER = """\
time=2026-09-01T10:00:00.000Z level=INFO source=routes.go:1700 msg="Listening on [::]:11434 (version 0.33.0)"
time=2026-09-01T10:00:01.000Z level=INFO source=llama_server.go:420 msg="starting llama-server" cmd="llama-server -c 16384"
print_info: arch                  = llama
print_info: n_embd                = 4096
print_info: n_layer               = 32
print_info: n_head                = 32
print_info: n_head_kv             = 8
llama_context: n_seq_max             = 2
llama_context: n_ctx                 = 16384
llama_context: n_ctx_seq             = 8192
llama_context: n_ubatch              = 1024
llama_context: kv_unified            = false
llama_kv_cache:      CUDA0 KV buffer size =  2048.00 MiB
llama_kv_cache: size = 2048.00 MiB (  8192 cells,  32 layers,  2/2 seqs), K (f16): 1024.00 MiB, V (f16): 1024.00 MiB
"""


@pytest.mark.parametrize(
    ("slots", "cells", "kind", "cache"),
    # 32 layers x 8,192 x 2 x 1,024 x 2 B = 1,024 MiB; q8_0 takes 17/32 of it; KvSize counts all slots.
    [(1, 8192, "", "1.0 GiB"), (1, 8192, "q8_0", "544.0 MiB"), (4, 16384, "f16", "2.0 GiB")],
)
def test_its_own_engine(slots: int, cells: int, kind: str, cache: str) -> None:
    log, found = check(own_engine(slots, cells, kind, cache), model="catalogue:meta-llama/Llama-3.1-8B")
    assert (log.engine, log.version, log.gpu) == ("ollama", "0.14.2", "NVIDIA RTX 4090")
    assert (log.settings["n_ctx"], log.settings["n_seq_max"]) == (cells, slots)
    assert found.agrees
    assert {line.name for line in found.lines} == {"kv_bytes", "layers_offloadable"}
    assert "only commit counts" in said(found)


def test_the_model_by_its_architecture_layers_and_cache() -> None:
    log, found = check(own_engine(1, 8192, "", "1.0 GiB").replace("Meta Llama 3.1 8B Instruct", "merged"))
    assert (log.model, log.figures["kv_bytes CUDA0"]) == ("merged", GIB)
    assert found.agrees
    assert "architecture llama, 32 layers" in said(found)


@pytest.mark.parametrize(
    ("kv", "flags", "element"),
    # 32 x 8,192 x 2,048 elements; the estimate takes 2 bytes, and 1 for q8_0, which really takes 1.0625.
    [("1.0 GiB", "", 2), ("512.0 MiB", "--kv-cache-type q8_0 ", 1)],
)
def test_the_estimate_before_loading(kv: str, flags: str, element: int) -> None:
    log, found = check(ESTIMATE.format(kv=kv, flags=flags), model="catalogue:meta-llama/Llama-3.1-8B")
    line = next(line for line in found.lines if line.name == "estimated_kv_bytes")
    assert log.figures["estimated_weights_bytes"] == round(4.3 * GIB)
    assert line.agrees
    assert line.ours == 32 * 8192 * 2048 * element
    assert "estimates before loading" in said(found)


def test_llama_server_below() -> None:
    """From 0.30 the cache is llama.cpp's: 8,192 cells for each of two slots, 2 x 32 x 8,192 x 4,096 B = 2,048 MiB."""
    log, found = check(LLAMA_SERVER)
    assert (log.engine, log.version, log.figures["kv_bytes"]) == ("ollama", "0.33.0", 2048 * MIB)
    assert found.agrees
    assert "n_ctx 16,384 is for all 2 sequences; each has 8,192" in said(found)


@pytest.mark.parametrize("name", [name for name in WRAPPERS if name not in ("logfmt",)])
def test_wrapped(name: str) -> None:
    """All wrappers but logfmt, which Ollama's lines are themselves."""
    for text in (own_engine(1, 8192, "", "1.0 GiB"), LLAMA_SERVER):
        plain, log = read(text), read(WRAPPERS[name](text))
        assert log.figures == plain.figures
        assert explain(log).agrees
