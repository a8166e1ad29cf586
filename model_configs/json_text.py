"""JSON from strangers, read strictly: one reader for files, pasted texts and the Hub's answers."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from planner.errors import BadContent


def strict_json(raw: bytes | str, what: str, infinity: bool = False) -> Any:
    """The JSON in `raw`: UTF-8, with or without a byte order mark; of a repeated key the last value counts.

    infinity: whether Infinity and -Infinity are taken, which JSON does not have and config.json files do (`time_step_limit`).

    Raises BadContent for anything else, and for NaN, numbers beyond a double and nesting past Python's stack: json.loads lets
    the first two through and answers the last with RecursionError.
    """
    if not raw.strip():
        raise BadContent(f"{what} is empty", what=what)
    try:
        text = raw.decode("utf-8-sig") if isinstance(raw, bytes) else raw.removeprefix("\ufeff")
        return json.loads(text, parse_constant=_infinite if infinity else _no_constant, parse_float=_finite)
    except RecursionError:
        raise BadContent(f"{what} is nested too deeply to be what its name says", what=what) from None
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError are both ValueErrors
        reason = f"{error.msg} at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise BadContent(f"{what} is not JSON: {reason}", what=what) from None


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _infinite(word: str) -> float:
    if word == "NaN":
        _no_constant(word)
    return math.inf if word == "Infinity" else -math.inf


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is beyond any number a config can hold")
    return value
