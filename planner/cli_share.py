"""The shell's flags for what shares a GPU with a model: other processes, and LoRA adapters under each engine's own settings."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from planner.capacity_deploy import changed
from planner.engines.base import EngineSettings
from planner.errors import InputError
from planner.lora import adapter_bytes
from planner.model import Model
from planner.units import parse_bytes

#: What each engine calls the adapters of a batch; where it has no setting, their bytes are a figure of the budget.
_LORAS = {"vllm": "max_loras", "sglang": "max_loras_per_batch", "tensorrt-llm": "max_loras"}


def add_sharing(add: Callable[..., Any], count: Callable[[str], int]) -> None:
    """Adds --used, --loras, --lora-rank and --lora-modules."""
    add("--used", metavar="SIZE", help="what other processes hold of each GPU, as nvidia-smi shows it (10GiB)")
    add("--loras", type=count, help="LoRA adapters in a batch at once")
    add("--lora-rank", type=count, default=16, help="the largest rank of an adapter (default 16)")
    add("--lora-modules", help="modules that adapters are on (q_proj,v_proj; default: every linear layer)")


def shared(model: Model, settings: EngineSettings, given: dict[str, int], arguments: argparse.Namespace) -> EngineSettings:
    """The settings that keep --loras adapters of --lora-rank ready. Their bytes go to `given` for engines without such settings,
    and --used for all.

    Errors: InputError.
    """
    if arguments.used is not None:
        try:
            given["other processes"] = parse_bytes(arguments.used)
        except ValueError as error:
            raise InputError(f"--used: {error}", field="used") from None
    if not arguments.loras:
        return settings
    modules = arguments.lora_modules.split(",") if arguments.lora_modules else None
    if arguments.engine not in _LORAS:
        given.setdefault("lora adapters", arguments.loras * adapter_bytes(model, arguments.lora_rank, modules))
        return settings
    update: dict[str, Any] = {_LORAS[arguments.engine]: arguments.loras, "max_lora_rank": arguments.lora_rank}
    if arguments.engine != "tensorrt-llm":
        update["enable_lora"] = True
    if arguments.engine == "sglang":  # it needs them named, unless it reads them from adapters at hand
        modules = modules or ["all"]
    if modules:
        update["lora_target_modules"] = modules
    asked: EngineSettings = changed(settings, **update)
    return asked
