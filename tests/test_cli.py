"""The shell: what it prints, its exit statuses, and that its errors are one line."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from planner.cli import main

ROOT = Path(__file__).resolve().parent.parent
QWEN = {
    "model_type": "qwen2", "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "hidden_size": 8192,
    "intermediate_size": 29568, "vocab_size": 152064, "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(QWEN), "utf-8")
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def kv(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    status, out, err = run(capsys, "kv", *arguments, "--json")
    assert (status, err) == (0, "")
    data: dict[str, Any] = json.loads(out)
    return data


def test_qwen_72b_takes_10_gib(capsys: pytest.CaptureFixture[str], config: str) -> None:
    """80 layers x 8 heads x 128 x 2 x 2 bytes x 32,768 tokens = 10 GiB, and the common formula says 80 GiB."""
    data = kv(capsys, config, "--tokens", "32,768")
    assert data["schema_version"] == 1
    assert data["kv_cache_bytes"] == 10 * 2**30
    assert data["twins"]["common_formula_bytes"] == 80 * 2**30
    assert data["twins"]["multi_head_bytes"] == 80 * 2**30
    assert data["twins"]["multi_query_bytes"] * 64 == 80 * 2**30


def test_human_answer_comes_first_with_its_formula(capsys: pytest.CaptureFixture[str], config: str) -> None:
    status, out, _ = run(capsys, "kv", config, "--tokens", "32768")
    assert status == 0
    assert "10.00 GiB (10,737,418,240 B)" in out.split("How")[0]
    assert "8 heads x 32,768 positions x (128 + 128) x 2 B = 134,217,728 B" in out


def test_storage_formats(capsys: pytest.CaptureFixture[str], config: str) -> None:
    """fp8 halves bfloat16; int8 is half plus 4 bytes of scale and zero point for each 64 elements."""
    assert kv(capsys, config, "--tokens", "32768", "--kv-cache-dtype", "fp8")["kv_cache_bytes"] == 5 * 2**30
    assert kv(capsys, config, "--tokens", "32768", "--kv-cache-dtype", "int8")["kv_cache_bytes"] == 5 * 2**30 * 68 // 64


def test_the_context_limit_is_the_default(capsys: pytest.CaptureFixture[str], config: str) -> None:
    assert kv(capsys, config)["tokens"] == 131072


def test_does_not_fit_is_status_1(capsys: pytest.CaptureFixture[str], config: str) -> None:
    status, out, err = run(capsys, "kv", config, "--tokens", "32768", "--gpu", "h100")
    assert (status, err) == (1, "")
    assert "do not fit" in out


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["kv"], 2, "required: model"),
        (["kv", "CONFIG", "--tokens", "many"], 2, "not a whole number"),
        (["kv", "CONFIG", "--tokens", "9" * 40], 2, "tokens"),
        (["kv", "CONFIG", "--requests", "0"], 2, "requests"),
        (["kv", "CONFIG", "--kv-cache-dtype", "fp7"], 2, "fp7"),
        (["kv", "CONFIG", "--gpu", "no-such"], 2, "no-such"),
        (["kv", "CONFIG", "--cache-implementation", "sliding"], 2, "cache_implementation"),
        (["kv", "./nowhere/config.json"], 2, "no file"),
        (["nothing"], 2, "invalid choice"),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], config: str, arguments: list[str], status: int, says: str
) -> None:
    found, out, err = run(capsys, *[config if a == "CONFIG" else a for a in arguments])
    assert (found, out) == (status, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert says in err


def test_unknown_architecture_names_its_fields(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**QWEN, "model_type": "brand_new", "sliding_window": 4096}), "utf-8")
    status, _, err = run(capsys, "kv", str(path))
    assert status == 2
    assert "brand_new" in err
    assert "sliding_window" in err
    status, out, _ = run(capsys, "kv", str(path), "--assume-plain-attention", "--tokens", "10")
    assert status == 0
    assert "own risk" in out


def test_a_hub_that_is_not_there_is_status_3(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    status, _, err = run(capsys, "kv", "hub:someone/something")
    assert status == 3
    assert err.count("\n") == 1


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    for command, expected in (("models", "Qwen/Qwen2.5-72B"), ("gpus", "h100-sxm"), ("engines", "transformers")):
        status, out, _ = run(capsys, command)
        assert status == 0
        assert expected in out
        status, out, _ = run(capsys, command, "--json")
        assert json.loads(out)[command]


def test_standard_input(config: str) -> None:
    text = Path(config).read_bytes()
    command = [sys.executable, "-m", "planner", "kv", "-", "--tokens", "10"]
    done = subprocess.run(command, input=text, capture_output=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert b"3.12 MiB" in done.stdout


def test_readme_commands_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Every `python -m planner` line of the README does what it says."""
    commands = re.findall(r"^\$ python -m planner (.+)$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert len(commands) >= 4
    for command in commands:
        status, out, err = run(capsys, *shlex.split(command))
        assert (status in (0, 1), err) == (True, ""), command
        assert out


def test_readme_python_runs() -> None:
    """The README's Python does what its comments say."""
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert code
    names: dict[str, Any] = {}
    exec(code[1], names)
    assert names["cache"].total_bytes == 10_737_418_240
    assert names["plan"].verdict == "fits"
