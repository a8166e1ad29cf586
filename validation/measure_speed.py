"""What the cache buys on this machine: the same greedy generation with and without it, time to the first token, time of a
later token, and the bytes of a quantized cache.

Seconds are of the wall clock, after a warm-up, the device synchronised. Without a cache every step computes all positions
again, so a length is skipped when the last one foretells more than `LONGEST_S` seconds for it; what was skipped is said.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from planner.engines import transformers
from planner.errors import EngineRefusal, InputError
from planner.model import Model
from validation.compare_parts import QuantizedBytes, Speed, SpeedPoint, Timing
from validation.measure_build import Built, quietly
from validation.measure_generate import check_cache, extra_positions, generate, generation, inputs
from validation.progress import Progress

#: New tokens at which both are measured, and lengths of the prompt and of the cache for the two curves.
LENGTHS = {"cuda": (16, 64, 256, 1024, 2048), "cpu": (16, 64, 256)}
CURVES = {"cuda": (128, 512, 2048, 8192, 32768), "cpu": (16, 64, 256, 512)}
PROMPT = 16
LATER = 8
LONGEST_S = 60.0
_BACKENDS: tuple[dict[str, Any], ...] = ({"backend": "fp8"}, {"backend": "quanto", "nbits": 4}, {"backend": "hqq", "nbits": 4})


def steps(lengths: tuple[int, ...]) -> int:
    """How many steps of progress the curves are."""
    return len(lengths) + 2


def curves(
    built: Built, model: Model, settings: transformers.Settings, lengths: tuple[int, ...], progress: Progress
) -> Speed:
    """Measures the curves with one request."""
    device = built.model.device
    kind = "cuda" if device.type == "cuda" else "cpu"
    notes: list[str] = []
    points: list[SpeedPoint] = []
    last = 0.0
    timed(built, settings, PROMPT, 4)
    timed(built, None, PROMPT, 4)
    for new in sorted(lengths):
        foretold = last * (new / points[-1].new_tokens) ** 2 if points else 0.0
        skip = foretold > LONGEST_S
        points.append(both(built, settings, PROMPT, new, skip))
        last = points[-1].uncached_s or foretold
        if skip:
            notes.append(f"{new:,} new tokens without a cache were not run: some {foretold:,.0f} s were foretold.")
        progress.step("speed", f"{new:,} new tokens")
    prompts = [tokens for tokens in CURVES[kind] if model.max_context is None or tokens + LATER <= model.max_context]
    first, later = [], []
    for tokens in prompts:
        to_first = min(timed(built, settings, tokens, 1)[0] for _ in range(2))
        more = min(timed(built, settings, tokens, 1 + LATER)[0] for _ in range(2))
        first.append(Timing(tokens, to_first))
        later.append(Timing(tokens, max(0.0, more - to_first) / LATER))
    progress.step("speed", "first and later tokens")
    quantized = quantized_bytes(built, model, settings.dtype, max(prompts, default=PROMPT), notes)
    progress.step("speed", "quantized caches")
    return Speed(1, tuple(points), tuple(first), tuple(later), quantized, tuple(notes))


def timed(built: Built, settings: transformers.Settings | None, prompt: int, new: int, logits: bool = False) -> tuple[float, Any]:
    """Seconds of one generation of one request, and its outputs; without settings there is no cache."""
    model = built.model
    given = inputs(built, 1, prompt, PROMPT, model.device)
    model._previous_max_cache_length = -1
    wanted = generation(new, settings, output_logits=logits)
    with quietly(), torch.no_grad():
        _wait(model.device)
        started = time.perf_counter()
        outputs = model.generate(**given, generation_config=wanted)
        _wait(model.device)
        return time.perf_counter() - started, outputs


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def both(built: Built, settings: transformers.Settings, prompt: int, new: int, skip: bool) -> SpeedPoint:
    """The same generation with the cache and, unless it is skipped, without; where their tokens part, and by how little."""
    cached_s, cached = timed(built, settings, prompt, new)
    if skip:
        return SpeedPoint(prompt, new, cached_s, None, None, None, None)
    uncached_s, uncached = timed(built, None, prompt, new)
    ours, theirs = cached.sequences[0, -new:].tolist(), uncached.sequences[0, -new:].tolist()
    if ours == theirs:
        return SpeedPoint(prompt, new, cached_s, uncached_s, True, None, None)
    where = next(i for i, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1])
    logits = timed(built, settings, prompt, where + 1, logits=True)[1].logits[where][0]
    gap = abs(float(logits[ours[where]] - logits[theirs[where]]))
    return SpeedPoint(prompt, new, cached_s, uncached_s, False, where, gap)


def quantized_bytes(built: Built, model: Model, dtype: str, tokens: int, notes: list[str]) -> tuple[QuantizedBytes, ...]:
    """Each quantized backend that runs here, weighed after real generation."""
    found = []
    prompt, new = tokens - 7, 8
    own: dict[str, Any] = {"dtype": dtype}
    full = transformers.cache_bytes(model, transformers.Settings(**own), tokens, 1, prompt_tokens=prompt).total_bytes
    for backend in _BACKENDS if not built.encoder else ():
        settings = transformers.Settings(cache_implementation="quantized", **own, **backend)
        try:
            check_cache(settings, built.model.device)
            ours = transformers.cache_bytes(model, settings, tokens, 1, prompt_tokens=prompt).total_bytes
            done = generate(built, settings, 1, prompt - extra_positions(built), new, depth=len(model.layers))
        except (EngineRefusal, InputError) as error:
            notes.append(f"{backend['backend']}: {error.message}")
            continue
        except (ValueError, NotImplementedError, ImportError, RuntimeError) as error:
            notes.append(f"{backend['backend']}: transformers does not run it here: {str(error).splitlines()[0]}"[:300])
            continue
        found.append(QuantizedBytes(backend["backend"], int(backend.get("nbits", 8)), tokens, ours, done.weighed.bytes, full))
    return tuple(found)
