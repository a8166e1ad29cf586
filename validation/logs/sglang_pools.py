"""Which pool each line of a SGLang log is of, rank by rank: target or draft, full or window layers, states.

Two allocations of one rank for the same number of tokens are a target and its draft, which add up. Of two with different numbers
the smaller is the window layers'. An identical line again is another rank or another start, and is not doubled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from validation.logs.log import Figure
from validation.logs.sglang_shapes import COUNTS
from validation.logs.shapes import Found

_TAG: Final = re.compile(r"([A-Z_]+)(\d{1,5})")


@dataclass(frozen=True)
class Pool:
    """One allocation. role: target, draft or window. tokens is absent before 0.4.3; latent: one size instead of two."""

    role: str
    line: int
    tokens: Figure | None
    keys: Figure | None
    values: Figure | None
    latent: Figure | None
    dtype: str | None = None

    @property
    def sizes(self) -> tuple[Figure, ...]:
        return tuple(figure for figure in (self.keys, self.values, self.latent) if figure is not None)

    @property
    def bytes(self) -> int:
        return int(sum(figure.value for figure in self.sizes))

    def figures(self) -> Iterator[Figure]:
        prefix = {"target": "", "draft": "draft_", "window": "swa_"}[self.role]
        names = (("kv_tokens" if self.role == "target" else "tokens", self.tokens), ("k_bytes", self.keys),
                 ("v_bytes", self.values), ("kv_bytes", self.latent))  # fmt: skip
        for name, figure in names:
            if figure is not None:
                yield replace(figure, name=prefix + name)


@dataclass(frozen=True)
class Pools:
    """One rank: its pools, its states, and free memory as it fell."""

    rank: str | None
    pools: tuple[Pool, ...]
    others: Mapping[str, Figure]
    warnings: tuple[str, ...] = ()

    @property
    def figures(self) -> tuple[Figure, ...]:
        return (*(figure for pool in self.pools for figure in pool.figures()), *self.others.values())

    def pool(self, role: str) -> Pool | None:
        return next((pool for pool in self.pools if pool.role == role), None)

    def number(self, name: str) -> Figure | None:
        return self.others.get(name)


def figures_of(found: Found) -> dict[str, Figure]:
    return {name: found.figure(name) for name in found.words if name.endswith("_bytes") or name in COUNTS}


def ranks_of(rank: str | None) -> dict[str, int]:
    """{"PP": 1, "TP": 0} of "PP1 TP0"."""
    return {name: int(number) for name, number in _TAG.findall(rank or "")}


def pools_of(found: Sequence[Found]) -> list[Pools]:
    """All ranks, in order of first appearance."""
    by_rank: dict[str | None, list[Found]] = {}
    windows: tuple[int | None, int | None] = (None, None)
    for one in found:
        if "swa_tokens" in one.words:
            figures = figures_of(one)
            full = figures.get("full_tokens")
            windows = int(full.value) if full else None, int(figures["swa_tokens"].value)
        by_rank.setdefault(one.line.rank, []).append(one)
    ranks = [_rank(rank, rows, windows) for rank, rows in by_rank.items()]
    return [rank for rank in ranks if rank.pools or rank.others]


def _rank(rank: str | None, rows: Sequence[Found], windows: tuple[int | None, int | None]) -> Pools:
    pools: list[Pool] = []
    others: dict[str, Figure] = {}
    warnings = []
    seen: dict[str, int] = {}
    for one in rows:
        figures = figures_of(one)
        if {"k_bytes", "latent_bytes"} & set(figures):
            pool = _pool(one, figures)
            if any(_same(pool, other) for other in pools):
                whose = rank or "this log"
                warnings.append(f"line {pool.line} repeats an allocation of {whose}: another rank's or start's, not added")
                continue
            pools.append(pool)
        elif one.shape.starts in ("Memory pool end.", "Load weight begin.", "Load weight end.", "Mamba Cache is allocated."):
            # The draft's worker prints the same lines after the target's.
            number = seen.get(one.shape.starts, 0)
            seen[one.shape.starts] = number + 1
            before = "" if number == 0 else "draft_"
            others.update({before + name: replace(figure, name=before + name) for name, figure in figures.items()})
    return Pools(rank, tuple(_roles(pools, windows)), others, tuple(warnings))


def _pool(one: Found, figures: Mapping[str, Figure]) -> Pool:
    label = one.words.get("label", "").lower()
    role = "draft" if "draft" in label else "window" if "swa" in label or "window" in label else "full" if "full" in label else ""
    dtype = one.words.get("dtype")
    return Pool(
        role, one.line.number, figures.get("tokens"), figures.get("k_bytes"), figures.get("v_bytes"), figures.get("latent_bytes"),
        dtype.removeprefix("torch.") if dtype else None,
    )  # fmt: skip


def _same(one: Pool, other: Pool) -> bool:
    return [f.text for f in (one.tokens, *one.sizes) if f] == [f.text for f in (other.tokens, *other.sizes) if f]


def _roles(pools: Sequence[Pool], windows: tuple[int | None, int | None]) -> Iterator[Pool]:
    """Each pool's role, from its label, from the line that tells the window pool's tokens, else from order and tokens."""
    tokens = [int(pool.tokens.value) if pool.tokens else None for pool in pools]
    full = windows[0] or max((count for count in tokens if count is not None), default=None)
    taken: set[str] = set()
    for pool, count in zip(pools, tokens, strict=True):
        role = {"full": "target"}.get(pool.role, pool.role)
        smaller = count is not None and full is not None and count < full and "window" not in taken
        if not role and smaller and windows[1] in (None, count):
            role = "window"
        role = role or "target"
        while role in taken and role != "draft":
            role = "draft"
        if role in taken:
            continue
        taken.add(role)
        yield replace(pool, role=role)
