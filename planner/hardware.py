"""Accelerators and machines by name: an id, a short name, a size, an amount of memory, a cloud instance, or several of them."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from planner import mig
from planner.accelerators import Figure, Generation, Gpu, MemoryRange, cite, of_size, read, table
from planner.errors import InputError, shown
from planner.units import GIB, parse_bytes

__all__ = [
    "MOST_GPUS", "Figure", "Generation", "Gpu", "Instance", "MemoryRange", "Node", "by_driver_name", "gpu", "gpus", "instances",
    "node",
]  # fmt: skip

MOST_GPUS = 4096
_LONGEST_NAME = 200
#: A part of a card by an amount: "h100:40GiB" or "40GiB of a H100 80GB SXM5".
_PART = re.compile(r"(.+):([^:]+)|(.+?) of an? (.+)")
#: Makers' words that a name is found without, and what a short name leaves out; names have no blanks and dashes here.
_WORDS = ("nvidia", "amd", "intel", "google", "aws", "huawei", "geforce", "instinct", "tesla", "radeon", "rtx")
_PREFIXES = ("", "rtx", "rx", "apple", "nvidia", "nvidiageforcertx", "tesla", "radeonpro", "jetsonagx")


@dataclass(frozen=True)
class Instance:
    """A cloud instance: `count` accelerators of id `gpu`, and its host. Statuses are verified or recalled; None is not known."""

    provider: str
    name: str
    gpu: str
    count: int
    vcpus: int | None
    ram_gib: int | None
    gpu_status: str
    count_status: str
    host_status: str | None
    source: str
    network: str | None
    note: str


@dataclass(frozen=True)
class Node:
    """Accelerators that serve together. instances: the machines, where they were named, once for each."""

    gpus: tuple[Gpu, ...]
    name: str
    source: str
    instances: tuple[Instance, ...] = ()

    @property
    def mixed(self) -> bool:
        """Whether there is more than one kind of accelerator, as in llama.cpp's layer split."""
        return len({(card.id, card.memory_bytes) for card in self.gpus}) > 1


def _squeeze(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name.lower())


@functools.cache
def _names() -> Mapping[str, str]:
    """Ids by squeezed name: an id wins, then a short name, then the driver's, and of several the one with a short name."""
    known = table()
    found: dict[str, str] = {_squeeze(name): name for name in known.gpus}
    for short, name in known.aliases.items():
        found.setdefault(_squeeze(short), name)
    common = [known.gpus[name] for name in known.aliases.values()]
    for card in (*common, *known.gpus.values()):
        for called in (card.driver_name, card.name):
            found.setdefault(_squeeze(called or card.id), card.id)
    return found


def gpus() -> tuple[Gpu, ...]:
    """All known accelerators, in the table's order."""
    return tuple(table().gpus.values())


def by_driver_name(name: str) -> tuple[Gpu, ...]:
    """The accelerators whose driver calls them `name`; several where one name is sold in several sizes."""
    return tuple(card for card in gpus() if card.driver_name and _squeeze(card.driver_name) == _squeeze(name))


def _known(name: str) -> Gpu | None:
    """The row of a name without a size."""
    key, names = _squeeze(name), _names()
    keys = [key]
    for word in _WORDS:
        if keys[-1].startswith(word):
            keys.append(keys[-1].removeprefix(word))
    found = (names.get(prefix + short) for short in keys for prefix in _PREFIXES)
    return next((table().gpus[name] for name in found if name), None)


def _sized(name: str) -> Gpu | None:
    """The device of a name that ends in its size. Errors: InputError for a size that it is not sold in."""
    match = re.fullmatch(r"(.+?)[\s_-]*(\d{1,4})\s*(gb|gib|g)?", name.strip().lower())
    card = _known(match[1]) if match else None
    if match is None or card is None:
        return None
    size, row = int(match[2]), table().rows[card.id]
    if card.memory_options_gb:
        # A variant of fewer cores is sold in sizes of its own.
        for other in gpus():
            if size in other.memory_options_gb and (other is card or other.id.startswith(f"{card.id}-")):
                return of_size(other.id, size)
        sizes = ", ".join(str(option) for option in card.memory_options_gb)
        raise InputError(f"{card.name} is sold with {sizes} GB, not with {size}", field="gpu")
    return card if match[3] and size in (row.get("nominal_gb"), row.get("nominal_gib")) else None


def _find(name: str) -> Gpu | None:
    """The accelerator of a name, of a name with a size, or of an amount of memory."""
    found = _known(name) or _sized(name)
    if found:
        return found
    part = mig.named(name)
    if part:
        return _slice(*part)
    try:
        size = parse_bytes(name)
    except ValueError:
        return _part(name)
    custom = Gpu("custom", f"custom, {name.strip()}", "", size, None, "nominal", "given by the person")
    return custom if size >= GIB // 4 else None


def _slice(name: str, profile: str) -> Gpu | None:
    """The MIG slice of a card; None where no such card is known."""
    if name.lower() in ("", "mig"):
        return mig.slice_of(None, profile)
    card = _known(name) or _sized(name)
    return mig.slice_of(card, profile) if card else None


def _part(name: str) -> Gpu | None:
    """A given amount of a card's memory ("h100:40GiB", or by its own name, "40GiB of a H100 80GB SXM5"), as a vGPU or a container
    gets it; its speed then depends on the others.

    Errors: InputError for more than the card has.
    """
    match = _PART.fullmatch(name.strip())
    card_name, amount = (match[1] or match[4], match[2] or match[3]) if match else ("", "")
    card = _known(card_name) or _sized(card_name) if match else None
    if card is None:
        return None
    try:
        size = parse_bytes(amount)
    except ValueError:
        return None
    if not GIB // 4 <= size <= card.memory_bytes:
        raise InputError(f"{amount} is no part of the memory of {card.name}", field="gpu")
    figure = Figure("torch_memory_bytes", size, "verified", "given by the person")
    return replace(
        card, id=f"{card.id}:{amount.strip()}", name=f"{amount.strip()} of a {card.name}", memory_bytes=size,
        torch_memory_bytes=size, torch_seen_bytes=(), bandwidth_gbs=None, fp16_tflops=None, bf16_tflops=None, fp8_tflops=None,
        status="nominal", source="given by the person", figures=(figure,), driver_name=None, note="shared with others",
    )  # fmt: skip


def _checked(name: object) -> str:
    if not isinstance(name, str):
        raise InputError(f"an accelerator is named by a text, not by {shown(name)}", field="gpu")
    if len(name) > _LONGEST_NAME:
        raise InputError(f"no accelerator has a name as long as {shown(name)}", field="gpu")
    return name


def _unknown(name: str, *, machines: bool = False) -> InputError:
    """The error for a name that nothing has, with the closest that something has."""
    key, known = re.sub(r"[\s_]+", "-", name.strip().lower()), table()
    names = [*known.gpus, *known.aliases, *(machine.name for machine in instances() if machines)]
    lower = {each.lower().removeprefix(word): each for word in ("rtx-", "apple-", "") for each in names}
    inside = [each for each in lower if len(key) > 1 and key in each] if any(letter.isalnum() for letter in key) else []
    near = inside or difflib.get_close_matches(key, lower, 4, 0.7)
    others = "take one of the known ones (`planner gpus` lists them), or an amount like 96GiB"
    hint = f"; did you mean {', '.join(list(dict.fromkeys(lower[each] for each in near))[:6])}?" if near else f"; {others}"
    what = "accelerator or instance" if machines else "accelerator"
    return InputError(f"no {what} is called {shown(name)}{hint}", field="gpu")


def gpu(name: str) -> Gpu:
    """The accelerator called `name`: an id ("h100-sxm"), a short name ("4090", "H100"), the driver's own name for it
    ("NVIDIA A100-SXM4-80GB"), a device and its size ("M4 Max 64GB"), a MIG slice of one ("h100-sxm:3g.40gb", "mig-3g.71gb"), a
    part of its memory ("h100:40GiB"), or an amount ("96 GiB").

    Errors: InputError with the closest known names, or with the sizes that the device is sold in.
    """
    found = _find(_checked(name))
    if found is None:
        raise _unknown(name)
    return found


@functools.cache
def instances() -> tuple[Instance, ...]:
    """All known cloud instances, by provider. Source: data/instances.yaml, each row with its own."""
    data, found = read("instances.yaml"), []
    for provider, rows in data["instances"].items():
        for row in rows:
            kind = row["source"]
            count, host = row.get("count_source", kind), row.get("host_source", kind)
            cited = [source for source in dict.fromkeys((kind, count, host)) if source != "recalled"]
            status = {source: "recalled" if source == "recalled" else "verified" for source in (kind, count, host)}
            found.append(Instance(
                provider, row["name"], row["gpu"], row["count"], row.get("vcpus"), row.get("ram_gib"), status[kind],
                status[count], status[host] if "vcpus" in row else None,
                cite("; ".join(cited), data["sources"]) or "not looked up", row.get("network"), row.get("note", ""),
            ))  # fmt: skip
    return tuple(found)


@functools.cache
def _machines() -> Mapping[str, Instance]:
    """Instances by squeezed name, with and without their provider; Azure's also without their first word."""
    found = {}
    for machine in instances():
        key = _squeeze(machine.name)
        for each in {key, key.removeprefix("standard")}:
            found[each] = found[f"{machine.provider}:{each}"] = machine
    return found


def _one(text: str) -> Node | None:
    """The node of a single accelerator or instance."""
    machine = _machines().get(_squeeze(text))
    if machine:
        card = table().gpus[machine.gpu]
        name = f"{machine.name} ({machine.count} x {card.name})"
        kind = f"{machine.provider} {machine.name}: kind {machine.gpu_status}, count {machine.count_status}: {machine.source}"
        return Node((card,) * machine.count, name, kind, (machine,))
    found = _find(text)
    return Node((found,), found.name, "given by the person") if found else None


def _times(text: str) -> Node:
    """The node of one name, or of a count and a name: "8xh100", "8 x H100", "H100 x8", "2 x p5.48xlarge"."""
    single = _one(text)
    if single:
        return single
    before = re.fullmatch(r"\s*(\d+)(?:\s*[x×*]\s*|\s+)(.+?)\s*", text, re.IGNORECASE)
    after = re.fullmatch(r"\s*(.+?)\s*[x×*]\s*(\d+)\s*", text, re.IGNORECASE)
    number, name = (before[1], before[2]) if before else (after[2], after[1]) if after else ("1", text)
    single = _one(name)
    if single is None:
        raise _unknown(name, machines=True)
    count = int(number[:9])
    if not 1 <= count * len(single.gpus) <= MOST_GPUS:
        raise InputError(f"{shown(text)}: a node has from 1 to {MOST_GPUS:,} accelerators", field="gpu")
    label = single.name if count == 1 else f"{count} x {single.name}"
    return Node(single.gpus * count, label, single.source, single.instances * count)


def node(text: str) -> Node:
    """The accelerators that a text names: "h100", "8xh100", "8 x H100", an instance ("p5.48xlarge", "aws:p5.48xlarge"), or a sum
    of them ("2x4090+1x3090"), in that order.

    Errors: InputError with the closest known accelerators and instances; for no accelerators, or more than 4,096.
    """
    whole = _one(_checked(text))
    if whole:
        return whole
    parts = [_times(part) for part in re.split(r"[+,]", text)]
    cards = tuple(card for part in parts for card in part.gpus)
    if len(cards) > MOST_GPUS:
        raise InputError(f"{shown(text)} names {len(cards):,} accelerators; a node has at most {MOST_GPUS:,}", field="gpu")
    sources = "; ".join(dict.fromkeys(part.source for part in parts))
    return Node(cards, " + ".join(part.name for part in parts), sources, tuple(m for part in parts for m in part.instances))
