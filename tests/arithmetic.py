"""A calculator for the planner's formulas that knows nothing of the planner: it reads the line and works it out.

Whole numbers are exact fractions, so that a rounding that the line does not say shows; a decimal point makes a float.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

_SIGNS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.USub: operator.neg,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "max": max, "min": min, "ceil": math.ceil, "floor": math.floor, "sqrt": math.sqrt,
}  # fmt: skip


def calculated(line: str) -> Any:
    """The value of a line of numbers, like "ceil(85,017,493,504 x 0.92) - 16,094,076,928"."""
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", line).replace(" x ", " * ").replace(" × ", " * ")
    return _value(ast.parse(plain, mode="eval").body)


def _value(node: ast.AST) -> Any:
    if isinstance(node, ast.Constant):
        return Fraction(node.value) if isinstance(node.value, int) else float(node.value)
    if isinstance(node, ast.BinOp):
        return _SIGNS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp):
        return _SIGNS[type(node.op)](_value(node.operand))
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return _FUNCTIONS[node.func.id](*map(_value, node.args))
