"""Which accelerator a vLLM log is from, and how many ranks it shows.

vLLM does not print the card's name; what people paste beside the log often does, and its total memory tells most cards apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from planner.accelerators import Gpu
from planner.errors import InputError
from planner.hardware import gpu as find_gpu
from planner.hardware import gpus
from planner.units import GIB
from validation.logs.lines import Line
from validation.logs.log import Figure, Log

_NAMED: Final = (
    re.compile(r"\bGPU (?P<index>\d{1,3}): (?P<name>(?:NVIDIA|AMD|Tesla|GeForce|Quadro)[\w /.+-]{2,60}?)\s*(?:\(UUID|$)"),
    re.compile(r"^\s*(?P<index>\d{1,3})\s{1,4}(?P<name>(?:NVIDIA|Tesla|GeForce|Quadro)[\w /.+-]{2,60}?)\s{2,}(?:On|Off)\b"),
)  # fmt: skip
#: By so much the total of one kind of card differs between drivers.
_TOTAL_VARIES: Final = GIB // 32
_RANK: Final = re.compile(r"(DP|PP|TP|DCP|PCP)(\d{1,5})")


@dataclass(frozen=True)
class Card:
    """An accelerator and how it is known. sure: named by a person or the paste, not by its memory alone."""

    gpu: Gpu
    why: str
    sure: bool


def gpu_name(lines: Sequence[Line]) -> str | None:
    """The accelerator's name as collect_env or nvidia-smi print it."""
    for line in lines:
        for pattern in _NAMED:
            if match := pattern.search(line.text):
                return match["name"].strip()
    return None


def gpus_seen(lines: Sequence[Line], start: Sequence[Line]) -> int | None:
    """How many accelerators the paste lists, or the ranks that its tags show at least; None where it shows none."""
    listed = {match["index"] for line in lines for pattern in _NAMED if (match := pattern.search(line.text))}
    shown = ranks_seen(start)
    ranks = shown.get("TP", 1) * shown.get("PP", 1) * shown.get("DP", 1)
    return len(listed) or (ranks if shown else None)


def ranks_seen(lines: Sequence[Line]) -> dict[str, int]:
    """By kind of rank, one more than the highest index in the tags of workers: at least so many there are. A kind that is named
    has more than one, so a lone TP0 counts as two.
    """
    found: dict[str, int] = {}
    for line in lines:
        if line.process and line.process.startswith("Worker"):
            for kind, index in _RANK.findall(line.rank or ""):
                found[kind] = max(found.get(kind, 2), int(index) + 1)
        elif line.process == "VllmWorker" and (match := re.match(r"rank (\d{1,5})$", line.rank or "")):
            found["TP"] = max(found.get("TP", 1), int(match[1]) + 1)
        elif line.process and re.match(r"EngineCore_DP[1-9]", line.process) and (match := _RANK.search(line.process)):
            found["DP"] = max(found.get("DP", 2), int(match[2]) + 1)
    return found


def card_of(log: Log, gpu: Gpu | None) -> Card | None:
    """The accelerator: as the person says, as the paste names it, or by the total that the log prints.

    A total that several kinds of card have says how much memory there is and no more.
    """
    if gpu is not None:
        return Card(gpu, "given", True)
    if log.gpu:
        try:
            return Card(find_gpu(log.gpu), f"the paste names {log.gpu}", True)
        except InputError:
            pass
    total = log.printed.get("gpu_total_bytes")
    return by_total(total) if total and total.value > GIB else None


def by_total(total: Figure) -> Card:
    """The card whose PyTorch total is printed, where one generation alone has it; else that amount of memory."""
    size = int(total.value)
    near = [
        card for card in gpus()
        if card.torch_memory_bytes and abs(card.torch_memory_bytes - size) <= _TOTAL_VARIES and not card.unified_memory
    ]  # fmt: skip
    if near and len({card.generation for card in near}) == 1:
        return Card(near[0], f"{total.text} GiB is the total of {near[0].name}", False)
    return Card(replace(find_gpu(f"{size} B"), name=f"a card of {total.text} GiB"), "its total", False)
