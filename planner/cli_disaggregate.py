"""`python -m planner disaggregate MODEL`: prefill and decode on GPUs of their own, in a shell."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from planner.cli_settings import settings_of
from planner.disaggregate import Disaggregation, Pool, Role, disaggregate
from planner.engines.base import EngineSettings
from planner.latency_efficiency import Range
from planner.model import Model
from planner.plan_report import plan_data, verdict_line
from planner.report import SCHEMA_VERSION
from planner.units import format_bytes

Count = Callable[[str], int]


def add_parser(commands: Any, count: Count) -> None:
    """Adds the `disaggregate` command. count: reads a whole number."""
    add = commands.add_parser("disaggregate", help="prefill and decode on separate GPUs: bytes moved, balance").add_argument
    add("model", help="Hub id, catalogue id, path to a config.json or a folder, or - for a config.json on stdin")
    for role in ("prefill", "decode"):
        add(f"--{role}-gpu", required=True, help=f"GPUs of the {role} pool: h100-sxm, 8xh200, p5.48xlarge")
        add(f"--{role}-gpus", type=count, default=1, help="how many of them (default: what the split takes)")
        add(f"--{role}-tp", type=count, help="GPUs that each layer is split over there (default: all)")
        add(f"--{role}-pp", type=count, help="pipeline stages there")
        add(f"--{role}-set", action="append", metavar="NAME=VALUE", help="any other setting of the engine there")
    add("--link", required=True, help="what each GPU sends over, a second: 400Gb (bits), 50GB, nvlink or pcie")
    add("--prompt", type=count, required=True, help="tokens of a prompt")
    add("--output", type=count, required=True, help="tokens of an answer")
    add("--requests", type=count, help="requests that decode at once (default: as many as are held)")
    add("--engine", choices=("vllm", "sglang", "tensorrt-llm"), default="vllm", help="default vllm")
    add("--max-model-len", type=count, help="longest request of both pools (default: prompt and answer)")
    add("--kv-cache-dtype", default="auto", help="of both pools, in the engine's own words (fp8)")
    add("--engine-version", help="version of the engine (default: the newest known)")
    add("--revision", help="branch, tag or commit on the Hub")
    add("--token", help="Hub token for a gated model, used for this call alone")
    add("--assume-plain-attention", action="store_true", help="treat an unknown architecture as plain attention")
    add("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace, read: Callable[[argparse.Namespace], Model]) -> int:
    """Plans both pools and prints. Returns 0 where both fit, 1 where not. Errors: PlannerError."""
    pools = {role: _pool(arguments, role) for role in ("prefill", "decode")}
    found = disaggregate(
        read(arguments), arguments.engine, **pools, link=arguments.link, prompt_tokens=arguments.prompt,
        output_tokens=arguments.output, requests=arguments.requests,
    )  # fmt: skip
    print(json.dumps(data_of(found), indent=2) if arguments.json else text_of(found))
    return 0 if found.fits else 1


def _pool(arguments: argparse.Namespace, role: str) -> Pool:
    words = vars(arguments)
    made: EngineSettings = settings_of(arguments.engine, argparse.Namespace(
        kv_cache_dtype=arguments.kv_cache_dtype, tensor_parallel_size=words[f"{role}_tp"], block_size=None,
        pipeline_parallel_size=words[f"{role}_pp"], max_model_len=arguments.max_model_len, cache_implementation=None,
        engine_version=arguments.engine_version, set=words[f"{role}_set"],
    ))  # fmt: skip
    return Pool(words[f"{role}_gpu"], words[f"{role}_gpus"], made)


def data_of(found: Disaggregation) -> dict[str, Any]:
    """The answer as plain data, JSON schema version 1."""
    return {
        "schema_version": SCHEMA_VERSION, "fits": found.fits, "prefill": _role(found.prefill), "decode": _role(found.decode),
        "moved": asdict(found.moved), "link_bytes_per_s": found.link_bytes_per_s, "transfer_s": asdict(found.transfer_s),
        "prefill_gpus_per_decode_gpu": found.prefill_per_decode and asdict(found.prefill_per_decode), "bound": found.bound,
        "notes": list(found.notes),
    }  # fmt: skip


def _role(role: Role) -> dict[str, Any]:
    return {
        "plan": plan_data(role.plan), "seconds": role.seconds and asdict(role.seconds), "concurrency": role.concurrency,
        "requests_per_s": role.requests_per_s and asdict(role.requests_per_s), "command": role.command,
    }  # fmt: skip


def text_of(found: Disaggregation) -> str:
    """For a person: each pool's verdict, what moves and how long that takes, which pool waits, and the commands."""
    lines = []
    for name, role, what in (("Prefill", found.prefill, "a prompt"), ("Decode", found.decode, "a step")):
        data = plan_data(role.plan)
        lines.append(f"{name}  {verdict_line(data)}")
        layout = f"TP {role.plan.tensor_parallel_size} x PP {role.plan.pipeline_parallel_size} x DP {role.plan.replicas}"
        lines.append(f"  {role.plan.gpus} x {role.plan.gpu.name}, {layout}")
        if role.seconds and role.requests_per_s:
            many = f" with {role.concurrency:,} requests on a server" if role is found.decode else ""
            lines.append(f"  {what}{many} in {_ms(role.seconds)}; {_span(role.requests_per_s)} requests a second, estimated")
    moved = found.moved
    kinds = ", ".join(f"{kind} {format_bytes(size)}" for kind, size in moved.by_kind.items() if size)
    lines += [
        "", f"Moved for each request  {format_bytes(moved.bytes)} ({moved.bytes:,} B; {kinds})",
        f"  {format_bytes(moved.block_bytes)} in whole blocks, {format_bytes(moved.received_bytes)} on all decode GPUs together",
        f"  in {_ms(found.transfer_s)} at {found.link_bytes_per_s / 1e9:,.4g} GB/s a GPU, estimated",
    ]  # fmt: skip
    if found.prefill_per_decode:
        waits = {"prefill": "decode waits for prefill", "decode": "prefill waits for decode", "either": "either may wait"}
        lines.append(f"Balance  {_span(found.prefill_per_decode)} prefill GPUs for each decode GPU, estimated; here "
                     f"{waits[found.bound or 'either']}")  # fmt: skip
    lines += ["", "Commands", *(f"  {line}" for role in (found.prefill, found.decode) for line in role.command.splitlines())]
    return "\n".join([*lines, *(f"\nnote: {text}" for text in found.notes)])


def _span(found: Range) -> str:
    return f"{found.low:,.3g} to {found.high:,.3g}"


def _ms(found: Range) -> str:
    return f"{found.low * 1e3:,.1f} to {found.high * 1e3:,.1f} ms"
