"""The planner as tools of the Model Context Protocol, over standard input and output: `python mcp_server.py`.

Needs `pip install -r requirements-mcp.txt`. The figures are those of the shell, from the same code. A model is one of the
catalogue or of the Hub; no file is read and nothing is run.
"""

from __future__ import annotations

from typing import Any

from mcp.server import MCPServer

from planner.cli import answer
from planner.errors import PlannerError
from planner.version import VERSION
from ui.api import words

server = MCPServer("kv-cache-planner", version=VERSION, instructions="KV-cache memory of language models, in bytes, by engine.")


def asked(command: str, **given: Any) -> dict[str, Any]:
    """The shell's JSON for these words, or its error as data: a refusal is an answer too."""
    query = [(name, str(value)) for name, value in given.items() if value not in (None, "", [])]
    try:
        return answer(words(command, query))
    except PlannerError as problem:
        return {"error": {"code": problem.code, "message": problem.message}}


@server.tool()
def kv_cache(
    model: str, tokens: int | None = None, requests: int = 1, engine: str | None = None, kv_cache_dtype: str | None = None,
    tensor_parallel_size: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Bytes of a model's KV cache, layer by layer, with the formula.

    model: a Hub id such as Qwen/Qwen2.5-72B. tokens: positions held by each request (the model's limit where left out). engine:
    vllm, sglang, tensorrt-llm, tgi, llama.cpp or transformers; the architecture alone where left out.
    """
    return asked(
        "kv", model=model, tokens=tokens, requests=requests, engine=engine, kv_cache_dtype=kv_cache_dtype,
        tensor_parallel_size=tensor_parallel_size,
    )  # fmt: skip


@server.tool()
def plan(
    model: str, gpu: str, gpus: int = 1, engine: str = "vllm", max_model_len: int | None = None, requests: int | None = None,
    kv_cache_dtype: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Whether a model starts on these GPUs, how many requests and how long a context fit, where the memory goes, what to change.

    gpu: a name such as h100-sxm, l4 or 4090, a machine (8xh100, p5.48xlarge), or an amount (24GiB). The launch command is in it.
    """
    return asked(
        "plan", model=model, gpu=gpu, gpus=gpus, engine=engine, max_model_len=max_model_len, requests=requests,
        kv_cache_dtype=kv_cache_dtype,
    )  # fmt: skip


if __name__ == "__main__":
    server.run("stdio")
