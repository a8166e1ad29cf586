"""An answer that the shell printed with --json as inputs of the page: what its `asked` says, by each input's name in a link."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from planner import cli, cli_plan
from planner.capacity_weights import GGUF_BITS
from planner.cli_settings import settings_of
from planner.dtypes import storage_format
from planner.engines.base import EngineSettings
from planner.errors import PlannerError
from planner.units import GIB, parse_bytes
from ui import api, capacity_given, capacity_inputs, inputs, model_own
from ui.engine_fields import ARCHITECTURE, fields, key
from ui.import_values import Path, Wrong

#: Flags that no input says.
_NO_INPUT = {"plan": ("lengths", "seed"), "kv": ("prompt_tokens", "image", "video", "audio")}
_PAGES: dict[str, Path] = {"plan": "capacity", "kv": "plan"}


def page_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """A `page` object of the shell's answer, as the page exports it. Raises Wrong."""
    asked = data["asked"]
    if not isinstance(asked, dict) or str(asked.get("command")) not in _PAGES or not isinstance(asked.get("model"), str):
        raise Wrong("question")
    command = asked["command"]
    try:
        arguments = _arguments(command, asked)
        query = _plan(arguments) if command == "plan" else _kv(arguments, data)
    except PlannerError as problem:
        raise Wrong("shell", detail=problem.message) from None
    name = model_own.CONFIG if "config" in data else arguments.model
    model = data["model"] if isinstance(data.get("model"), dict) else {}
    if "config" not in data and str(model.get("source", "")).startswith(("path:", "dict:")):
        raise Wrong("file", model=name)
    query["model"] = name
    if arguments.revision:
        query["revision"] = arguments.revision
    page: dict[str, Any] = {"path": _PAGES[command], "query": {word: _text(value) for word, value in query.items()}}
    if arguments.assume_plain_attention:
        page["assumed"] = [f"assume:{name}:{model.get('model_type')}"]
    return page


def _arguments(command: str, asked: Mapping[str, Any]) -> argparse.Namespace:
    """What the shell would read: with every flag at its default that was not said. Errors: InputError. Raises Wrong."""
    known = {*api.flags(command), "lengths", "command"}
    words = []
    for name, value in asked.items():
        if name not in known:
            raise Wrong("unknown", name=str(name)[:40])
        if name in _NO_INPUT[command]:
            raise Wrong("no_input", name="--" + name.replace("_", "-"))
        if name in ("command", "model") or value is False:
            continue
        flag = "--" + name.replace("_", "-")
        several = value if isinstance(value, list) else [value]
        words += [flag] if value is True else [f"{flag}={one}" for one in several]
    return cli.arguments_of([command, *words, "--", str(asked["model"])])


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plan(arguments: argparse.Namespace) -> dict[str, Any]:
    settings = cli_plan.settings_asked(arguments)
    option = "ollama" if getattr(settings, "front_end", None) == "ollama" else arguments.engine
    query: dict[str, Any] = {
        "node": inputs.gpu_name(arguments.gpu), "gpus": arguments.gpus, "server": option, "load": arguments.requests or 1,
        "shared": arguments.shared_prefix, "images": arguments.image_tokens, "draft": arguments.speculative_tokens,
        "beams": arguments.beams, "encoder": arguments.encoder_tokens, **_lengths(arguments), **_inputs(option, settings),
    }  # fmt: skip
    for kind in ("image", "video", "audio"):
        if getattr(arguments, kind):
            query[kind] = ", ".join(getattr(arguments, kind))
    if arguments.occupancy:
        query["occupancy"] = arguments.occupancy
    if arguments.loras:
        query |= {"loras": arguments.loras, "lora_rank": arguments.lora_rank, "lora_modules": arguments.lora_modules or ""}
    if arguments.price is not None:
        query["price"] = arguments.price
    given = cli_plan.given_asked(arguments.given or [])
    if arguments.used:
        given["other processes"] = _size("used", arguments.used)
    if arguments.weights:
        storage = arguments.weights.upper().replace("-", "_")
        if storage not in GGUF_BITS:
            given["weights"] = _size("weights", arguments.weights)
        elif option not in ("llama.cpp", "ollama"):
            raise Wrong("no_input", name=f"--weights {storage}")
        else:
            query["gguf"] = storage
    for term, size_bytes in given.items():
        if term not in capacity_given.TERMS:
            raise Wrong("no_input", name=f"--given {term[:40]}")
        query[capacity_given.key(term)] = min(size_bytes, 2**63) / GIB
    return query


def _lengths(arguments: argparse.Namespace) -> dict[str, Any]:
    """How long requests are: as said, or as long as the engine allows."""
    prompt, output = arguments.prompt, arguments.output or "0"
    if not prompt and arguments.engine == "transformers" and arguments.max_model_len is not None:
        prompt = str(arguments.max_model_len)
    if not prompt:
        return {"fill": True}
    counts = [text.replace("_", "").strip() for text in (prompt, output)]
    if all(text.isascii() and text.isdigit() for text in counts):
        return {"fill": False, "vary": "fixed", "prompt": counts[0], "output": counts[1]}
    return {"fill": False, "vary": "percentiles", "prompts": prompt, "outputs": output}


def _size(name: str, text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as problem:
        raise Wrong("shell", detail=f"--{name}: {problem}") from None


def _kv(arguments: argparse.Namespace, data: Mapping[str, Any]) -> dict[str, Any]:
    option = arguments.engine or ("transformers" if arguments.cache_implementation else ARCHITECTURE)
    tokens = arguments.tokens if arguments.tokens is not None else data.get("tokens", 1)
    query: dict[str, Any] = {"tokens": tokens, "requests": arguments.requests, "encoder": arguments.encoder_tokens}
    if arguments.gpu:
        query["gpu"] = inputs.gpu_name(arguments.gpu)
    if option == ARCHITECTURE:
        word = arguments.kv_cache_dtype
        return {**query, "engine": option, "kv": word if word == "auto" else storage_format(word).name}
    settings = settings_of(option, arguments)
    if getattr(settings, "front_end", None) == "ollama":
        option = "ollama"
    return {**query, "engine": option, **_inputs(option, settings)}


def _inputs(option: str, settings: EngineSettings) -> dict[str, Any]:
    """The settings that were said, by the names of their inputs. Raises Wrong for one that no input says."""
    known, found = fields(option), dict[str, Any]()
    for name, value in settings.model_dump(exclude_unset=True).items():
        field = known.get(name)
        if value is None or (option == "ollama" and name == "front_end"):
            continue
        if (option, name) == ("vllm", "data_parallel_size"):
            found[capacity_inputs.REPLICAS] = value
        elif name == "version":
            found[key(option, name)] = value
        elif field is None:
            raise Wrong("no_input", name=name)
        else:
            found[key(option, name)] = ("on" if value else "off") if field.kind == "three_way" else value
    return found
