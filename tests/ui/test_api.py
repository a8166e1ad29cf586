"""The JSON routes: the shell's own figures, one error a fault, no path of the server, and a description that is true."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.applications import Starlette

from ui import api

ROOT = Path(__file__).resolve().parents[2]
APP = Starlette(routes=api.ROUTES)


def get(path: str, query: list[tuple[str, str]] | dict[str, str] | None = None) -> tuple[int, Any]:
    """Status and JSON of a GET, through the ASGI app itself."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "headers": [], "http_version": "1.1",
             "query_string": urlencode(query or {}).encode(), "scheme": "http", "server": ("x", 80), "root_path": ""}  # fmt: skip
    asyncio.run(APP(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], json.loads(body)


@pytest.mark.parametrize(
    ("command", "query"),
    [
        ("kv", {"model": "Qwen/Qwen2.5-72B", "tokens": "32768"}),
        ("kv", {"model": "google/gemma-3-27b-it", "tokens": "32768", "engine": "vllm", "tensor_parallel_size": "2"}),
        ("plan", {"model": "meta-llama/Llama-3.1-8B", "gpu": "l4", "max_model_len": "8192", "requests": "4", "price": "2.5"}),
    ],
)
def test_the_route_says_what_the_shell_prints(command: str, query: dict[str, str]) -> None:
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in query.items() if name != "model"]
    done = subprocess.run(
        [sys.executable, "-m", "planner", command, query["model"], *flags, "--json"], cwd=ROOT, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    status, data = get(f"/api/v1/{command}", query)
    assert status == 200
    shell = json.loads(done.stdout)
    for found in (data, shell):
        found["model"].pop("source", None)  # the route forces the catalogue, the shell finds it
    assert data == shell


def test_a_known_answer() -> None:
    """2 x 80 layers x 8 heads x 128 x 32,768 x 2 B = 10 GiB."""
    _, data = get("/api/v1/kv", {"model": "Qwen/Qwen2.5-72B", "tokens": "32768"})
    assert data["kv_cache_bytes"] == 10 * 2**30


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ({}, 400, "which model"),
        ({"model": "Qwen/Qwen2.5-72B", "tokens": "many"}, 400, "whole number"),
        ({"model": "Qwen/Qwen2.5-72B", "nonsense": "1"}, 400, "no parameter"),
        ({"model": "Qwen/Qwen2.5-72B", "assume_plain_attention": "perhaps"}, 400, "true or false"),
        ({"model": "Qwen/Qwen2.5-72B", "tokens": "9" * 500}, 400, "longer than"),
        ({"model": "Qwen/Qwen2.5-72B", "engine": "vllm", "tensor_parallel_size": "7", "tokens": "10"}, 422, "heads"),
    ],
)
def test_a_fault_is_one_error(query: dict[str, str], status: int, words: str) -> None:
    got, data = get("/api/v1/kv", query)
    assert got == status
    assert words in data["error"]["message"]
    assert data["error"]["code"]


@pytest.mark.parametrize("name", ["/etc/passwd", "README.md", "-", "../../etc/hostname", "tests", "--json", "catalogue:../x"])
def test_no_path_of_the_server_is_read(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Whatever is named is looked for in the catalogue or on the Hub, never on the disk."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(ROOT)
    status, data = get("/api/v1/kv", {"model": name, "tokens": "1"})
    assert status in (400, 502)
    assert "error" in data


def test_secrets_and_files_are_no_parameters() -> None:
    for command in api.COMMANDS:
        assert not {"token", "lengths", "json", "markdown", "help"} & set(api.flags(command))


def test_the_description_is_true() -> None:
    """Every parameter of the description is taken, and every flag of the shell but those left out is in it."""
    status, data = get("/api/v1/openapi.json")
    assert (status, data["openapi"]) == (200, "3.1.0")
    for command in api.COMMANDS:
        listed = {parameter["name"] for parameter in data["paths"][f"/api/v1/{command}"]["get"]["parameters"]}
        assert listed == set(api.flags(command))
        assert {p["name"] for p in data["paths"][f"/api/v1/{command}"]["get"]["parameters"] if p["required"]} >= {"model"}
