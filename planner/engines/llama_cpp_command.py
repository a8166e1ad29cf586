"""The command line (or Python, or environment) that starts llama.cpp with given settings."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from planner.engines.llama_cpp_settings import Settings
from planner.hardware import Gpu
from planner.model import Model

#: Flags of llama-server and llama-cli, by setting.
_FLAGS = {
    "n_ctx": "-c", "n_seq_max": "-np", "n_batch": "-b", "n_ubatch": "-ub", "cache_type_k": "-ctk", "cache_type_v": "-ctv",
}  # fmt: skip
#: The usual number for "every layer", and one for models that have more.
_ALL_LAYERS, _MORE_LAYERS = 99, 999


def command(model: Model, settings: Settings, cards: Sequence[Gpu] = ()) -> str:
    """llama-server, llama-cli, Ollama's environment or llama-cpp-python, by the settings' front end.

    All layers are put on GPUs, whole layers on each, by the shares of memory that the plan splits them by. Ollama places them
    itself. cards: the GPUs in the order that the driver lists them; several are named by their shares.

    Source: llama.cpp, tools/server/README.md (-ngl, -sm, -ts); llama-cpp-python, n_gpu_layers and tensor_split of Llama.
    """
    if settings.front_end == "ollama":
        return _ollama(model, settings)
    if settings.front_end == "library":
        return _python(model, settings, cards)
    words = ["llama-server" if settings.front_end == "server" else "llama-cli", *_model(model)]
    for field, value in settings.model_dump(exclude_defaults=True, include=set(_FLAGS)).items():
        if value is not None:
            words += [_FLAGS[field], str(value)]
    if settings.flash_attn is not None:
        words += ["-fa", _flash(settings)]
    words += ["--swa-full"] if settings.swa_full else []
    words += ["--kv-unified"] if settings.kv_unified else []
    if settings.cache_ram is not None and settings.front_end == "server":
        words += ["--cache-ram", str(settings.cache_ram)]
    # The output counts as one more layer.
    layers = _ALL_LAYERS if len(model.layers_for("llama.cpp")) < _ALL_LAYERS else _MORE_LAYERS
    words += ["-ngl", str(layers), "--split-mode", "layer"]
    words += ["--tensor-split", ",".join(map(str, _shares(cards)))] if len(cards) > 1 else []
    return shlex.join(words)


def _shares(cards: Sequence[Gpu]) -> list[int]:
    """Each card's memory in the smallest whole numbers of the same proportions: 1, 1 for two of a kind."""
    unit = math.gcd(*(card.usable_bytes for card in cards))
    return [card.usable_bytes // unit for card in cards]


def _model(model: Model) -> list[str]:
    """-hf for a GGUF file on the Hub, -m for a local one; a model that is no GGUF has to be converted first."""
    if model.source.kind == "hub" and ":" in model.source.name:
        return ["-hf", model.source.name]
    return ["-m", model.source.name if model.source.name.endswith(".gguf") else f"{model.name.rsplit('/', 1)[-1]}.gguf"]


def _flash(settings: Settings) -> str:
    if isinstance(settings.flash_attn, bool):
        return "on" if settings.flash_attn else "off"
    return str(settings.flash_attn)


def _ollama(model: Model, settings: Settings) -> str:
    slots = settings.n_seq_max or 1
    words = []
    if settings.n_ctx:
        words.append(f"OLLAMA_CONTEXT_LENGTH={settings.n_ctx // slots}")
    if settings.n_seq_max:
        words.append(f"OLLAMA_NUM_PARALLEL={slots}")
    if settings.cache_type_k != "f16":
        words.append(f"OLLAMA_KV_CACHE_TYPE={settings.cache_type_k}")
    if settings.flash_attn is not None and _flash(settings) != "auto":
        words.append(f"OLLAMA_FLASH_ATTENTION={1 if _flash(settings) == 'on' else 0}")
    name = f"hf.co/{model.source.name}" if model.source.kind == "hub" else model.name
    return " ".join([*words, "ollama serve"]) + f"\nollama run {shlex.quote(name)}"


def _python(model: Model, settings: Settings, cards: Sequence[Gpu]) -> str:
    types = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20, "bf16": 30}  # ggml_type
    options = ["n_gpu_layers=-1"] + ([f"tensor_split={_shares(cards)}"] if len(cards) > 1 else [])
    options += [f"n_ctx={settings.n_ctx}"] if settings.n_ctx is not None else []
    given = settings.model_dump(include={"n_batch", "n_ubatch", "swa_full"}, exclude_none=True)
    options += [f"{name}={value}" for name, value in given.items()]
    options += [f"flash_attn={_flash(settings) == 'on'}"] if settings.flash_attn is not None else []
    for letter, kind in (("k", settings.cache_type_k), ("v", settings.cache_type_v)):
        options += [f"type_{letter}={types[kind]}"] if kind != "f16" else []
    path = _model(model)[-1]
    return f"from llama_cpp import Llama\nllm = Llama({', '.join([f'model_path={path!r}', *options])})"
