"""What vLLM prints about a block itself: its tokens, padding of states and layers, and the blocks of its swap space."""

from __future__ import annotations

from collections import Counter
from typing import Final

from planner.engines.vllm_setup import Setup
from planner.units import GIB, ceil_div
from validation.logs.log import CheckLine, Figure, Log

#: Engine V0's default swap space of each GPU, in GiB, that it cut into blocks of the CPU.
_SWAP_GIB: Final = 4
_MOST_SWAP_GIB: Final = 128


def block_lines(log: Log, setup: Setup) -> tuple[CheckLine, ...]:
    """Each of these figures beside ours."""
    found = [
        _attention_block(log.printed.get("attention_block_size"), setup),
        _state_padding(log.printed.get("state_padding_percent"), setup),
        _padding_layers(log.printed.get("padding_layers"), log.printed.get("padding_percent"), setup),
        _swap(log.printed.get("num_cpu_blocks"), log.other.get("swap_space"), setup),
    ]
    return tuple(line for line in found if line is not None)


def _attention_block(figure: Figure | None, setup: Setup) -> CheckLine | None:
    if figure is None:
        return None
    ours = setup.layout.block_size
    state = max((p.spec.natural_bytes for p in setup.layout.placed if p.spec.kind == "mamba"), default=0)
    rule = f"as many tokens, in steps of the kernels' block, as take the {state:,} bytes of a recurrent state"
    return CheckLine(figure.name, figure.value, ours, ours == figure.value, rule, figure.text)


def _state_padding(figure: Figure | None, setup: Setup) -> CheckLine | None:
    specs = {p.spec for p in setup.layout.placed if p.spec.kind == "mamba"}
    if figure is None or not specs:
        return None
    spec = max(specs, key=lambda each: each.natural_bytes)
    ours = 100 * (spec.page_bytes / spec.natural_bytes - 1)
    rule = f"a state of {spec.natural_bytes:,} bytes in a page of {spec.page_bytes:,}"
    equal = abs(ours - figure.value) <= figure.slack + 1e-9
    return CheckLine(figure.name, figure.value, round(ours, 4), equal, rule, figure.text)


def _padding_layers(figure: Figure | None, percent: Figure | None, setup: Setup) -> CheckLine | None:
    """Layers that the groups of one kind are short of, and their share of the kind's layers."""
    if figure is None or percent is None or len(setup.capacity.groups) < 2:
        return None
    size = max(len(group.members) for group in setup.capacity.groups)
    counts = Counter[tuple[str, int | None]]()
    for group in setup.capacity.groups:
        counts[group.spec.kind, group.spec.window] += len(group.members)
    missing = {n: ceil_div(n, size) * size - n for n in counts.values()}
    fitting = [
        n for n, short in missing.items()
        if short == figure.value and abs(100 * short / n - percent.value) <= percent.slack + 1e-9
    ]  # fmt: skip
    most = max(missing, key=lambda n: missing[n])
    n = fitting[0] if fitting else most
    rule = f"{n} layers in groups of {size} leave {missing[n]} places empty ({100 * missing[n] / n:.2f}%)"
    return CheckLine(figure.name, figure.value, missing[n], bool(fitting), rule, f"{figure.text} layers, {percent.text}%")


def _swap(figure: Figure | None, said: str | None, setup: Setup) -> CheckLine | None:
    """Blocks of the swap space on the CPU: exact bytes of a block, because the space is a round number."""
    size = setup.capacity.bytes_per_block
    if figure is None or figure.value <= 0 or not size:
        return None
    space = float(said) if said else float(_SWAP_GIB)
    ours, inferred = int(space * GIB) // size, ""
    if ours != figure.value and not said:
        other = next((n for n in range(1, _MOST_SWAP_GIB + 1) if n * GIB // size == figure.value), None)
        if other:
            space, ours, inferred = other, other * GIB // size, ", the space inferred"
    rule = f"swap space of {space:g} GiB / {size:,} bytes of a block{inferred}"
    return CheckLine(figure.name, figure.value, ours, ours == figure.value, rule, figure.text)
