"""How a figure comes about: lines of arithmetic in symbols and with their numbers filled in, which a calculator can check.

A rule is text like `ceil({device} x {gpu_memory_utilization}) - {weights}`. Its numbers are plain arithmetic: + - x / and
brackets, max, min, ceil, floor and sqrt, thousands parted by commas, arguments by a comma and a blank.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

Number = int | float | Fraction
#: Any word of a rule that stands for a number; functions and the sign of multiplication are none.
SYMBOL = re.compile(r"(?<![\w.])(?!(?:x|max|min|ceil|floor|sqrt)\b)[A-Za-z_]\w*")
_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Step:
    """One line: name = rule in symbols = rule with numbers = value. limit: what it must not exceed, where that is asked, and its
    name."""

    name: str
    rule: str
    value: Number
    given: Mapping[str, Number] = field(default_factory=dict, compare=False)
    limit: int | None = None
    limit_name: str = "budget"

    @property
    def symbols(self) -> str:
        return _FIELD.sub(r"\1", self.rule)

    @property
    def numbers(self) -> str:
        return _FIELD.sub(lambda found: written(self.given[found[1]]), self.rule)


Formula = tuple[Step, ...]


def step(name: str, rule: str, value: Number, /, **given: Number) -> Step:
    """A line. given: the number of each {symbol} in `rule`."""
    return Step(name, rule, value, given)


def known(name: str, symbol: str, value: Number) -> Formula:
    """A figure that is taken as it is."""
    return (Step(name, f"{{{symbol}}}", value, {symbol: value}),)


def within(name: str, rule: Formula, limit: int) -> Step:
    """The last line of a formula under another name, held against a limit."""
    return replace(rule[-1], name=name, limit=limit)


def renamed(rule: Formula, name: str) -> Formula:
    """The same with another name for its result."""
    return (*rule[:-1], replace(rule[-1], name=identifier(name))) if rule else ()


def identifier(name: str) -> str:
    """A term's name as a symbol: "cuda graphs" is cuda_graphs."""
    return re.sub(r"\W+", "_", name)


def sum_of(name: str, parts: Iterable[tuple[str, int]], value: int) -> Step:
    """A sum of named parts, each name once."""
    rule, given = list[str](), dict[str, Number]()
    for part, size in parts:
        key = identifier(part)
        while key in given:
            key += "_"
        rule.append(f"{{{key}}}")
        given[key] = size
    return Step(name, " + ".join(rule) or "0", value, given)


def written(value: Number) -> str:
    """A number as it stands in a formula: 1,234; 0.92; a fraction as (1 / 3); below 0 in brackets."""
    if isinstance(value, Fraction):
        if value.denominator != 1:
            return f"({value.numerator:,} / {value.denominator:,})"
        value = value.numerator
    text = f"{value:,}" if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e15) else repr(float(value))
    text = text.removesuffix(".0")
    return f"({text})" if value < 0 else text


def shown(value: int | float) -> str:
    """A result as it stands behind the last =."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.12g}"


def data(rule: Formula) -> list[dict[str, Any]]:
    """The formula in JSON's own types."""
    return [
        {
            "name": one.name, "symbols": one.symbols, "numbers": one.numbers, "value": _plain(one.value),
            **({} if one.limit is None else {"limit": one.limit, "limit_name": one.limit_name}),
        }
        for one in rule
    ]  # fmt: skip


def _plain(value: Number) -> int | float:
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else float(value)
    return value


def lines(rows: Iterable[Mapping[str, Any]], say: Callable[[str], str] = lambda word: word) -> list[str]:
    """A formula for reading, from its data: two lines a step. say: a symbol in the reader's language."""
    found = []
    for one in rows:
        name, symbols = (SYMBOL.sub(lambda word: say(word[0]), one[key]) for key in ("name", "symbols"))
        result = shown(one["value"])
        if "limit" in one:
            sign = "<=" if one["value"] <= one["limit"] else ">"
            symbols, result = f"{symbols} {sign} {say(one['limit_name'])}", f"{result} {sign} {one['limit']:,}"
        found.append(f"{name} = {symbols}" if symbols != one["numbers"] else name)
        found.append(f"  = {result}" if one["numbers"] == shown(one["value"]) else f"  = {one['numbers']} = {result}")
    return found


def cited(rule: object) -> str:
    """The source that the docstring of a rule names: its paragraph `Source: ...`; "" where it has none."""
    found = re.search(r"^Source: (.*?)(?:\n\n|\Z)", inspect.getdoc(rule) or "", re.DOTALL | re.MULTILINE)
    return " ".join(found[1].split()).rstrip(".") if found else ""
