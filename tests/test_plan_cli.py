"""`python -m planner plan`: the answer for a person, as JSON, and by exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import model_configs
from planner.capacity import plan
from planner.cli import main

LLAMA = "catalogue:meta-llama/Llama-3.1-8B"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["plan", *words])
    out, err = capsys.readouterr()
    return status, out, err


def data(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(capsys, *words, "--json")[1])
    return found


def test_the_verdict_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, LLAMA, "--gpu", "h100", "--max-model-len", "8192", "--requests", "8")
    first, *rest = out.splitlines()
    assert (status, err) == (0, "")
    assert first.startswith("Starts. 8 requests of 8,192 tokens; ")
    assert first.endswith(" free on the GPU")
    text = "\n".join(rest)
    for words in ("At most ", "Memory of the GPU", "weights", "kv cache", "exact", "estimated", "What the room buys", "Command",
                  "vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192"):  # fmt: skip
        assert words in text


def test_what_does_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, LLAMA, "--gpu", "t4", "--gpus", "1")
    assert status == 1
    assert out.startswith("Does not start: ")
    assert "GiB short on the GPU" in out.splitlines()[0]
    assert "What would make it fit" in out
    status, out, _ = run(capsys, LLAMA, "--gpu", "2xh100", "--max-model-len", "8192", "--requests", "5000")
    assert status == 1
    assert out.startswith("Starts, and does not hold 5,000 requests of 8,192 tokens at once: ")
    assert "short on each GPU" in out.splitlines()[0]


def test_the_shell_says_what_python_says(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, LLAMA, "--gpu", "2xh100", "--max-model-len", "16384", "--requests", "4")
    ours = plan(model_configs.read(LLAMA), "vllm", {"max_model_len": 16384}, "2xh100", 1, None)
    assert found["schema_version"] == 1
    assert (found["gpus"], found["split"]["tensor_parallel_size"]) == (2, 2)
    assert found["kv_budget_bytes"] == ours.kv_bytes
    assert (found["max_requests"], found["command"]) == (ours.max_requests, ours.command)
    assert found["headroom_bytes"] == found["kv_budget_bytes"] - found["kv_need_bytes"]
    assert {"name", "bytes", "low", "high", "confidence", "source", "formula"} == set(found["terms"][0])


@pytest.mark.parametrize(
    ("engine", "words", "command"),
    [
        ("vllm", (), "vllm serve"), ("sglang", (), "python -m sglang.launch_server"), ("tensorrt-llm", (), "trtllm-serve"),
        ("tgi", (), "text-generation-launcher"), ("llama.cpp", ("--weights", "Q4_K_M"), "llama-server"),
        ("transformers", (), "from transformers"),
    ],
)  # fmt: skip
def test_every_engine_plans(capsys: pytest.CaptureFixture[str], engine: str, words: tuple[str, ...], command: str) -> None:
    found = data(capsys, LLAMA, "--gpu", "h100", "--engine", engine, "--max-model-len", "4096", *words)
    assert found["verdict"] == "fits"
    assert (found["context"], found["length"], found["requests"]) == (4096, 4096, 1)
    assert found["command"].startswith(command)
    lengths = ("--prompt", "3000", "--output", "96", "--requests", "3")
    asked = data(capsys, LLAMA, "--gpu", "h100", "--engine", engine, *lengths, *words)
    assert (asked["length"], asked["requests"]) == (3096, 3)


def test_lengths_that_vary_are_simulated(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = (LLAMA, "--gpu", "h100", "--max-model-len", "32768", "--requests", "40")
    found = data(capsys, *words, "--prompt", "p50=800,p95=4000", "--output", "p50=200,p95=900")
    assert found["workload"]["typical"]
    assert [row["share_of_time"] for row in found["simulation"]["curve"]] == [0.5, 0.9, 0.95, 0.99]
    (tmp_path / "seen.csv").write_text("prompt_tokens,output_tokens\n100,50\n9000,700\n400,30\n", encoding="utf-8")
    status, out, _ = run(capsys, *words, "--lengths", str(tmp_path / "seen.csv"))
    assert status == 0
    assert "Over time (2,000 simulated moments, seed 0)" in out
    assert "in 95% of the time" in out
    worst = data(capsys, *words, "--lengths", str(tmp_path / "seen.csv"), "--occupancy", "worst")
    assert worst["kv_need_bytes"] > data(capsys, *words, "--lengths", str(tmp_path / "seen.csv"))["kv_need_bytes"]


def test_a_price_gives_costs(capsys: pytest.CaptureFixture[str]) -> None:
    words = (LLAMA, "--gpu", "2xh100", "--max-model-len", "8192", "--price", "3.5")
    found = data(capsys, *words, "--prompt", "1000", "--output", "500", "--requests", "64")["cost"]
    assert found["per_hour"] == 7.0
    assert 0 < found["per_million_low"] < found["per_million_high"]
    _, out, _ = run(capsys, *words)
    assert "Cost  7.00 an hour (2 x 3.50)" in out
    assert "say how long prompts" in out


def test_what_the_person_knows_wins(capsys: pytest.CaptureFixture[str]) -> None:
    words = (LLAMA, "--gpu", "h100", "--max-model-len", "8192")
    found = data(capsys, *words, "--given", "kv=20GiB")
    assert found["kv_budget_bytes"] == 20 * 1024**3
    weights = next(term for term in data(capsys, *words, "--weights", "5GiB")["terms"] if term["name"] == "weights")
    assert (weights["bytes"], weights["confidence"]) == (5 * 1024**3, "given")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((LLAMA,), "--gpu"), ((LLAMA, "--gpu", "nosuch"), "nosuch"), ((LLAMA, "--gpu", "h100", "--gpus", "0"), "gpus"),
        ((LLAMA, "--gpu", "h100", "--max-model-len", "200000"), "beyond"), ((LLAMA, "--gpu", "h100", "-tp", "5"), "heads"),
        ((LLAMA, "--gpu", "h100", "--output", "5"), "prompt"), ((LLAMA, "--gpu", "h100", "--prompt", "x"), "prompt"),
        ((LLAMA, "--gpu", "h100", "--lengths", "/nonexistent"), "cannot read"),
        ((LLAMA, "--gpu", "h100", "--given", "kv"), "NAME=SIZE"), ((LLAMA, "--gpu", "h100", "--given", "kv=x"), "amount"),
        ((LLAMA, "--gpu", "h100", "--weights", "Q9"), "weights"), ((LLAMA, "--gpu", "h100", "--price", "-1"), "price"),
        ((LLAMA, "--gpu", "h100", "--price", "nan"), "price"), ((LLAMA, "--gpu", "h100", "--requests", "0"), "requests"),
        ((LLAMA, "--gpu", "h100", "--set", "nosuch=1"), "nosuch"), (("catalogue:nosuch", "--gpu", "h100"), "nosuch"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str) -> None:
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert why in err


def test_several_cards_are_named_to_llama_server(capsys: pytest.CaptureFixture[str]) -> None:
    """Layers are split by the cards' usable memory: a 4090 has 24,074 of its MiB left and a 3060 12,029."""
    line = "plan google/gemma-3-4b-it --engine llama.cpp --gpu 1x4090+1x3060 --max-model-len 8192"
    main([*line.split(), "--json"])
    command = json.loads(capsys.readouterr().out)["command"]
    assert "--split-mode layer --tensor-split 24074,12029" in command


def test_what_shares_the_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    """Adapters by each engine's own settings, or as their bytes; other processes for all."""
    words = (LLAMA, "--gpu", "h100", "--max-model-len", "8192", "--loras", "4", "--lora-rank", "32", "--used", "2GiB")
    for engine, flag in (("vllm", "--max-loras 4 --max-lora-rank 32"), ("sglang", "--max-loras-per-batch 4"),
                         ("tensorrt-llm", "max_loras: 4"), ("tgi", ""), ("llama.cpp", "")):  # fmt: skip
        found = data(capsys, *words, "--engine", engine)
        terms = {term["name"]: term["bytes"] for term in found["terms"]}
        assert terms["other processes"] == 2 * 1024**3
        assert flag in found["command"]
        assert terms["lora adapters"] >= 4 * 2 * 2 * 41943040  # rank 32 is twice rank 16
    status, _, err = run(capsys, LLAMA, "--gpu", "h100", "--used", "20GiB")
    assert status == 2
    assert "a share of at most 0.74 starts" in err
    assert run(capsys, LLAMA, "--gpu", "h100", "--used", "x")[0] == 2
    assert run(capsys, LLAMA, "--gpu", "h100", "--loras", "1", "--lora-rank", "24")[0] == 2


def test_a_slice_and_host_memory(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, LLAMA, "--gpu", "h100-sxm:3g.40gb", "--max-model-len", "8192", "--set", "kv_offloading_size=16")
    assert found["gpu"]["id"] == "h100-sxm:3g.40gb"
    assert found["host"]["tiers"][0]["requests"] == 16
