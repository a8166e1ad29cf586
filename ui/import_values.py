"""What each input of the Plan and the Capacity page takes, by its name in a link: read from a link's text, or refused by name."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, Literal

from planner import hardware
from planner.capacity_deploy import MOST_GPUS
from planner.capacity_weights import GGUF_BITS
from planner.errors import PlannerError
from ui import (
    capacity_adapters,
    capacity_apart,
    capacity_engines,
    capacity_given,
    capacity_images,
    capacity_inputs,
    capacity_lengths,
    engine_input,
    inputs,
    model_input,
)
from ui.engine_fields import ARCHITECTURE, LABELS, OPTIONS, fields, key, versions

Path = Literal["plan", "capacity"]
#: Where each page is, for Streamlit.
PAGES: dict[str, str] = {"plan": "ui/plan.py", "capacity": "ui/capacity.py"}
_MOST_LETTERS, _MOST_SHOWN = 200, 12
_NAME = 40


class Wrong(Exception):
    """What is wrong with a file, as the name of a text `import.error.{name}` and what fills it in."""

    def __init__(self, name: str, /, **fields: object) -> None:
        super().__init__(name)
        self.name, self.fields = name, fields


@dataclass(frozen=True)
class Rule:
    """One input: its kind, its limits or its choices, and what it has where a link says nothing."""

    kind: Literal["count", "number", "switch", "choice", "text", "gpu", "gpus"]
    default: Any = None
    low: float = 0
    high: float = inputs.MAX_TOKENS
    choices: tuple[Any, ...] = ()

    def read(self, name: str, text: str) -> Any:
        """The value of a link's text. Raises Wrong."""
        if self.kind in ("count", "number"):
            return self._number(name, text)
        if self.kind == "switch":
            if text.lower() not in ("true", "false"):
                raise Wrong("choice", name=name, value=text[:_NAME], choices="true, false")
            return text.lower() == "true"
        if self.kind == "choice":
            found = next((choice for choice in self.choices if str(choice) == text), None)
            if found is None:
                more = " …" if len(self.choices) > _MOST_SHOWN else ""
                listed = ", ".join(map(str, self.choices[:_MOST_SHOWN])) + more
                raise Wrong("choice", name=name, value=text[:_NAME], choices=listed)
            return found
        if len(text) > self.high or not text.isprintable():
            raise Wrong("text", name=name, most=f"{self.high:,}")
        if self.kind in ("gpu", "gpus"):
            try:
                inputs.find_gpu(text) if self.kind == "gpu" else capacity_inputs.named(text)
            except PlannerError as problem:
                raise Wrong("gpus", name=name, detail=problem.message) from None
        return text

    def _number(self, name: str, text: str) -> int | float:
        limits = {"low": f"{self.low:,.10g}", "high": f"{self.high:,.10g}"}
        try:
            value: int | float = int(text) if self.kind == "count" else float(text)
        except ValueError:
            raise Wrong(self.kind, name=name, value=text[:_NAME], **limits) from None
        if not math.isfinite(value) or not self.low <= value <= self.high:
            raise Wrong("range", name=name, value=text[:_NAME], **limits)
        return value


@functools.cache
def names(path: Path) -> tuple[str, ...]:
    """Every name that a link of this page may have, `hub` aside, which is an older word for a model of the Hub."""
    if path == "plan":
        found: tuple[str, ...] = (*inputs.IN_LINK, *engine_input.link_keys())
    else:
        engines = [name for name in engine_input.link_keys() if name != "engine"]
        found = (*capacity_inputs.IN_LINK, *capacity_inputs.SHARED, *capacity_engines.IN_LINK, *engines)
    return tuple(name for name in dict.fromkeys(found) if name != "hub")


def option_of(name: str) -> str | None:
    """The engine whose setting a name is; None for an input that every engine has."""
    if name == key("transformers", "cache_implementation"):
        return "transformers"
    return next((option for option in LABELS if name.startswith(f"{option}.")), None)


@functools.cache
def rules(path: Path) -> dict[str, Rule]:
    """The inputs of a page. A name without one is left to the link, which drops what its input does not take."""
    text = Rule("text", "", high=_MOST_LETTERS)
    common = {
        "model": Rule("text", model_input.DEFAULT_MODEL, high=_MOST_LETTERS), "revision": text,
        "encoder": Rule("count", inputs.DEFAULT_ENCODER, 0, inputs.MAX_ENCODER),
    }  # fmt: skip
    return {**common, **(_plan() if path == "plan" else _capacity(text)), **_settings(path)}


def _plan() -> dict[str, Rule]:
    return {
        "tokens": Rule("count", inputs.DEFAULT_TOKENS, 1), "requests": Rule("count", 1, 1, inputs.MAX_REQUESTS),
        "kv": Rule("choice", "auto", choices=inputs.KV_DTYPES),
        "gpu": Rule("gpu", hardware.gpu(inputs.DEFAULT_GPU).name, high=100),
        "engine": Rule("choice", ARCHITECTURE, choices=OPTIONS), "prefix": Rule("count", 0),
    }  # fmt: skip


def _capacity(text: Rule) -> dict[str, Rule]:
    lengths, apart = capacity_lengths, capacity_apart
    pools = {
        f"{role}_{word}": Rule("gpus", None, high=100) if word == "node" else Rule("count", None, 1, MOST_GPUS)
        for role in apart.ROLES for word in ("node", "gpus", "tp")
    }  # fmt: skip
    return {
        "model": Rule("text", capacity_inputs.DEFAULT_MODEL, high=_MOST_LETTERS),
        "server": Rule("choice", "vllm", choices=capacity_inputs.ENGINES),
        "node": Rule("gpus", hardware.gpu(capacity_inputs.DEFAULT_GPU).name, high=100),
        "gpus": Rule("count", 1, 1, MOST_GPUS), "load": Rule("count", lengths.DEFAULT_REQUESTS, 1, inputs.MAX_REQUESTS),
        "prompt": Rule("count", lengths.DEFAULT_PROMPT), "output": Rule("count", lengths.DEFAULT_OUTPUT),
        "fill": Rule("switch", False),
        "vary": Rule("choice", lengths.FIXED, choices=lengths.MODES),
        **{f"{name}_p95": Rule("count", p95, 1) for name, p95 in lengths._P95.items()},
        **{f"{name}_max": Rule("count", None, 1) for name in lengths._P95},
        **{name: Rule("text", default, high=_MOST_LETTERS) for name, default in lengths._TEXTS.items()},
        "shared": Rule("count", 0), "images": Rule("count", 0), "draft": Rule("count", 0, high=1_024),
        "beams": Rule("count", 1, 1, lengths._MAX_BEAMS), "occupancy": Rule("choice", choices=lengths.OCCUPANCIES),
        **{name: Rule("number", None, 0, capacity_given._MAX_GIB) for name in capacity_given.IN_LINK},
        "price": Rule("number", None, 0, capacity_inputs.MAX_PRICE),
        "gguf": Rule("choice", capacity_inputs.AS_IS, choices=(capacity_inputs.AS_IS, *GGUF_BITS)),
        capacity_inputs.REPLICAS: Rule("count", 1, 1, MOST_GPUS), **dict.fromkeys(capacity_images.KINDS, text),
        "loras": Rule("count", 0, high=capacity_adapters._MOST),
        "lora_rank": Rule("count", capacity_adapters.DEFAULT_RANK, 1, capacity_adapters._MOST_RANK), "lora_modules": text,
        "apart": Rule("switch", False), **pools, "transfer": Rule("text", apart.DEFAULT_LINK, high=40),
        "per_engine": Rule("switch", False),
    }  # fmt: skip


def _settings(path: Path) -> dict[str, Rule]:
    """Every engine's settings, as `engine_input` asks for them."""
    found = {}
    for option in LABELS:
        found[key(option, "version")] = Rule("text", versions(option)[0], high=_NAME)
        for field in fields(option).values():
            default: Any = field.default
            if field.kind == "switch":
                rule = Rule("switch", default)
            elif field.kind == "three_way":
                rule = Rule("choice", None, choices=("on", "off"))
            elif field.kind == "choice":
                rule = Rule("choice", default if default in field.choices else None, choices=field.choices)
            elif field.kind == "number":
                least, most = (-math.inf if field.low is None else field.low), (math.inf if field.high is None else field.high)
                whole = field.number is int
                default = default if default is None else field.number(default)
                rule = Rule("count" if whole else "number", default, max(least, -(2**53) + 1), min(most, 2**53 - 1))
            else:
                rule = Rule("text", default, high=60)
            found[key(option, field.name)] = rule
    if path == "capacity":  # where it is started as a server, see capacity_inputs.prepare
        front = key("llama.cpp", "front_end")
        found[front] = Rule("choice", "server", choices=found[front].choices)
    return found
