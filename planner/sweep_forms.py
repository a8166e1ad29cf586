"""An engine's cache bytes as a closed form over tokens and requests, evaluated on whole arrays at once.

bytes(t, r) = max over pipeline stages of sum(coefficient x quantity) + sum(coefficient x quantity)

A quantity is how much of something t tokens and r requests need (rows, blocks, slots, cells); its coefficient is what one of
it costs, taken once from the engine's own functions. All of it is whole numbers: equal to the scalar path, not near it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from planner.errors import InputError

Integers = npt.NDArray[Any]
#: Array of tokens, array of requests -> array of the quantity. Works on int64, and on Python's own integers as objects.
Quantity = Callable[[Integers, Integers], Integers]
#: Marks points that the engine refuses.
REFUSED = -1
_LARGEST = 2**62


class Form(Protocol):
    """Bytes of many points. exact: by a closed form; `why` says how it was come by."""

    @property
    def exact(self) -> bool: ...
    @property
    def why(self) -> str: ...
    def bytes(self, tokens: Integers, requests: Integers) -> Integers: ...


@dataclass(frozen=True)
class ClosedForm:
    """quantities; by stage the coefficient of each; `shared`: coefficients of what every stage counts beside them.

    most_requests: more of them are refused by the engine; None: no limit.
    """

    quantities: tuple[Quantity, ...]
    stages: tuple[tuple[int, ...], ...]
    shared: tuple[int, ...]
    why: str
    most_requests: int | None = None
    exact: bool = True

    def bytes(self, tokens: Integers, requests: Integers) -> Integers:
        """Bytes of each point; REFUSED where the engine refuses it. InputError where a figure would not fit 64 bits."""
        if not tokens.size:
            return np.zeros(0, np.int64)
        # The same form at the largest of both, in Python's unlimited integers: nothing shrinks as either grows.
        corner = self._evaluate(np.array([int(tokens.max())], object), np.array([int(requests.max())], object))
        if int(corner[0]) > _LARGEST:
            raise InputError("these points take more bytes than 64 bits hold; ask for fewer tokens or requests", field="tokens")
        found = self._evaluate(tokens, requests)
        if self.most_requests is not None:
            found = np.where(requests > self.most_requests, REFUSED, found)
        return found

    def _evaluate(self, tokens: Integers, requests: Integers) -> Integers:
        sizes = [quantity(tokens, requests) for quantity in self.quantities]
        best = _combined(self.stages[0], sizes, tokens)
        for stage in self.stages[1:]:
            best = np.maximum(best, _combined(stage, sizes, tokens))
        return _combined(self.shared, sizes, tokens, best) if any(self.shared) else best


def _combined(coefficients: Sequence[int], sizes: Sequence[Integers], like: Integers, start: Integers | None = None) -> Integers:
    total = start
    for coefficient, size in zip(coefficients, sizes, strict=True):
        if coefficient:
            part = size if coefficient == 1 else size * coefficient
            total = part if total is None else total + part
    return np.zeros_like(like) if total is None else total


@dataclass(frozen=True)
class Tabulated:
    """The scalar path, once for each distinct point: where no closed form is known to be exact."""

    scalar: Callable[[int, int], int]
    why: str
    exact: bool = False

    def bytes(self, tokens: Integers, requests: Integers) -> Integers:
        points, place = np.unique(np.stack([tokens, requests]), axis=1, return_inverse=True)
        found = np.array([self.scalar(int(t), int(r)) for t, r in points.T], np.int64)
        return found[np.asarray(place).ravel()] if len(found) else found


def ceil_div(value: Integers, divisor: int) -> Integers:
    """Each quotient rounded up."""
    return value if divisor == 1 else -(-value // divisor)


def round_up(value: Integers, multiple: int) -> Integers:
    return value if multiple == 1 else ceil_div(value, multiple) * multiple


def times(value: Integers, ratio: float) -> Integers:
    """int(value x ratio) of each, with the same floating-point product as the scalar path."""
    if value.dtype == object:
        return np.array([int(each * ratio) for each in value], object)
    return (value * ratio).astype(np.int64)


class Terms:
    """Collects quantities by a key, and adds up their coefficients by stage."""

    def __init__(self, stages: int = 1) -> None:
        self._keys: dict[Any, int] = {}
        self._quantities: list[Quantity] = []
        self._stages: list[dict[int, int]] = [{} for _ in range(stages)]
        self._shared: dict[int, int] = {}

    def add(self, key: Any, quantity: Quantity, coefficient: int, stage: int | None = 0) -> None:
        """`coefficient` of the quantity called `key` on a stage, on all of them where it is None."""
        place = self._keys.setdefault(key, len(self._quantities))
        if place == len(self._quantities):
            self._quantities.append(quantity)
        into = self._shared if stage is None else self._stages[stage]
        into[place] = into.get(place, 0) + coefficient

    def form(self, why: str, most_requests: int | None = None) -> ClosedForm:
        count = range(len(self._quantities))

        def row(given: dict[int, int]) -> tuple[int, ...]:
            return tuple(given.get(i, 0) for i in count)

        stages = dict.fromkeys(row(stage) for stage in self._stages)
        return ClosedForm(tuple(self._quantities), tuple(stages), row(self._shared), why, most_requests)
