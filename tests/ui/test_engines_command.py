"""Does the line for the shell give the figure that the Plan page shows, for each engine and on each card?"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from model_configs import catalogue
from planner import cli
from planner.cache import architecture_bytes
from planner.hardware import gpu
from ui import command as shell
from ui import engine_answer
from ui import format as fmt
from ui.inputs import Workload
from ui.model_input import from_catalogue

from .asked import GEMMA, choice_of, command
from .conftest import OpenPage
from .test_plan_page import faults

ROOT = Path(__file__).resolve().parents[2]


def ran(line: str) -> int:
    words = [sys.executable, *shlex.split(line)[1:], "--json"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return int(json.loads(done.stdout)["kv_cache_bytes"])


LINES = {
    "vllm": {"model": GEMMA, "tokens": 131_072, "vllm.tensor_parallel_size": 2, "vllm.kv_cache_dtype": "fp8"},
    "vllm on another card": {"model": "google/gemma-2-9b-it", "engine": "vllm", "gpu": "l4", "requests": 2, "tokens": 8_000},
    "vllm of another time": {"engine": "vllm", "vllm.version": "0.11.0", "vllm.block_size": 32, "model": GEMMA},
    "sglang": {"sglang.page_size": 64, "sglang.context_length": 8_192, "sglang.disable_radix_cache": "true", "tokens": 1_000},
    "tensorrt-llm": {"tensorrt-llm.kv_cache_dtype": "fp8", "tensorrt-llm.tensor_parallel_size": 2, "tokens": 1_000},
    "tgi": {"tgi.num_shard": 2, "tgi.attention": "paged", "tokens": 1_000, "tgi.version": "3.0.0"},
    "llama.cpp": {"llama.cpp.cache_type_k": "q8_0", "llama.cpp.cache_type_v": "q8_0", "requests": 3, "tokens": 1_000},
    "two types": {"engine": "llama.cpp", "llama.cpp.cache_type_k": "q8_0", "llama.cpp.flash_attn": "on", "model": GEMMA},
    "ollama": {"model": "openai/gpt-oss-120b", "requests": 2},
    "transformers": {"cache": "quantized", "transformers.backend": "hqq", "transformers.nbits": 8},
    "encoder": {"engine": "vllm", "model": "openai/whisper-large-v3", "tokens": 448},
}


@pytest.mark.parametrize("name", LINES)
def test_the_line_gives_the_pages_figure(open_page: OpenPage, name: str) -> None:
    link = LINES[name]
    page = open_page(**{"engine": name, **link})
    assert faults(page) == []
    assert fmt.exact(ran(command(page))) == page.metric[0].delta


@pytest.mark.parametrize("card", ["l4", "a100", "b200"])
def test_vllms_line_gives_the_figure_on_each_card(card: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Block sizes and batches follow the GPU's memory and generation, in the shell as on the page."""
    compared = 0
    for entry in catalogue.entries()[::5]:
        model, load = from_catalogue(entry.id), Workload(20_000, 2, None, gpu(card), card)
        choice = choice_of("vllm")
        plain = architecture_bytes(model, 20_000, 2)
        found = engine_answer.ask(model, choice, plain, load.gpu)
        if not isinstance(found, engine_answer.Answer):
            continue
        cli.main([*shlex.split(shell.line(model, entry.id, load, 0, choice))[3:], "--json"])
        assert json.loads(capsys.readouterr().out)["kv_cache_bytes"] == found.cache.total_bytes, entry.id
        compared += 1
    assert compared >= 25
