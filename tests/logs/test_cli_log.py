"""`python -m planner log`: text and JSON, exit status, what comes in from files and pipes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from planner.cli import main

#: Llama-3.1-8B: 4 GiB are 2,048 blocks of 32 x 16 x 4,096 bytes, 32,768 tokens, 4 requests of 8,192.
_LOG = """\
INFO 01-31 10:00:00 [core.py:1] Initializing a V1 LLM engine (v0.13.0) with config: model='meta-llama/Llama-3.1-8B', max_seq_len=8192, seed=0
INFO 01-31 10:00:00 [gpu_worker.py:1] Available KV cache memory: 4.00 GiB
INFO 01-31 10:00:00 [kv_cache_utils.py:1] GPU KV cache size: 32,768 tokens
INFO 01-31 10:00:00 [kv_cache_utils.py:1] Maximum concurrency for 8,192 tokens per request: 4.00x
"""  # noqa: E501


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "start.log"
    path.write_text(_LOG, "utf-8")
    return path


def test_a_log_that_is_reconciled(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", str(log)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("vllm 0.13.0: meta-llama/Llama-3.1-8B")
    assert "all compared figures agree" in said
    assert "2,048 blocks x 16 tokens" in said


def test_json_has_every_figure_and_line(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", str(log), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["schema_version"], data["engine"], data["version"], data["agrees"]) == (1, "vllm", "0.13.0", True)
    assert data["figures"]["gpu_kv_cache_tokens"]["value"] == 32_768
    assert {line["name"] for line in data["lines"]} == {"gpu_kv_cache_tokens", "max_concurrency"}
    assert data["settings"]["max_model_len"] == 8192


def test_a_log_that_differs_or_says_too_little(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", str(log), "--model", "Qwen/Qwen3-14B", "--set", "tensor_parallel_size=1"]) == 1
    log.write_text("INFO 01-31 10:00:00 [gpu_worker.py:1] Available KV cache memory: 4.00 GiB\n", "utf-8")
    capsys.readouterr()
    assert main(["log", str(log)]) == 1
    said = capsys.readouterr().out
    assert "nothing could be compared" in said
    assert "missing: --model" in said


def test_standard_input_and_windows_files(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PowerShell writes UTF-16; bytes that are no text are replaced."""
    log.write_bytes(_LOG.encode("utf-16"))
    assert main(["log", str(log)]) == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(_LOG.encode() + b"\xff\xfe\n")))
    assert main(["log", "-"]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.log"], "cannot be read"), (["EMPTY"], "empty"), (["OTHER"], "none of the"),
        (["LOG", "--gpu", "no such card"], "no accelerator"), (["LOG", "--set", "nonsense=1"], "the settings of vllm are"),
        (["LOG", "--set", "tensor_parallel_size=x"], "tensor_parallel_size"), ([], "log"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(
    arguments: list[str], words: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (("EMPTY", ""), ("OTHER", "hello\n")):
        (log.parent / name).write_text(text, "utf-8")
    paths = {"LOG": str(log), "EMPTY": str(log.parent / "EMPTY"), "OTHER": str(log.parent / "OTHER")}
    assert main(["log", *(paths.get(argument, argument) for argument in arguments)]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
