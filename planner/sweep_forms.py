"""An engine's cache bytes as a closed form over tokens and requests, evaluated on whole arrays at once.

bytes(t, r) = max over pipeline stages of (r x sum(coefficient x unit(t)) + sum(coefficient x quantity(t, r))), and the same sum
over what every stage counts

A unit is how much of something one request of t tokens needs (rows, blocks, slots), a quantity what r of them need together;
its coefficient is what one of it costs, taken once from the engine's own functions. All of it is whole numbers: equal to the
scalar path, not near it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from planner.errors import EngineRefusal, InputError

Integers = npt.NDArray[Any]
#: Arrays of tokens, and of requests -> array of the quantity. They work on int64, and on Python's own integers as objects.
Unit = Callable[[Integers], Integers]
Quantity = Callable[[Integers, Integers], Integers]
#: Coefficients of the units and of the quantities.
Coefficients = tuple[tuple[int, ...], tuple[int, ...]]
#: Marks points that the engine refuses.
REFUSED = -1
_LARGEST = 2**62
#: Points that are evaluated together: their arrays stay in the processor's own cache.
_CHUNK = 1 << 14


class Form(Protocol):
    """Bytes of many points. exact: by a closed form; `why` says how it was come by."""

    @property
    def exact(self) -> bool: ...
    @property
    def why(self) -> str: ...
    def bytes(self, tokens: Integers, requests: Integers) -> Integers: ...


@dataclass(frozen=True)
class ClosedForm:
    """units: quantities of one request, by its tokens alone; quantities: those of tokens and requests together.

    stages: by pipeline stage, the coefficients of units and of quantities; shared: of what every stage counts beside them.
    most_requests: more of them are refused by the engine; None: no limit.
    """

    units: tuple[Unit, ...]
    quantities: tuple[Quantity, ...]
    stages: tuple[Coefficients, ...]
    shared: Coefficients
    why: str
    most_requests: int | None = None
    exact: bool = True

    def bytes(self, tokens: Integers, requests: Integers) -> Integers:
        """Bytes of each point; REFUSED where the engine refuses it. InputError where a figure would not fit 64 bits."""
        count = len(tokens)
        if not count:
            return np.zeros(0, np.int64)
        # The same form at the largest of both, in Python's unlimited integers: nothing shrinks as either grows.
        corner = self._evaluate(np.array([int(tokens.max())], object), np.array([int(requests.max())], object))
        if int(corner[0]) > _LARGEST:
            raise InputError("these points take more bytes than 64 bits hold; ask for fewer tokens or requests", field="tokens")
        found = np.empty(count, np.int64)
        for start in range(0, count, _CHUNK):
            part = slice(start, start + _CHUNK)
            found[part] = self._evaluate(tokens[part], requests[part])
        if self.most_requests is not None and int(requests.max()) > self.most_requests:
            found[requests > self.most_requests] = REFUSED
        return found

    def _evaluate(self, tokens: Integers, requests: Integers) -> Integers:
        units = [unit(tokens) for unit in self.units]
        sizes = [quantity(tokens, requests) for quantity in self.quantities]
        best = _total(self.stages[0], units, sizes, tokens, requests)
        for stage in self.stages[1:]:
            best = np.maximum(best, _total(stage, units, sizes, tokens, requests))
        if any(map(any, self.shared)):
            best = best + _total(self.shared, units, sizes, tokens, requests)
        return best


def _total(
    row: Coefficients, units: Sequence[Integers], sizes: Sequence[Integers], tokens: Integers, requests: Integers
) -> Integers:
    each, together = _combined(row[0], units), _combined(row[1], sizes)
    if each is None:
        return np.zeros_like(tokens) if together is None else together
    each *= requests
    return each if together is None else np.add(each, together, out=together)


def _combined(coefficients: Sequence[int], sizes: Sequence[Integers]) -> Integers | None:
    total: Integers | None = None
    for coefficient, size in zip(coefficients, sizes, strict=True):
        if coefficient:
            part = size * coefficient
            total = part if total is None else np.add(total, part, out=total)
    return total


@dataclass(frozen=True)
class Tabulated:
    """The scalar path, once for each distinct point: where no closed form is known to be exact."""

    scalar: Callable[[int, int], int]
    why: str
    exact: bool = False

    def bytes(self, tokens: Integers, requests: Integers) -> Integers:
        points, place = np.unique(np.stack([tokens, requests]), axis=1, return_inverse=True)
        found = np.array([self._one(int(t), int(r)) for t, r in points.T], np.int64)
        return found[np.asarray(place).ravel()] if len(found) else found

    def _one(self, tokens: int, requests: int) -> int:
        try:
            return self.scalar(tokens, requests)
        except EngineRefusal:
            return REFUSED


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
    """Collects units and quantities by a key, and adds up their coefficients by stage."""

    def __init__(self, stages: int = 1) -> None:
        self._kinds: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})
        self._rows: list[dict[tuple[int, Any], int]] = [{} for _ in range(stages)]
        self._shared: dict[tuple[int, Any], int] = {}

    def each(self, key: Any, unit: Unit, coefficient: int, stage: int | None = 0) -> None:
        """`coefficient` of the unit called `key` for each request on a stage, on all of them where it is None."""
        self._add(0, key, unit, coefficient, stage)

    def together(self, key: Any, quantity: Quantity, coefficient: int, stage: int | None = 0) -> None:
        """The same of a quantity of all requests."""
        self._add(1, key, quantity, coefficient, stage)

    def _add(self, kind: int, key: Any, of: Any, coefficient: int, stage: int | None) -> None:
        self._kinds[kind].setdefault(key, of)
        into = self._shared if stage is None else self._rows[stage]
        into[kind, key] = into.get((kind, key), 0) + coefficient

    def form(self, why: str, most_requests: int | None = None) -> ClosedForm:
        def row(given: dict[tuple[int, Any], int]) -> Coefficients:
            return tuple(given.get((0, key), 0) for key in units), tuple(given.get((1, key), 0) for key in quantities)

        units, quantities = self._kinds
        stages = tuple(dict.fromkeys(row(stage) for stage in self._rows))
        return ClosedForm(tuple(units.values()), tuple(quantities.values()), stages, row(self._shared), why, most_requests)


def one(tokens: Integers) -> Integers:
    """One for each request, however long it is."""
    return np.ones_like(tokens)
