"""Runs what a request asks for: builds the model, generates at each point of the grid, and weighs what is held."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

import model_configs
from planner.cache import CacheBytes, LayerBytes
from planner.engines import transformers
from planner.errors import EngineRefusal, InputError
from planner.model import Model
from planner.units import format_bytes
from validation import measure_limit, measure_speed
from validation.compare import SCHEMA_VERSION, Report
from validation.compare_parts import LayerRun, Measured, ModelFacts, Point, RunFacts
from validation.cut import cut
from validation.measure_build import Built, build, device_of
from validation.measure_cache import Weighed, Weight
from validation.measure_facts import available_bytes, created, device_facts, versions
from validation.measure_generate import Generated, check_cache, extra_positions, generate
from validation.measure_memory import expandable_segments
from validation.predict import Case, predict
from validation.progress import Progress
from validation.request import Request


@dataclass(frozen=True)
class Subject:
    """What is measured: the described model (cut, where it was asked), the whole one, and how it generates."""

    model: Model
    whole: Model
    settings: transformers.Settings
    dtype: str
    device: torch.device


def subject(request: Request) -> Subject:
    """Reads and cuts the model, and refuses early what cannot run here.

    Errors: InputError (no such device, weights that do not fit, a cache that cannot run), EngineRefusal, HubError.
    """
    device = device_of(request.device)
    whole = model_configs.read(request.model, request.revision, request.token)
    model = whole if request.layers in (None, len(whole.layers)) else cut(whole, request.layers or 0)
    dtype = whole.dtype if request.dtype == "auto" else request.dtype
    if dtype == "float64":
        raise InputError("the config's dtype is float64; say --dtype float32", field="dtype")
    settings = transformers.Settings(**{"dtype": dtype, **request.settings})
    check_cache(settings, device)
    grid = request.filled(device.type)
    for tokens in grid["tokens"]:  # what transformers refuses is said before the weights are made
        encoder = grid["encoder"][0] if _crosses(model) else 0
        transformers.cache_bytes(model, settings, tokens, grid["batch"][0], encoder, tokens - grid["new"][0] + 1)
    _check_room(model, dtype, device)
    return Subject(model, whole, settings, dtype, device)


def _crosses(model: Model) -> bool:
    return any(cache.kind == "cross" for layer in model.layers for cache in layer.caches)


def _check_room(model: Model, dtype: str, device: torch.device) -> None:
    """Weights that do not fit end a process on the CPU without a word; they are refused before they are made."""
    if model.params is None:
        return
    needed, room = model.params * getattr(torch, dtype).itemsize, available_bytes(device)
    if room is not None and needed > room:
        fits = len(model.layers) * room // needed
        raise InputError(
            f"the weights of {model.name} take {format_bytes(needed)} in {dtype}, and {format_bytes(room)} are free;"
            f" cut it with --layers, to {max(fits * 3 // 4, 1)} or so",
            field="layers",
        )


def run(request: Request, progress: Progress) -> Iterator[Report]:
    """Yields the report after each point and each further part of the run; the last one is whole."""
    if request.threads:
        torch.set_num_threads(request.threads)
    found = subject(request)
    grid = request.filled(found.device.type)
    cases = list(itertools.product(grid["batch"], grid["tokens"]))
    lengths = request.speed_lengths or measure_speed.LENGTHS[found.device.type]
    steps = 1 + len(cases) + (measure_speed.steps(lengths) if request.speed else 0) + 8 * bool(request.find_limit)
    progress.start(found.model.name, found.device.type, steps)
    built = build(found.model, found.dtype, found.device, request.weights, request.revision, request.token)
    encoder = grid["encoder"][0] if built.encoder else 0
    _warm_up(built, found, grid["new"][0], encoder)
    progress.step("build", f"{built.parameters[0]:,} parameters")
    report = _opened(request, found, built)
    for batch, tokens in cases:
        case = Case(
            batch, tokens, grid["new"][0], encoder, attention=_attention(built), expandable=expandable_segments(found.device)
        )
        point = measure_point(built, found, case)
        report = replace(report, points=(*report.points, point))
        progress.step("grid", f"batch {batch}, {tokens:,} tokens")
        same = point.predicted.tensor_bytes == point.measured.tensor_bytes
        progress.point(batch, tokens, point.predicted.tensor_bytes, point.measured.tensor_bytes, same)
        yield report
    if request.speed:
        speed = measure_speed.curves(built, found.model, found.settings, lengths, progress)
        report = replace(report, speed=speed)
        yield report
    if request.find_limit:
        prompt = Case(grid["batch"][0], grid["tokens"][0], grid["new"][0], encoder, attention=_attention(built))
        if found.device.type == "cpu":  # the limit is set on a child process, which builds the model for itself
            del built
            gc.collect()
            frontier = measure_limit.on_cpu(request, found.model, found.settings, prompt, progress)
        else:
            frontier = measure_limit.on_cuda(request, built, found.model, found.settings, prompt, progress)
        report = replace(report, frontier=frontier)
    yield replace(report, partial=False)


def _attention(built: Built) -> str:
    return str(getattr(built.model.config, "_attn_implementation", None) or "eager")


def _warm_up(built: Built, found: Subject, new: int, encoder: int) -> None:
    """A first short generation takes what stays for ever, such as the workspaces of matrix kernels.

    A class that cannot generate here at all says so in many ways; EngineRefusal carries its words.
    """
    try:
        generate(built, found.settings, 1, new + 1 + extra_positions(built), new, encoder, depth=len(found.model.layers))
    except (ValueError, NotImplementedError, LookupError, TypeError, AttributeError, RuntimeError, AssertionError) as error:
        text = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        cache = found.settings.cache_implementation
        raise EngineRefusal(
            f"transformers does not generate with a {cache} cache of {found.model.name} here ({text})", engine="transformers"
        ) from None


def _opened(request: Request, found: Subject, built: Built) -> Report:
    """The report before its first point."""
    model, whole = found.model, found.whole
    parameters, weight_bytes = built.parameters
    return Report(
        schema_version=SCHEMA_VERSION,
        created=created(),
        model=ModelFacts(
            name=model.name, model_type=model.model_type, source=str(whole.source), commit=whole.source.commit,
            layers=len(model.layers), full_layers=len(whole.layers), kinds=dict(model.kinds), parameters=parameters,
            parameter_bytes=weight_bytes,
            predicted_parameter_bytes=None if model.params is None else model.params * getattr(torch, found.dtype).itemsize,
        ),
        run=RunFacts(
            cache=found.settings.cache_implementation,
            cache_config={k: str(v) for k, v in request.settings.items() if k != "cache_implementation"},
            dtype=found.dtype, weights=request.weights if request.weights in ("random", "hub") else "folder",
            attention=_attention(built),
        ),
        device=device_facts(found.device),
        versions=versions(),
        notes=(*built.notes, *model.notes),
        partial=True,
    )  # fmt: skip


def measure_point(built: Built, found: Subject, case: Case) -> Point:
    """Generates at one point, and sets what was found beside what was predicted."""
    predicted = predict(found.model, found.settings, case, found.whole)
    prompt = case.prompt - extra_positions(built)
    if prompt < 1:
        raise InputError(
            f"grid: {case.tokens} tokens leave no prompt; {found.model.name} keeps {extra_positions(built)} positions of its own",
            field="grid",
        )
    done = generate(built, found.settings, case.batch, prompt, case.new, case.encoder, case.chunk, len(found.model.layers))
    cache = transformers.cache_bytes(found.model, found.settings, case.tokens, case.batch, case.encoder, case.prompt)
    point = Point(
        batch=case.batch, tokens=case.tokens, prompt_tokens=prompt, new_tokens=case.new, encoder_tokens=case.encoder,
        positions=done.weighed.positions, predicted=predicted, measured=measured(done),
        layers=layer_runs(cache, done.weighed), seconds=done.seconds,
    )  # fmt: skip
    del done
    gc.collect()
    return point


def measured(done: Generated) -> Measured:
    """The figures of a generation, as a report has them."""
    reading, weighed = done.reading, done.weighed
    return Measured(
        tensor_bytes=weighed.bytes,
        storage_bytes=weighed.storage_bytes,
        before_bytes=reading.before,
        allocated_bytes=max(0, reading.after - reading.before),
        requested_bytes=reading.requested,
        prefill_peak_bytes=max(0, reading.prefill_peak - reading.before),
        decode_peak_bytes=max(0, reading.decode_peak - reading.before),
        reserved_bytes=reading.reserved,
        driver_bytes=reading.driver,
        resident_bytes=reading.resident,
    )


def layer_runs(cache: CacheBytes, weighed: Weighed) -> tuple[LayerRun, ...]:
    """Each layer's bytes side by side, equal neighbours as one; empty where one store serves all layers."""
    theirs = list(weighed.layers)
    if len(theirs) == 1 < len(cache.layers):
        return ()
    while len(theirs) > len(cache.layers) and not theirs[-1].bytes:  # classes sized for a deeper encoder
        theirs.pop()
    rows = [_row(i, ours, other) for i, (ours, other) in enumerate(itertools.zip_longest(cache.layers, theirs))]
    runs: list[LayerRun] = []
    for row in rows:
        if runs and replace(runs[-1], first=row.first, count=1) == row:
            runs[-1] = replace(runs[-1], count=runs[-1].count + 1)
        else:
            runs.append(row)
    return tuple(runs)


def _row(index: int, ours: LayerBytes | None, theirs: Weight | None) -> LayerRun:
    return LayerRun(
        first=index, count=1, kind=ours.kind if ours else "none", cls=theirs.kind if theirs else "none",
        predicted_bytes=ours.bytes if ours else 0, measured_bytes=theirs.bytes if theirs else 0,
        predicted_storage_bytes=ours.storage_bytes if ours else 0, measured_storage_bytes=theirs.storage_bytes if theirs else 0,
    )  # fmt: skip


