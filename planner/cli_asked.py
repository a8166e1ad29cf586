"""The question of an answer as data, so that who has the answer can ask again: the shell's flags that differ from a default.

    {"command": "plan", "model": "meta-llama/Llama-3.1-8B", "gpu": "h100-sxm", "engine": "vllm", "requests": 16}

Names are those of the flags with underscores, as the JSON routes take them.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from typing import Any

from planner.model import Model
from planner.version import VERSION

#: What is no part of a question: how the answer is printed, and secrets.
NO_QUESTION = {"help", "json", "markdown", "why", "token"}
#: Said also where they are the default, because a default may change.
_ALWAYS = {"gpu", "engine"}
#: A GGUF file's header has this word; it is no config.json.
_GGUF = "general.architecture"


def asked(command: str, parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> dict[str, Any]:
    """The flags of `arguments` that were said, in the parser's order. A catalogue id is its own name, without the prefix."""
    found: dict[str, Any] = {"command": command}
    for action in parser._actions:
        value = getattr(arguments, action.dest, None)
        if action.dest in NO_QUESTION or value is None or (value == action.default and action.dest not in _ALWAYS):
            continue
        found[action.dest] = value.removeprefix("catalogue:") if action.dest == "model" else value
    return found


def with_question(
    data: dict[str, Any], command: str, parser: argparse.ArgumentParser, arguments: argparse.Namespace
) -> dict[str, Any]:
    """`data` with the question in it and the planner's version."""
    return {**data, "planner_version": VERSION, "asked": asked(command, parser, arguments)}


def with_config(data: dict[str, Any], model: Model) -> dict[str, Any]:
    """`data` with the config of a model that no catalogue and no Hub has."""
    config = own_config(model)
    return data if config is None else {**data, "config": config}


def own_config(model: Model) -> dict[str, Any] | None:
    """The config of a model that was read from a file or a text; None for any other, and for a GGUF file's header."""
    if model.source.kind not in ("path", "dict") or _GGUF in model.config:
        return None
    return dict(model.config)


def shell_line(question: Mapping[str, Any]) -> str:
    """The line of a shell that asks the question, each word quoted where the shell needs it."""
    words = ["python", "-m", "planner", str(question["command"]), str(question["model"])]
    for name, value in question.items():
        flag = "--" + name.replace("_", "-")
        if name in ("command", "model") or value is False:
            continue
        if value is True:
            words.append(flag)
        else:
            words += [word for one in (value if isinstance(value, list) else [value]) for word in (flag, str(one))]
    return shlex.join(words)
