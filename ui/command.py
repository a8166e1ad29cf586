"""The shell command that gives the page's figures."""

from __future__ import annotations

import json
import shlex
from typing import Any

import streamlit as st

from planner.cli_settings import NAMES
from planner.model import Model
from ui.engine_input import Choice
from ui.i18n import t
from ui.inputs import Workload

_FLAGS = {"tensor_parallel_size": "-tp", "pipeline_parallel_size": "-pp"}


def show(model: Model, argument: str, workload: Workload, encoder_tokens: int, choice: Choice) -> None:
    """The command, with what else has to be done for it."""
    st.header(t("command.title"), anchor=False)
    st.code(line(model, argument, workload, encoder_tokens, choice), language=None, wrap_lines=True)
    if argument == "config.json":
        st.caption(t("command.note"))


def line(model: Model, argument: str, workload: Workload, encoder_tokens: int, choice: Choice) -> str:
    """`python -m planner kv ...` with everything that differs from a default: it gives the page's figure."""
    words = [f"python -m planner kv {argument}"]
    if choice.settings is not None:
        words.append(f"--engine {choice.engine.name}")
    words += [f"--tokens {workload.tokens}", f"--requests {workload.requests}"]
    if workload.kv_cache_dtype:
        words.append(f"--kv-cache-dtype {workload.kv_cache_dtype}")
    if choice.settings is not None:
        words += settings_words(choice.engine.name, choice.settings.model_dump(exclude_defaults=True))
    if encoder_tokens:
        words.append(f"--encoder-tokens {encoder_tokens}")
    if model.assumption:
        words.append("--assume-plain-attention")
    if workload.gpu is not None:
        words.append(f"--gpu {shlex.quote(workload.gpu_argument)}")
    return " ".join(words)


def settings_words(engine: str, given: dict[str, Any]) -> list[str]:
    """Settings as flags: the common ones by their own, any other by name."""
    words = []
    version = given.pop("version", None)
    if version is not None:
        words.append(f"--engine-version {shlex.quote(str(version))}")
    if engine == "llama.cpp" and given.get("cache_type_k") == given.get("cache_type_v") is not None:
        words.append(f"--kv-cache-dtype {given.pop('cache_type_k')}")
        del given["cache_type_v"]
    flags = {field: flag for flag, field in NAMES[engine].items() if field != "cache_type_k"}
    for name, value in given.items():
        flag = flags.get(name)
        if flag is None or (isinstance(value, int) and value < 0):
            words.append("--set " + shlex.quote(f"{name}={_value(value)}"))
        else:
            words.append(f"{_FLAGS.get(flag, '--' + flag.replace('_', '-'))} {value}")
    return words


def _value(value: Any) -> str:
    """A value as the command reads it: JSON, and a text as it is unless that would be read as something else."""
    if not isinstance(value, str):
        return json.dumps(value)
    try:
        json.loads(value)
    except ValueError:
        return value
    return json.dumps(value)
