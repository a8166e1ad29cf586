"""PyTorch's CUDA caching allocator in numbers: what a request for memory really takes.

Every request is rounded up to 512 bytes. Requests up to 1 MiB are cut from segments of 2 MiB, larger ones below 10 MiB
from segments of 20 MiB, and requests from 10 MiB on get a segment of their own, rounded up to 2 MiB. A block that is
taken from a larger free one is split from it; a rest of up to 1 MiB stays with a large block and counts as allocated.

Source: c10/core/AllocatorConfig.h of PyTorch 2.13 (kMinBlockSize, kSmallSize, kSmallBuffer, kLargeBuffer, kMinLargeAlloc,
kRoundLarge) and should_split in c10/cuda/CUDACachingAllocator.cpp.
"""

from __future__ import annotations

from collections.abc import Iterable

from planner.units import MIB, round_up

BLOCK_BYTES = 512
SMALL_BYTES = MIB
SMALL_SEGMENT = 2 * MIB
LARGE_SEGMENT = 20 * MIB
LARGE_BYTES = 10 * MIB
SEGMENT_STEP = 2 * MIB


def block_bytes(size: int) -> int:
    """The block for a request of `size` bytes: rounded up to 512."""
    return round_up(size, BLOCK_BYTES)


def largest_block_bytes(size: int, expandable: bool = False) -> int:
    """The most that a request of `size` bytes can count as: a large block may keep a rest of up to 1 MiB.

    With `expandable_segments:True` blocks are split down to 512 bytes, and there is no such rest.
    """
    block = block_bytes(size)
    return block if expandable or block <= SMALL_BYTES else block + SMALL_BYTES


def segment_bytes(size: int) -> int:
    """The segment that the driver is asked for when no free block holds `size` bytes."""
    block = block_bytes(size)
    if block <= SMALL_BYTES:
        return SMALL_SEGMENT
    return LARGE_SEGMENT if block < LARGE_BYTES else round_up(block, SEGMENT_STEP)


def allocated(sizes: Iterable[int]) -> int:
    """Blocks of some tensors, in bytes."""
    return sum(block_bytes(size) for size in sizes)


def reserved(sizes: Iterable[int]) -> int:
    """Segments that hold some tensors when each is asked for once, one after the other, and nothing was free.

    Small blocks fill segments of 2 MiB, medium ones segments of 20 MiB, each as far as a block still fits.
    """
    total, room = 0, {SMALL_SEGMENT: 0, LARGE_SEGMENT: 0}
    for size in sizes:
        block, segment = block_bytes(size), segment_bytes(size)
        if segment not in room or block >= LARGE_BYTES:
            total += segment
            continue
        if room[segment] < block:
            total, room[segment] = total + segment, segment
        room[segment] -= block
    return total
