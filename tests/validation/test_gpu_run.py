"""The script for a lease: its runs are well formed, it keeps to its budget, goes on where it stopped, and really runs."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import model_configs
from validation import __main__ as command
from validation import request
from validation.compare import read_json
from validation.cut import cut

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("gpu_run", ROOT / "scripts/gpu_run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_run"] = module
    spec.loader.exec_module(module)
    return module


def test_every_run_is_a_model_of_the_catalogue_and_words_that_the_command_takes(script: Any) -> None:
    """The families that a report is wanted of are all there, each within the memory of an H200 in bf16."""
    types = set()
    for run in script.RUNS:
        wanted = request.from_arguments(command._parser().parse_args([run.model, "--dtype", "bfloat16", *run.words]))
        model = model_configs.read(f"catalogue:{run.model}")
        model = cut(model, wanted.layers) if wanted.layers else model
        assert model.params is not None
        assert model.params * 2 < 110e9, run.name
        wanted.filled("cuda")
        types.add(model.model_type)
    assert types >= {"llama", "qwen3", "gemma3", "deepseek_v2", "gpt_oss", "qwen3_next", "qwen3_5"}
    assert len({run.name for run in script.RUNS}) == len(script.RUNS)


def test_a_tiny_run_really_writes_its_report(script: Any, tmp_path: Path) -> None:
    words = ["--device", "cpu", "--tiny", "--out", str(tmp_path), "--only", "tiny-mistral", "--budget", "240"]
    assert script.main(words) == 0
    assert read_json((tmp_path / "tiny-mistral.json").read_text("utf-8")).agrees
    assert script.main(words) == 0  # whole already: not run again


def test_it_keeps_to_its_budget_and_says_how_each_run_ended(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now, limits = [0.0], []
    monkeypatch.setattr(script.time, "monotonic", lambda: now[0])

    def run(words: list[str], timeout: float, env: dict[str, str], **more: Any) -> Any:
        limits.append((words[3], timeout, env.get("PYTORCH_CUDA_ALLOC_CONF")))
        now[0] += 100
        if len(limits) == 2:
            raise subprocess.TimeoutExpired(words, timeout)
        return SimpleNamespace(returncode=len(limits) - 1)

    monkeypatch.setattr(script.subprocess, "run", run)
    (tmp_path / "gemma-3-12b.json").write_text(json.dumps({"partial": False}), "utf-8")
    (tmp_path / "llama-3.1-8b.json").write_text(json.dumps({"partial": True}), "utf-8")
    assert script.main(["--out", str(tmp_path), "--budget", "290"]) == 1
    assert limits[0] == ("meta-llama/Llama-3.1-8B", 240, None)
    assert limits[1] == ("meta-llama/Llama-3.1-8B", 190, "expandable_segments:True")
    said = capsys.readouterr().out
    assert "out of time" in said
    assert "there already" in said
    assert said.count("not begun: no time left") == len(script.RUNS) - 4
    assert len(limits) == 3
