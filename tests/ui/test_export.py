"""Taking an answer away and bringing it back: the shell's own JSON, files that add up and run, and inputs as they were saved."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from typing import Any

import pytest

from planner import cli
from planner.plan_report import verdict_line

from .conftest import OpenPage
from .reading import DEEPSEEK, GEMMA, LLAMA, WHISPER, data, printed, verdict
from .taking import brought, line
from .test_plan_page import config, faults, pasted

#: Questions of the Capacity page: other engines, machines, lengths that vary, what the person knows, images and adapters.
QUESTIONS: list[dict[str, object]] = [
    {},
    {"node": "8xh100", "load": 200, "price": 2.5},
    {"model": DEEPSEEK, "node": "h100", "gpus": 16, "vllm.pipeline_parallel_size": 2, "load": 8},
    {"model": GEMMA, "node": "4090", "server": "llama.cpp", "gguf": "Q4_K_M", "llama.cpp.n_ctx": 65536, "load": 2},
    {"model": GEMMA, "node": "h200", "image": "1024x768x2", "load": 2, "loras": 2},
    {"model": WHISPER, "node": "t4", "prompt": 4, "output": 400, "load": 4},
    {"server": "ollama", "node": "2x4090+1x3090", "load": 2},
    {"server": "sglang", "gpus": 2, "fill": "true", "load": 1, "sglang.context_length": 32768},
    {"vary": "log-normal", "prompt": 800, "prompt_p95": 4000, "prompt_max": 16000, "load": 250, "given.weights": 15.02},
    {"vary": "percentiles", "load": 20, "occupancy": "worst", "shared": 256, "given.kv": 20.5},
    {"server": "transformers", "node": "g5.xlarge", "load": 1, "lang": "zh-TW"},
]  # fmt: skip


def without_page(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    del found["page"]
    return found


# The Capacity page


@pytest.mark.parametrize("link", QUESTIONS, ids=lambda link: " ".join(str(value) for value in link.values()))
def test_a_plan_is_the_shells_and_comes_back_as_it_was(
    open_page: OpenPage, open_capacity: OpenPage, files: dict[str, str], link: dict[str, object]
) -> None:
    """The JSON is the shell's --json, the report its --markdown; opened from the other page, all is as it was."""
    page = open_capacity(**link)
    said, asked, saved = verdict(page) if "lang" not in link else "", line(page), dict(files)
    assert without_page(saved["plan.json"]) == data(asked)
    report = re.sub(r"\nOn the page, behind its address:\n\n```text\n[^\n]*\n```\n", "", saved["plan.md"])
    assert report.strip() == printed(f"{asked} --markdown").strip()
    back = brought(open_page(), saved["plan.json"])
    assert faults(back) == faults(page)
    assert [str(toast.value) for toast in back.toast] == ["Opened. Every input is as it was saved."]
    assert line(back) == asked
    assert not said or verdict(back) == said
    assert files == saved


@pytest.mark.parametrize(
    "words",
    [
        f"{LLAMA} --gpu h100 --requests 4 --prompt 1000 --output 24 --kv-cache-dtype fp8 --given kv=40GiB --price 2",
        f"{LLAMA} --gpu 8xh100 --prompt p50=800,p95=4000,max=16000 --output 300 --requests 300",
        f"{LLAMA} --gpu l4 --max-model-len 8192 --set enable_prefix_caching=false --engine-version 0.19.0",
        f"{GEMMA} --gpu 4090 --engine llama.cpp --weights q4_k_m --max-model-len 4096 --requests 2 --set n_seq_max=2",
        f"{LLAMA} --gpu 4090 --engine llama.cpp --max-model-len 4096 --set front_end=ollama --requests 2",
        f"{LLAMA} --gpu a100 --engine transformers --max-model-len 4096 --cache-implementation static --used 2GiB",
        f"{GEMMA} --gpu h200 --image 1024x768 --loras 2 --lora-rank 32 --requests 3 --prompt 500",
    ],
)  # fmt: skip
def test_what_the_shell_printed_is_opened_too(open_page: OpenPage, files: dict[str, str], words: str) -> None:
    said = cli.answer(["plan", *shlex.split(words)])
    page = brought(open_page(), json.dumps(said))
    assert verdict(page) == verdict_line(said)
    found = json.loads(files["plan.json"])
    for figure in ("headroom_bytes", "max_requests", "max_context", "terms", "per_gpu"):
        assert found[figure] == json.loads(json.dumps(said))[figure], figure
    assert len(page.toast) == 1  # and none that the answer is another one


def test_the_tables_add_up_and_their_curve_is_the_planners(open_capacity: OpenPage, files: dict[str, str]) -> None:
    open_capacity(load=30, gpus=2)
    terms = [(term["name"], term["bytes"]) for term in json.loads(files["plan.json"])["terms"]]
    told = [(row["use"], int(row["bytes"])) for row in csv.DictReader(io.StringIO(files["plan.csv"]))]
    assert told == terms
    assert sum(size for _, size in told[1:]) == told[0][1]
    curve = {int(row["context_tokens"]): int(row["most_requests"]) for row in csv.DictReader(io.StringIO(files["curve.csv"]))}
    most = cli.answer(["plan", LLAMA, "--gpu", "h100", "--gpus", "2", "--prompt", "32768", "--requests", "1"])["max_requests"]
    assert curve[32768] == most


# The Plan page


@pytest.mark.parametrize(
    "link",
    [
        {}, {"kv": "int4", "tokens": 1000}, {"engine": "transformers", "cache": "static", "lang": "zh-CN"},
        {"engine": "vllm", "model": GEMMA, "tokens": 4096, "requests": 3, "vllm.kv_cache_dtype": "fp8", "prefix": 512},
        {"engine": "llama.cpp", "requests": 4, "llama.cpp.flash_attn": "on", "gpu": "24GiB"}, {"engine": "ollama"},
        {"model": WHISPER, "tokens": 448, "encoder": 700}, {"engine": "tgi", "tokens": 200_000},
    ],
    ids=lambda link: " ".join(str(value) for value in link.values()),
)  # fmt: skip
def test_a_kv_answer_is_the_shells_and_comes_back_as_it_was(
    open_page: OpenPage, open_capacity: OpenPage, files: dict[str, str], link: dict[str, object]
) -> None:
    page = open_page(**link)
    asked, saved = line(page), dict(files)
    own = data(asked)
    assert without_page(saved["kv.json"]) == own
    layers = list(csv.DictReader(io.StringIO(saved["layers.csv"])))
    assert sum(int(row["bytes"]) for row in layers) == own["kv_cache_bytes"]
    assert f"({own['kv_cache_bytes']:,} bytes)" in saved["kv.md"]
    again = next(row for row in saved["kv.md"].splitlines() if row.startswith("python -m planner kv"))
    assert data(again) == own
    for text in (saved["kv.json"], json.dumps(own)):
        back = brought(open_capacity(), text)
        assert faults(back) == faults(page)
        assert line(back) == asked
        assert without_page(files["kv.json"]) == own


def test_a_config_of_ones_own_travels_in_the_file(open_page: OpenPage, open_capacity: OpenPage, files: dict[str, str]) -> None:
    text = config(max_position_embeddings=131_072, num_hidden_layers=7)
    page = pasted(open_capacity(), text)
    saved = files["plan.json"]
    assert json.loads(saved)["config"] == json.loads(text)
    back = brought(open_page(), saved)
    assert (verdict(back), line(back)) == (verdict(page), line(page))


def test_an_assumption_travels_too(open_page: OpenPage, files: dict[str, str]) -> None:
    page = pasted(open_page(), config(model_type="made_up"))
    box = next(box for box in page.checkbox if str(box.key).startswith("assume:"))
    box.set_value(True).run()
    saved = dict(files)
    assert json.loads(saved["kv.json"])["model"]["assumption"]
    back = brought(open_page(), saved["kv.json"])
    assert not back.exception
    assert files == saved


def test_the_same_page_takes_the_file_as_a_whole(open_capacity: OpenPage, files: dict[str, str]) -> None:
    """Inputs that the file leaves out go back to their defaults, and the link's old values are no longer warned of."""
    open_capacity()
    saved = files["plan.json"]
    page = open_capacity(load=77, server="sglang", gpus=4, price="many", **{"given.kv": 3, "vllm.kv_cache_dtype": "fp8"})
    assert faults(page) != []
    page = brought(page, saved)
    assert faults(page) == []
    assert files["plan.json"] == saved


def test_a_file_of_lengths_is_asked_for(open_page: OpenPage, open_capacity: OpenPage, files: dict[str, str]) -> None:
    page = open_capacity(vary="observed", load=50)
    rows = "prompt_tokens,output_tokens\n" + "".join(f"{200 + 37 * i % 3000},{20 + 11 * i % 400}\n" for i in range(300))
    page.file_uploader(key="lengths").set_value(("trace.csv", rows.encode(), "text/csv")).run()
    saved = json.loads(files["plan.json"])
    assert (saved["page"]["lengths"]["name"], saved["page"]["lengths"]["requests"]) == ("trace.csv", 300)
    back = brought(open_page(), json.dumps(saved))
    assert any("trace" in str(info.value) and "upload it again" in str(info.value) for info in back.info)
    back.file_uploader(key="lengths").set_value(("trace.csv", rows.encode(), "text/csv")).run()
    assert json.loads(files["plan.json"]) == saved


def test_an_answer_that_has_changed_is_said(open_capacity: OpenPage, files: dict[str, str]) -> None:
    open_capacity()
    saved = {**json.loads(files["plan.json"]), "max_requests": 12_345, "planner_version": "0.0.1"}
    page = brought(open_capacity(), json.dumps(saved))
    told = [str(toast.value) for toast in page.toast]
    assert any("12,345 in the file" in text and "0\\.0\\.1" in text for text in told)
    page.number_input(key="load").set_value(3).run()
    assert not any("12,345" in str(toast.value) for toast in page.toast)
