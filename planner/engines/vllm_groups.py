"""Which caches share a block table, and the bytes of one block on each pipeline stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.engines.vllm_blocks import Layout
from planner.engines.vllm_specs import Placed, Spec
from planner.engines.vllm_tables import Rules
from planner.errors import EngineRefusal
from planner.units import ceil_div

#: Kinds whose caches grow with the request: one uniform group can hold them, whatever their page sizes.
_GROWING = {"full", "mla"}


@dataclass(frozen=True)
class Group:
    """Caches that share a block table. `uniform`: pages of different sizes are laid side by side."""

    members: tuple[Placed, ...]
    uniform: bool = False

    @property
    def spec(self) -> Spec:
        return self.members[0].spec

    @property
    def page_bytes(self) -> int:
        return sum(member.spec.page_bytes for member in self.members)

    def on(self, layers: range) -> int:
        """Bytes of one block for the members on these layers."""
        return sum(member.spec.page_bytes for member in self.members if member.layer in layers)


def group(layout: Layout, rules: Rules, disable_hybrid: bool) -> tuple[Group, ...]:
    """The groups of a whole model, in vLLM's order of decisions.

    Equal caches: one group. All growing, or all with one window, at one block size: one group, pages side by side. DeepSeek-V4:
    packed groups. Otherwise pages are made equal and each kind is dealt out to groups of one size.

    Source: vLLM 0.33.0, v1/core/kv_cache_planning.py.
    """
    placed = layout.placed
    if not placed:
        return ()
    if layout.packed:
        return _packed(placed)
    if rules.hybrid == "layers":
        placed = tuple(p for p in placed if p.spec.kind != "mamba")
        if not placed:
            raise EngineRefusal(
                "this vLLM version keeps the states of a model without attention outside its block pool, where the planner"
                " has no rule for them; newer versions hold them in the pool",
                engine="vllm",
            )
    if disable_hybrid or rules.hybrid == "layers":
        placed = tuple(_as_full(p, layout.block_size) for p in placed)
    if len({spec.merges for spec in {p.spec for p in placed}}) == 1:
        return (Group(placed),)
    kinds = {p.spec.kind for p in placed}
    if len({p.spec.block_size for p in placed}) == 1 and (
        kinds <= _GROWING or (kinds == {"sliding"} and len({p.spec.window for p in placed}) == 1)
    ):
        return (Group(placed, uniform=True),)
    if rules.hybrid == "layers":
        return (Group(placed, uniform=True),)
    return _dealt(_equal_pages(placed), rules)


def _as_full(placed: Placed, block_size: int) -> Placed:
    """A window that is treated as full attention: every position keeps its block."""
    spec = placed.spec
    if spec.kind not in ("sliding", "chunked"):
        return placed
    return replace(placed, spec=replace(spec, kind="full", block_size=block_size))


def _equal_pages(placed: Sequence[Placed]) -> tuple[Placed, ...]:
    """Every page as large as the largest: a smaller one takes more tokens if it divides, else it is padded.

    A latent page that does not divide cannot be padded. EngineRefusal then.
    """
    largest = max(p.spec.page_bytes for p in placed)
    found = []
    for p in placed:
        spec = p.spec
        if spec.page_bytes < largest:
            if spec.kind != "mamba" and largest % spec.page_bytes == 0:
                spec = replace(spec, block_size=spec.block_size * (largest // spec.page_bytes), padded=None)
            elif spec.kind == "mla":
                raise EngineRefusal(
                    f"vLLM cannot make a latent page of {spec.page_bytes} bytes as large as the pool's pages of {largest}",
                    engine="vllm",
                )
            else:
                spec = replace(spec, padded=largest)
        found.append(replace(p, spec=spec))
    return tuple(found)


def _buckets(placed: Sequence[Placed]) -> list[list[Placed]]:
    merged = {spec: spec.merges for spec in {p.spec for p in placed}}
    buckets: dict[Spec, list[Placed]] = {}
    for p in placed:
        buckets.setdefault(merged[p.spec], []).append(p)
    return list(buckets.values())


def _dealt(placed: Sequence[Placed], rules: Rules) -> tuple[Group, ...]:
    """Each kind's n layers in ceil(n / size) groups. size: the largest kind if it is under `group_limit` x the smallest, else
    the smallest. A group that is short of layers wastes their pages."""
    buckets = _buckets(placed)
    smallest, largest = min(map(len, buckets)), max(map(len, buckets))
    size = largest if largest < rules.group_limit * smallest else smallest
    groups = []
    for bucket in buckets:
        count = ceil_div(len(bucket), size)
        for i in range(count):
            dealt = bucket[i::count] if rules.dealing == "round_robin" else bucket[i * size : (i + 1) * size]
            groups.append(Group(tuple(dealt)))
    return tuple(groups)


def _packed(placed: Sequence[Placed]) -> tuple[Group, ...]:
    """DeepSeek-V4: caches of one block size and window share groups; a kind wider than the compressed caches is split.

    The widest group sets the block. Windows and states are dealt round-robin to as many groups as they need to be no wider than
    the group of the compressed caches.

    Source: vLLM 0.33.0, kv_cache_planning.py; held to the published Flash and Pro configs.
    """
    buckets: dict[tuple[object, ...], list[Placed]] = {}
    for p in placed:
        buckets.setdefault((p.spec.kind, p.spec.block_size, p.spec.window), []).append(p)
    compressed = [sum(p.spec.page_bytes for p in bucket) for key, bucket in buckets.items() if key[0] == "mla"]
    widest = max(compressed, default=max(sum(p.spec.page_bytes for p in bucket) for bucket in buckets.values()))
    groups = []
    for bucket in buckets.values():
        count = ceil_div(sum(p.spec.page_bytes for p in bucket), widest)
        groups += [Group(tuple(bucket[i::count]), uniform=True) for i in range(count)]
    return tuple(groups)


def stages(layers: int, pipeline_parallel_size: int, drafts: int = 0) -> tuple[range, ...]:
    """The layers of each pipeline stage; draft layers go with the last one.

    Even shares; of the rest, one layer each goes to the stages before the last, from the back.

    Source: vLLM 0.33.0, distributed/utils.py, get_pp_indices.
    """
    counts = [layers // pipeline_parallel_size] * pipeline_parallel_size
    for i in range(2, layers % pipeline_parallel_size + 2):
        counts[-i] += 1
    found, start = [], 0
    for i, count in enumerate(counts):
        end = start + count + (drafts if i == pipeline_parallel_size - 1 else 0)
        found.append(range(start, end))
        start += count
    return tuple(found)


def bytes_per_block(groups: Sequence[Group], layers: range) -> int:
    """One block of the pool on a stage: the widest group's pages there."""
    return max((each.on(layers) for each in groups), default=0)
