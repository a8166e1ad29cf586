"""The chain of a vLLM pool: available bytes, blocks, tokens, concurrency, the longest request, each by the rule of the release.

The printed bytes are rounded, so that several numbers of blocks may have been meant; all figures must follow from one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from planner.engines.vllm_capacity import Capacity, blocks_of
from planner.engines.vllm_setup import Setup
from planner.search import most
from planner.units import GIB
from validation.logs.log import CheckLine, Figure

#: Figures that follow from the number of blocks.
READINGS: Final = ("num_gpu_blocks", "gpu_kv_cache_tokens", "max_concurrency", "estimated_max_model_len")
#: By so much the ranks of one engine differ in what they offer; more is another rule.
_RANKS_DIFFER: Final = 0.015
#: More numbers of blocks than these are not tried one by one.
_MOST: Final = 40_000
_MOST_BLOCKS: Final = 1 << 40


@dataclass(frozen=True)
class Bytes:
    """What the pool is made from: a range of bytes, the figure that says so, and whether every rank's is known."""

    low: int
    high: int
    figure: Figure
    least_known: bool = True


@dataclass(frozen=True)
class Outcome:
    """The lines compared, the blocks that they follow from (None where no number of blocks gives all), and what to say of it.

    low, high: the blocks that the printed bytes may be. other_rank: the pool is smaller than they are by what ranks differ.
    """

    lines: tuple[CheckLine, ...]
    blocks: int | None
    low: int
    high: int
    other_rank: bool = False

    @property
    def agrees(self) -> bool:
        return bool(self.lines) and all(line.agrees for line in self.lines)

    @property
    def right(self) -> int:
        return sum(line.agrees for line in self.lines)


def pool_bytes(printed: Mapping[str, Figure], ranks: int, printed_by: int) -> Bytes | None:
    """The bytes that blocks are cut from: pinned, as offered, or as in use after start; None where nothing says.

    ranks: of one engine; printed_by: how many of them print what they offer.
    """
    for name in ("kv_cache_memory_bytes", "available_kv_bytes", "kv_in_use_bytes"):
        figure = printed.get(name)
        if figure is not None:
            least = name != "available_kv_bytes" or printed_by >= ranks
            return Bytes(max(0, int(figure.low)), max(0, int(figure.high)), figure, least)
    return None


def compare(setup: Setup, printed: Mapping[str, Figure], source: Bytes | None, length: int) -> Outcome:
    """Every printed figure of the pool beside ours."""
    capacity = setup.capacity
    figures = [printed[name] for name in READINGS if name in printed]
    needed = _needed(setup, printed)
    override = setup.settings.num_gpu_blocks_override
    if override:
        low = high = override
    elif source is not None and capacity.groups:
        low, high = capacity.num_blocks(source.low), capacity.num_blocks(source.high)
    elif "num_gpu_blocks" in printed:
        low = high = int(printed["num_gpu_blocks"].value)
        figures = [figure for figure in figures if figure.name != "num_gpu_blocks"]
    elif "gpu_kv_cache_tokens" in printed and capacity.groups:
        low, high = _blocks_of_tokens(capacity, int(printed["gpu_kv_cache_tokens"].value), length)
        if low <= high:
            figures = [figure for figure in figures if figure.name != "gpu_kv_cache_tokens"]
    else:
        return Outcome(needed, None, 0, 0)
    blocks = _meeting(capacity, figures, low, high, length)
    other = False
    if blocks is None and source is not None and not source.least_known and not override:
        blocks = _meeting(capacity, figures, int(low * (1 - _RANKS_DIFFER)), low - 1, length)
        other = blocks is not None
    lines = [_line(figure, setup, source, blocks, (low, high), length) for figure in figures]
    if override and source is not None and (profiled := printed.get("num_gpu_blocks_profiled")):
        span = capacity.num_blocks(source.low), capacity.num_blocks(source.high)
        ours = min(max(int(profiled.value), span[0]), span[1])
        rule = rule_of("num_gpu_blocks", setup, ours, length, source)
        lines.append(CheckLine(profiled.name, profiled.value, ours, ours == profiled.value, rule, profiled.text))
    return Outcome((*needed, *lines), blocks, low, high, other)


def _blocks_of_tokens(capacity: Capacity, tokens: int, length: int) -> tuple[int, int]:
    """The least and the most blocks for which the release prints so many tokens; (0, -1) where none does."""
    low = most(lambda blocks: capacity.tokens(blocks, length) < tokens, _MOST_BLOCKS) + 1
    high = most(lambda blocks: capacity.tokens(blocks, length) <= tokens, _MOST_BLOCKS)
    return (low, high) if low <= high else (0, -1)


def _meeting(capacity: Capacity, figures: list[Figure], low: int, high: int, length: int) -> int | None:
    """The first number of blocks from which all figures follow."""
    for blocks in _tried(capacity, figures, low, high, length):
        if all(fits(figure, reading(figure.name, capacity, blocks, length)) for figure in figures):
            return blocks
    return None


def _tried(capacity: Capacity, figures: list[Figure], low: int, high: int, length: int) -> Iterator[int]:
    """The numbers of blocks to try. Of very many, those near where the tokens or the blocks are printed."""
    if high - low <= _MOST:
        yield from range(low, high + 1)
        return
    for figure in figures:
        if figure.name == "num_gpu_blocks":
            yield int(figure.value)
        elif figure.name == "gpu_kv_cache_tokens":
            unit = max(1, capacity.tokens(10**6, length))
            near = int(figure.value) * 10**6 // unit
            yield from range(max(low, near - 2000), min(high, near + 2000) + 1)


def reading(name: str, capacity: Capacity, blocks: int, length: int) -> float:
    """What the release prints of a pool of so many blocks."""
    if name == "num_gpu_blocks":
        return blocks
    if name == "gpu_kv_cache_tokens":
        return capacity.tokens(blocks, length)
    if name == "max_concurrency":
        return capacity.concurrency(blocks, length)
    if capacity.rules.tokens == "blocks":
        return capacity.tokens(blocks, length)
    return capacity.longest(length, blocks)


def fits(figure: Figure, ours: float) -> bool:
    """Whether ours prints as the figure does."""
    return abs(ours - figure.value) <= figure.slack * (1 + 1e-9) + 1e-9


def _line(
    figure: Figure, setup: Setup, source: Bytes | None, blocks: int | None, span: tuple[int, int], length: int
) -> CheckLine:
    capacity = setup.capacity
    near = blocks if blocks is not None else min(range(*_ends(span)), key=lambda b: _distance(figure, capacity, b, length))
    ours = reading(figure.name, capacity, near, length)
    return CheckLine(
        figure.name, figure.value, round(ours, 4) if isinstance(ours, float) else ours, fits(figure, ours),
        rule_of(figure.name, setup, near, length, source), figure.text,
    )  # fmt: skip


def _ends(span: tuple[int, int]) -> tuple[int, int, int]:
    low, high = span
    return low, max(low, high) + 1, max(1, (high - low) // 500)


def _distance(figure: Figure, capacity: Capacity, blocks: int, length: int) -> float:
    return abs(reading(figure.name, capacity, blocks, length) - figure.value)


def _needed(setup: Setup, printed: Mapping[str, Figure]) -> tuple[CheckLine, ...]:
    """The bytes of one request that a refusal prints."""
    figure = printed.get("kv_needed_bytes")
    if figure is None or "refused_max_model_len" not in printed:
        return ()
    length = int(printed["refused_max_model_len"].value)
    capacity = setup.capacity
    blocks = capacity.request_blocks(length)
    ours = blocks * capacity.bytes_per_block
    rule = (
        f"one request of {length:,} tokens takes {blocks:,} blocks ({request_parts(setup, length)}) x"
        f" {capacity.bytes_per_block:,} bytes = {ours / GIB:.3f} GiB"
    )
    return (CheckLine(figure.name, figure.value, ours, fits(figure, ours), rule, f"{figure.text} GiB"),)


def request_parts(setup: Setup, length: int) -> str:
    """The blocks of one request, kind by kind: "256 full, 3 x 2 mamba"."""
    counts: dict[tuple[str, int], int] = {}
    capacity = setup.capacity
    for group in capacity.groups:
        key = (group.spec.kind, blocks_of(group.spec, length, capacity.load, capacity.rules))
        counts[key] = counts.get(key, 0) + 1
    return ", ".join(f"{n} x {each:,} {kind}" if n > 1 else f"{each:,} {kind}" for (kind, each), n in counts.items())


def rule_of(name: str, setup: Setup, blocks: int, length: int, source: Bytes | None) -> str:
    """The rule of one figure in words, with its numbers."""
    capacity = setup.capacity
    rules, groups = capacity.rules, len(capacity.groups)
    if name == "num_gpu_blocks":
        memory = f"{source.figure.text} {'bytes' if not source.figure.slack else 'GiB'}" if source else "the memory"
        return f"{memory} / {capacity.bytes_per_block:,} bytes of a block"
    if name == "gpu_kv_cache_tokens":
        size = min(group.spec.block_size for group in capacity.groups)
        shared = f" x {capacity.load.dcp} ranks that share the positions" if capacity.load.dcp > 1 else ""
        if rules.tokens == "concurrency":
            need = capacity.request_blocks(length)
            one = f"{need:,} blocks of one request of {length:,} tokens"
            return f"since 0.21: {blocks:,} blocks / {one} x {length:,} tokens, cut to whole tokens"
        if rules.tokens == "groups" and groups > 1:
            return f"before 0.21: {blocks:,} blocks // {groups} groups x {size} tokens of the smallest block{shared}"
        return f"{blocks:,} blocks x {size} tokens{shared}"
    if name == "max_concurrency":
        if rules.concurrency == "length":
            return f"{capacity.tokens(blocks, length):,} tokens / {length:,}"
        need, parts = capacity.request_blocks(length), request_parts(setup, length)
        return f"{blocks:,} blocks / {need:,} blocks of one request of {length:,} tokens ({parts})"
    kept = ", one block set aside" if rules.null_block else ""
    return f"the longest request whose blocks are at most {blocks:,}{kept}"
