"""How many tokens an audio of some seconds becomes: samples, mel frames, and what the encoder makes of them."""

from __future__ import annotations

import math

from model_configs.media_images import Count, Numbers
from planner.units import ceil_div

#: Samples a second and samples between mel frames of every family here.
RATE, HOP = 16_000, 160


def samples(seconds: float) -> int:
    return math.ceil(round(seconds * RATE, 3))


def per_item(n: Numbers, seconds: float) -> Count:
    """The same tokens whatever the length."""
    return Count.of(n["tokens"], f"{n['tokens']} an audio")


def mel(n: Numbers, seconds: float) -> Count:
    """tokens = ((frames - 1) // 2 + 1 - pool) // pool + 1, frames = ceil(samples / 160), at most `window` seconds."""
    frames = min(ceil_div(samples(seconds), HOP), int(n["window"] * RATE // HOP))
    count = max(0, ((frames - 1) // 2 + 1 - n["pool"]) // n["pool"] + 1)
    return Count.of(count, f"{frames} mel frames, by 2 and by {n['pool']} = {count}")


def mel_most(n: Numbers) -> int:
    return mel(n, n["window"]).embeddings


def chunked_mel(n: Numbers, seconds: float) -> Count:
    """tokens = per_chunk x whole chunks + three convolutions of stride 2 over the rest, of samples // 160 mel frames."""
    chunks, rest = divmod(samples(seconds) // HOP, n["chunk"])
    left = rest
    for _ in range(3):
        left = (left - 1) // 2 + 1
    count = chunks * n["per_chunk"] + left
    return Count.of(count, f"{chunks} chunks x {n['per_chunk']} + {left} = {count}")


def semicausal_mel(n: Numbers, seconds: float) -> Count:
    """tokens = mel frames halved twice, rounded up, frames = (samples + frame / 2 - frame - 1) // 160 + 1, at most `most`."""
    frame = n["frame"]
    frames = max(0, (samples(seconds) + frame // 2 - frame - 1) // HOP + 1)
    count = min(ceil_div(ceil_div(frames, 2), 2), n["most"])
    return Count.of(count, f"{frames} mel frames by 4 = {count}, at most {n['most']}")


def most_word(n: Numbers) -> int:
    return int(n["most"])


def conformer(n: Numbers, seconds: float) -> Count:
    """tokens = ceil(ceil(frames / compress) / down), frames = (samples - win) // 160 + 1."""
    frames = max(0, (samples(seconds) - n["win"]) // HOP + 1)
    count = ceil_div(ceil_div(frames, n["compress"]), n["down"])
    return Count.of(count, f"{frames} mel frames by {n['compress'] * n['down']} = {count}")


def projected(n: Numbers, seconds: float) -> Count:
    """tokens = ceil((samples // 160 + 1) // 2 / window) x (window // down)."""
    frames = (samples(seconds) // HOP + 1) // 2
    blocks, each = ceil_div(frames, n["window"]), n["window"] // n["down"]
    return Count.of(blocks * each, f"{blocks} windows of {n['window']} frames x {each} = {blocks * each}")


def padded_windows(n: Numbers, seconds: float) -> Count:
    """tokens = each x ceil(seconds / window): audio is padded to whole windows."""
    count = max(1, math.ceil(seconds / n["seconds"]))
    return Count.of(count * n["each"], f"{count} windows of {n['seconds']} s x {n['each']} = {count * n['each']}")


def stacked_windows(n: Numbers, seconds: float) -> Count:
    """tokens = ceil(frames / (2 x stack)) for each window, frames = ceil(samples / 160)."""
    whole, rest = divmod(ceil_div(samples(seconds), HOP), n["seconds"] * RATE // HOP)
    by = 2 * n["stack"]
    count = whole * ceil_div(n["seconds"] * RATE // HOP, by) + ceil_div(rest, by)
    return Count.of(max(1, count), f"{whole} windows of {n['seconds']} s and {rest} mel frames by {by} = {count}")


def encoder_window(n: Numbers, seconds: float) -> Count:
    """positions = all that the encoder has, for every window: a shorter one is padded, further ones come one after another."""
    windows = max(1, math.ceil(seconds / n["seconds"]))
    text = f"{n['positions']} positions of a window of {n['seconds']} s"
    return Count.of(n["positions"], text + (f"; {windows} windows, one after another" if windows > 1 else ""))


def encoder_most(n: Numbers) -> int:
    return int(n["positions"])
