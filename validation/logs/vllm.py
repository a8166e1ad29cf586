"""vLLM's start-up logs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from planner.hardware import Gpu
from planner.model import Model
from validation.logs.lines import Line
from validation.logs.log import Check, Log, check_of

NAME: Final = "vllm"
signs: Final = (re.compile(r"KV cache size: [\d,]+ tokens|# (?:GPU|cuda) blocks: \d"),)


def read(lines: Sequence[Line]) -> Log:
    return Log(NAME)


def explain(log: Log, model: Model | None, gpu: Gpu | None) -> Check:
    return check_of(())
