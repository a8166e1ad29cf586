"""Reports in Markdown that add up and hold only text, and launch scripts that are the command and nothing else."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from typing import Any

import pytest

import model_configs
from planner import cli
from planner.cli_asked import shell_line
from planner.kv_markdown import kv_markdown
from planner.launch_script import launch_script
from planner.markdown import code, plain, table
from planner.plan_markdown import plan_markdown

LLAMA = "meta-llama/Llama-3.1-8B"


def of_name(name: str, words: str) -> dict[str, Any]:
    """The plan of a small model whose config calls it `name`."""
    model = model_configs.read({
        "model_type": "llama", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 512,
        "vocab_size": 1000, "intermediate_size": 1024, "max_position_embeddings": 4096, "_name_or_path": name,
    })  # fmt: skip
    return cli.answer(["plan", "config.json", "--gpu", "h100", *words.split()], lambda _: model)


def rows_of(text: str, columns: int) -> list[list[str]]:
    """The cells of every row of the tables with this many columns."""
    found = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in text.splitlines() if row.startswith("| ")]
    return [row for row in found if len(row) == columns]


# Reports


@pytest.mark.parametrize(
    "words",
    [
        "--gpu h100", "--gpu 8xh100 --engine sglang --requests 64", "--gpu l4 --engine tgi --max-model-len 4096",
        "--gpu 2x4090+1x3090 --engine llama.cpp --requests 4 --prompt 1000", "--gpu a100 --engine transformers --prompt 2000",
        "--gpu h200 --engine tensorrt-llm --prompt p50=800,p95=4000,max=8000 --output 20 --requests 80 --price 2",
    ],
)  # fmt: skip
def test_a_report_has_every_term_advice_and_note(words: str) -> None:
    said = cli.answer(["plan", LLAMA, *words.split()])
    text = plan_markdown(said, "2026-11-30")
    told = {row[0]: int(row[2].replace(",", "")) for row in rows_of(text, 6) if re.fullmatch(r"-?[\d,]+", row[2])}
    assert list(told) == [term["name"] for term in said["terms"]]
    first, *rest = told.values()
    assert sum(rest) == first == said["terms"][0]["bytes"]
    for one in said["advice"]:
        assert [plain(one["text"])] == [row[0] for row in rows_of(text, 4) if row[0] == plain(one["text"])]
    for note in (*said["notes"], *said["warnings"]):
        assert f"- {plain(note)}" in text.splitlines()
    for block in (said["command"], shell_line(said["asked"])):
        assert f"\n{block}\n```\n" in text
    assert text.endswith("on 2026-11-30.\n")


def test_the_kv_report_adds_up() -> None:
    """4 layers x 2 heads x (64 + 64) x 1,000 tokens x 2 B, twice."""
    model = model_configs.read({
        "model_type": "llama", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 512,
        "vocab_size": 1000, "intermediate_size": 1024, "max_position_embeddings": 4096,
    })  # fmt: skip
    text = kv_markdown(cli.answer(["kv", "config.json", "--tokens", "1000", "--requests", "2"], lambda _: model))
    whole = 4 * 2 * 128 * 1_000 * 2 * 2
    assert f"({whole:,} bytes) for 2 requests of 1,000 tokens" in text
    assert [row[4] for row in rows_of(text, 5)][-1] == f"{whole:,}"
    assert f"Together {whole:,} bytes." in text


def test_a_table_and_a_fence_hold_whatever_is_in_them() -> None:
    assert table(("a",), [("x | y\n| z",)])[-1] == "| x \\| y \\| z |"
    assert code("a\n```\nb", "bash") == ["````bash", "a", "```", "b", "````"]


def test_a_report_is_text_whatever_a_name_holds() -> None:
    said = cli.answer(["plan", LLAMA, "--gpu", "h100"])
    said["model"] = {**said["model"], "name": "<script>alert(1)</script> [x](javascript:y) | ` \n# no title"}
    text = plan_markdown(said)
    assert "<script>" not in text.replace("\\<script\\>", "")
    assert not re.search(r"(?<!\\)\]\(", text)
    assert "\n# no title" not in text


# Launch scripts


@pytest.mark.parametrize(
    "words",
    [
        "--engine vllm", "--engine sglang", "--engine tgi", "--engine tensorrt-llm", "--engine llama.cpp",
        "--engine tensorrt-llm --kv-cache-dtype fp8",
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", [LLAMA, "it's $(touch /tmp/x) `id`; rm -rf ~ \n# \"model\""])
def test_a_launch_script_is_the_command_and_nothing_else(words: str, name: str) -> None:
    said = of_name(name, words)
    called, text = launch_script(said, "2026-11-30")
    assert called == "launch.sh"
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    head, body = text.split("\n\n", 1)
    assert shlex.split(body) == shlex.split(said["command"])
    assert (name in shlex.split(body)) != words.startswith("--engine llama.cpp")  # which has the name of a file
    first, *comments, last = head.splitlines()
    assert (first, last) == ("#!/usr/bin/env bash", "set -euo pipefail")
    assert all(row.startswith("# ") for row in comments)
    assert " ".join(name.split()) in comments[0]


@pytest.mark.parametrize("name", [LLAMA, 'x", trust_remote_code=True) or print("'])
def test_a_python_launch_is_python_with_the_name_as_text(name: str) -> None:
    said = of_name(name, "--engine transformers")
    called, text = launch_script(said)
    assert called == "launch.py"
    tree = ast.parse(text)
    calls = {ast.unparse(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for loaded in ("AutoModelForCausalLM", "AutoTokenizer"):
        assert ast.literal_eval(calls[f"{loaded}.from_pretrained"].args[0]) == name
    names_used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert names_used == {"AutoModelForCausalLM", "AutoTokenizer", "model", "tokenizer", "inputs", "output", "print"}


def test_ollamas_script_waits_for_its_server() -> None:
    said = cli.answer(["plan", LLAMA, "--gpu", "4090", "--engine", "llama.cpp", "--set", "front_end=ollama", "--requests", "2"])
    called, text = launch_script(said)
    assert called == "launch.sh"
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0
    server, client = said["command"].splitlines()
    rows = text.splitlines()
    assert rows.index(f"{server} &") < next(i for i, row in enumerate(rows) if row.startswith("until ")) < rows.index(client)


