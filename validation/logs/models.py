"""Which model a log is about: the caller's word first, then the catalogue by the name that the log has. Nothing is downloaded
for a name that only a log says.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import model_configs
from model_configs import catalogue
from planner.model import Model
from validation.logs.log import Log

#: Endings of names that say how the weights are stored, which no cache depends on but for a KV format in the checkpoint.
_STORED: Final = re.compile(
    r"[-_.](?:awq|gptq|int[48]|w\d{1,2}a\d{1,2}|bnb|4bit|8bit|gguf|bf16|fp16|fp8|mxfp4|nvfp4|autoround|quantized|dynamic|static|ud"
    r"|i?q\d\w{0,8}|\d{5}-of-\d{5})(?=[-_.]|$)",
    re.IGNORECASE,
)
#: Endings that say what a model was tuned for, which changes no layer.
_TUNED: Final = re.compile(r"-(?:instruct|chat|it|base|thinking|think|pt|hf)(?:-\d{4})?$|-(?:2507|2512)$", re.IGNORECASE)
#: Models whose layers are those of one in the catalogue. Source: public start-up logs, whose figures follow from the same layers.
_ALIKE: Final[Mapping[str, str]] = {
    "qwen3.6-27b": "Qwen/Qwen3.5-27B", "qwen3.8-27b": "Qwen/Qwen3.5-27B", "qwen3.6-35b-a3b": "Qwen/Qwen3.5-35B-A3B",
    "qwen3-4b": "Qwen/Qwen3-4B-Instruct-2507", "qwen3-coder-30b-a3b": "Qwen/Qwen3-30B-A3B",
    "minimax-m2.7": "MiniMaxAI/MiniMax-M2.5",
}  # fmt: skip


def find_model(log: Log, model: Model | str | None = None) -> Model | None:
    """The model itself, or None where only the log names one and the catalogue does not have it.

    Errors: as model_configs.read, for a name that the caller gives.
    """
    if isinstance(model, Model):
        return model
    if model is not None:
        return model_configs.read(model)
    for name in candidates(log.model or ""):
        if entry := catalogue.find(name):
            return model_configs.read(f"catalogue:{entry.id}")
    return None


def candidates(name: str) -> list[str]:
    """What a name in a log may be called in the catalogue: itself, its last part, that without the weights' format and what it
    was tuned for, and a model of the same layers.
    """
    name = name.rstrip("/")
    last = name.replace("\\", "/").rpartition("/")[2]
    if match := re.search(r"models--([\w.-]+?)--([\w.-]+?)(?:/|$)", name):  # the Hub's cache folder
        name = last = f"{match[1]}/{match[2]}"
    plain = _STORED.sub("", last)
    tuned = _TUNED.sub("", plain)
    more = (plain.replace(" ", "-"), tuned, f"{tuned}-Instruct", _ALIKE.get(tuned.lower(), ""))
    return [each for each in dict.fromkeys((name, last, plain, *more)) if each]


def described(layers: int | None = None) -> Iterator[Model]:
    """Models of the catalogue (with so many layers), for logs that name none: which of them has the printed figures?"""
    for entry in catalogue.entries():
        if layers is None or layers in _depths(entry.config):
            yield _read(entry.id)


@functools.cache
def _read(name: str) -> Model:
    return model_configs.read(f"catalogue:{name}")


def _depths(config: Mapping[str, Any]) -> set[Any]:
    """Numbers of layers that a config states, of whichever part."""
    parts = [config, *(part for part in config.values() if isinstance(part, dict))]
    words = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers")
    return {part[word] for part in parts for word in words if isinstance(part.get(word), int)}
