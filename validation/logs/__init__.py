"""Start-up logs of inference engines: read what they print about memory, and hold it to the planner.

    log = validation.logs.read(text)                # .engine .version .model .settings .figures .printed .warnings
    check = validation.logs.explain(log)            # .lines .missing .agrees .advice .rules

How an engine plugs in. Its module stands in `recognise.MODULES` and answers

    NAME: str                                       the name in planner.ENGINES
    signs: tuple[re.Pattern[str], ...]              searched in the text of each line; what only this engine prints
    read(lines: Sequence[Line]) -> Log              what the log tells
    explain(log: Log, model: Model | None, gpu: Gpu | None) -> Check

`lines.clean` gives it messages without wrappers (`wrappers`), with rank, process, pid, time and source where a header of the
engine has them (a row of `lines.HEADERS`), and the pairs of JSON and logfmt lines in `Line.fields`. Messages are rows of a
table of `shapes.Shape`; `shapes.scan` finds them, wrapped and interleaved ones too, and says which are cut. `explain` puts the
printed figures through the rules of planner.engines, never the other way round, and `log.check_of` makes the verdict. The model
is the caller's, else `find_model`'s; without one, and without its dimensions in the log, `--model` is among `Check.missing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.errors import InputError, shown
from planner.hardware import Gpu
from planner.hardware import gpu as find_gpu
from planner.model import Model
from validation.logs.lines import clean
from validation.logs.log import Check, CheckLine, Figure, Log
from validation.logs.models import find_model
from validation.logs.recognise import module_of, recognise

__all__ = ["Check", "CheckLine", "Figure", "Log", "explain", "read"]


def read(text: str) -> Log:
    """What a pasted start-up log tells.

    Errors: InputError for a text that is empty, too long, no text, or a log of no known engine.
    """
    if not isinstance(text, str):
        raise InputError(f"a log is text, not {shown(text)}", field="log")
    lines = clean(text)
    log: Log = recognise(lines).read(lines)
    return log


def explain(
    log: Log,
    model: Model | str | None = None,
    gpu: Gpu | str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Check:
    """The log's figures beside ours.

    model: what is served, or a name of it for model_configs.read; by the log's own words where None. gpu: the accelerator or its
    name, for what depends on it. settings: what the log does not say, by the names of the engine's Settings.

    Errors: InputError and ConfigError for a model or GPU that cannot be read.
    """
    found = find_model(log, model)
    card = find_gpu(gpu) if isinstance(gpu, str) else gpu
    said = replace(log, settings={**log.settings, **settings}) if settings else log
    check: Check = module_of(log.engine).explain(said, found, card)
    return check
