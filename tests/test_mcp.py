"""The Model Context Protocol: a client starts the server as a process, lists its tools and gets the shell's figures."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

mcp = pytest.importorskip("mcp", reason="the package mcp is not installed: pip install -r requirements-mcp.txt")

ROOT = Path(__file__).resolve().parent.parent


def called(tool: str, arguments: dict[str, Any]) -> tuple[set[str], Any]:
    """The server's tools, and what one of them says."""

    async def talk() -> tuple[set[str], Any]:
        from mcp.client.stdio import StdioServerParameters, stdio_client

        parameters = StdioServerParameters(command=sys.executable, args=[str(ROOT / "mcp_server.py")], cwd=str(ROOT))
        async with stdio_client(parameters) as streams, mcp.ClientSession(*streams) as session:
            await session.initialize()
            names = {found.name for found in (await session.list_tools()).tools}
            result = await session.call_tool(tool, arguments)
            return names, json.loads(result.content[0].text)

    return asyncio.run(talk())


def test_a_known_answer() -> None:
    """2 x 80 layers x 8 heads x 128 x 32,768 x 2 B = 10 GiB."""
    names, data = called("kv_cache", {"model": "Qwen/Qwen2.5-72B", "tokens": 32768})
    assert names == {"kv_cache", "plan"}
    assert data["kv_cache_bytes"] == 10 * 2**30


def test_a_plan_and_a_refusal() -> None:
    """Llama-3.1-8B at 8,192 starts on an L4; seven GPUs cannot share its heads and a name that is none is one error."""
    _, data = called("plan", {"model": "meta-llama/Llama-3.1-8B", "gpu": "l4", "max_model_len": 8192})
    assert data["verdict"] == "fits"
    _, data = called("plan", {"model": "meta-llama/Llama-3.1-8B", "gpu": "h1000"})
    assert "h1000" in data["error"]["message"]
