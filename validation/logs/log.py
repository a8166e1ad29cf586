"""What is read from a start-up log, and what comes of holding it to the planner: figures, logs, checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Figure:
    """One printed number. value: bytes (names end in `_bytes`) or a count; of a rounded print the centre. slack: half of the
    last digit that the engine prints, in the same unit; 0 where the print is exact. text: as printed. line: 1-based.
    """

    name: str
    value: int | float
    slack: float
    text: str
    line: int
    rank: str | None = None

    @property
    def low(self) -> int | float:
        """The least that prints so."""
        return self.value - self.slack

    @property
    def high(self) -> int | float:
        """The most that prints so."""
        return self.value + self.slack


@dataclass(frozen=True)
class Log:
    """One start of one engine, as its log tells it.

    settings: under the names of planner.engine(engine).Settings. printed: the figure of each name that binds (the smallest
    rank's, the last of replaced ones); all: every one, rank by rank. gpu: a name where one is printed. gpus: how many.
    warnings: what is cut, interleaved or contradicts itself. other: words that the engine's own `explain` needs.
    """

    engine: str
    version: str | None = None
    model: str | None = None
    settings: Mapping[str, Any] = field(default_factory=lambda: _NONE)
    printed: Mapping[str, Figure] = field(default_factory=lambda: _NONE)
    all: tuple[Figure, ...] = ()
    gpu: str | None = None
    gpus: int | None = None
    warnings: tuple[str, ...] = ()
    other: Mapping[str, Any] = field(default_factory=lambda: _NONE)

    @property
    def figures(self) -> dict[str, int | float]:
        """The value of each figure that binds, by name."""
        return {name: figure.value for name, figure in self.printed.items()}


@dataclass(frozen=True)
class CheckLine:
    """One figure beside ours. rule: the engine's rule in words with its numbers; where they differ, what differs.

    shown: the printed figure as the log has it. estimated: ours is an estimate, and agrees says whether the printed figure lies
    in its range, as nine of ten public runs do; the verdict is left to the exact figures where there are any.
    """

    name: str
    printed: int | float
    ours: int | float
    agrees: bool
    rule: str
    shown: str | None = None
    estimated: bool = False


class Compared:
    """What holds compared lines: how many agree, and whether there are any and all do."""

    lines: tuple[CheckLine, ...]

    @property
    def agreeing(self) -> int:
        return sum(line.agrees for line in self.lines)

    @property
    def agrees(self) -> bool:
        return bool(self.lines) and self.agreeing == len(self.lines)


@dataclass(frozen=True)
class Check:
    """What comes of a log. missing: what to ask the person for, named as flags. advice: what to change to get more.
    rules: what the log shows, in plain words. agrees: at least one figure was compared, and all that decide agree.
    """

    lines: tuple[CheckLine, ...] = ()
    missing: tuple[str, ...] = ()
    agrees: bool = False
    advice: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


def check_of(
    lines: Iterable[CheckLine | None], missing: Iterable[str] = (), advice: Iterable[str] = (), rules: Iterable[str] = ()
) -> Check:
    """The check of these lines, None for a figure that could not be compared; repeated texts are said once."""
    found = tuple(line for line in lines if line is not None)
    deciding = [line for line in found if not line.estimated] or found
    agrees = bool(found) and all(line.agrees for line in deciding)
    return Check(found, _once(missing), agrees, _once(advice), _once(rules))


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
