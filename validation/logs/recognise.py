"""Which engine wrote a log: the one whose own signs stand in most lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import ModuleType
from typing import Final

from planner.errors import InputError
from validation.logs import llama_cpp, ollama, sglang, tensorrt_llm, tgi, vllm
from validation.logs.lines import Line

#: The engines' modules; see the package's docstring for what each answers.
MODULES: Final[tuple[ModuleType, ...]] = (vllm, sglang, tensorrt_llm, tgi, llama_cpp, ollama)


def module_of(engine: str) -> ModuleType:
    """The module that reads the logs of `engine`, by its NAME."""
    return next(module for module in MODULES if engine == module.NAME)


def recognise(lines: Sequence[Line]) -> ModuleType:
    """The engine's module.

    Errors: InputError where no line is a known engine's.
    """
    counts = {module.NAME: _signs(module, lines) for module in MODULES}
    best = max(MODULES, key=lambda module: counts[module.NAME])
    if not counts[best.NAME]:
        names = ", ".join(str(module.NAME) for module in MODULES)
        raise InputError(
            f"none of the {len(lines):,} lines is one that {names} prints while starting; paste the engine's own output, from its"
            " first line to where it says that it is ready", field="log",
        )  # fmt: skip
    return next((module for module in MODULES if counts[module.NAME] and getattr(module, "RUNS", "") == best.NAME), best)


def _signs(module: ModuleType, lines: Sequence[Line]) -> int:
    signs: tuple[re.Pattern[str], ...] = module.signs
    return sum(any(sign.search(line.text) for sign in signs) for line in lines)
