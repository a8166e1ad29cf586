"""Several ranks, each with its part of the model and of the cache: `python -m validation MODEL --tensor-parallel N`.

transformers divides the model by its class's own tensor-parallel plan; each rank generates the same tokens and weighs the
cache that it holds, which is set beside the planner's bytes for one rank. On CUDA the ranks are GPUs (NCCL), on the CPU
processes (Gloo). Without `torchrun` the command starts it on itself.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from transformers.distributed.configuration_utils import DistributedConfig

from planner.engines import transformers
from planner.engines.transformers_ranks import on_rank
from planner.errors import EngineRefusal, InputError
from planner.model import Model
from validation.measure import Subject, layer_runs, subject
from validation.measure_build import Built, build
from validation.measure_facts import created, device_facts, versions
from validation.measure_generate import extra_positions, generate
from validation.progress import Progress
from validation.request import Request

SCHEMA_VERSION = 1


@dataclasses.dataclass(frozen=True)
class Ranks:
    """One point of the grid: what is predicted for each rank, and what each holds. layer: the first that differs on a rank."""

    batch: int
    tokens: int
    predicted_bytes: int
    measured_bytes: tuple[int, ...]
    whole_bytes: int
    layer: int | None

    @property
    def agrees(self) -> bool:
        return self.layer is None and set(self.measured_bytes) == {self.predicted_bytes}

    @property
    def text(self) -> str:
        held = ", ".join(f"{size:,}" for size in self.measured_bytes)
        where = "" if self.layer is None else f", first in layer {self.layer}"
        return (
            f"batch {self.batch}, {self.tokens:,} tokens: predicted {self.predicted_bytes:,} bytes a rank of {self.whole_bytes:,}"
            f" in all, measured {held}: {'agrees' if self.agrees else f'DIFFERS{where}'}"
        )


def main(wanted: Request, ranks: int, given: Sequence[str], progress: Progress) -> int:
    """Measures on each rank and returns the exit status, on every rank the same.

    given: the command line, for torchrun to repeat. Errors: InputError, EngineRefusal, HubError, before a process is started.
    """
    _check(wanted, ranks)
    found = subject(wanted)
    rank_model = on_rank(found.model, ranks)
    cuda = found.device.type == "cuda"
    if cuda and torch.cuda.device_count() < ranks:
        raise InputError(f"tensor_parallel is {ranks}, and there are {torch.cuda.device_count()} GPUs", field="tensor_parallel")
    if "RANK" not in os.environ:
        return _launch(given, ranks)
    if int(os.environ["WORLD_SIZE"]) != ranks:
        raise InputError(f"tensor_parallel is {ranks}, and torchrun started {os.environ['WORLD_SIZE']} processes",
                         field="tensor_parallel")  # fmt: skip
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    elif wanted.threads or ranks > 1:
        torch.set_num_threads(wanted.threads or max(1, (os.cpu_count() or 1) // ranks))
    dist.init_process_group("nccl" if cuda else "gloo")
    try:
        return _measured(wanted, found, rank_model, ranks, progress if dist.get_rank() == 0 else Progress("none"))
    finally:
        dist.destroy_process_group()


def _check(wanted: Request, ranks: int) -> None:
    if not 2 <= ranks <= 64:
        raise InputError(f"tensor_parallel is {ranks}; it must be from 2 to 64", field="tensor_parallel")
    if wanted.speed or wanted.find_limit or wanted.html:
        raise InputError("tensor_parallel measures the cache's bytes; leave out --speed, --find-limit and --html",
                         field="tensor_parallel")  # fmt: skip
    if wanted.weights != "random":
        raise InputError("tensor_parallel runs with random weights; no byte of the cache depends on them", field="weights")


def _launch(given: Sequence[str], ranks: int) -> int:
    """This command again under torchrun, whose own exit status is 1 for whatever a rank returned."""
    started = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "-m", "validation"]
    return subprocess.run([*started, *given], env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False).returncode


def _measured(wanted: Request, found: Subject, rank_model: Model, ranks: int, progress: Progress) -> int:
    grid = wanted.filled(found.device.type)
    cases = list(itertools.product(grid["batch"], grid["tokens"]))
    progress.start(f"{found.model.name}, {ranks} ranks", found.device.type, 1 + len(cases))
    built = divided(found, ranks)
    progress.step("build", f"{built.parameters[0]:,} parameters, divided by the class's plan")
    encoder = grid["encoder"][0] if built.encoder else 0
    points = []
    for batch, tokens in cases:
        point = measure_point(built, found, rank_model, (batch, tokens, grid["new"][0], encoder))
        points.append(point)
        progress.step("grid", f"batch {batch}, {tokens:,} tokens")
        progress.point(batch, tokens, point.predicted_bytes, max(point.measured_bytes), point.agrees)
    agrees = all(point.agrees for point in points)
    if dist.get_rank() == 0:
        _report(wanted, found, ranks, points, agrees)
    progress.finished(agrees, 0 if agrees else 1)
    return 0 if agrees else 1


def divided(found: Subject, ranks: int) -> Built:
    """The model with random weights, this rank's part of it by the class's own plan.

    EngineRefusal when the class has no plan, or its plan does not run.
    """
    untied = dataclasses.replace(found.model, config=_untied(found.model.config))  # the plan divides tied matrices apart
    built = build(untied, found.dtype, found.device)
    known = type(built.model)
    try:
        config, _, mesh = known.prepare_distribute_model(DistributedConfig(tp_size=ranks))
        return dataclasses.replace(built, model=known.maybe_distribute_model(built.model, config, mesh))
    except (ValueError, RuntimeError) as error:
        text = f"transformers does not divide {found.model.name} over {ranks} ranks: {str(error).splitlines()[0]}"
        raise EngineRefusal(text, engine="transformers") from None


def _untied(config: Mapping[str, Any]) -> dict[str, Any]:
    parts = {name: _untied(value) if isinstance(value, dict) else value for name, value in config.items()}
    return {**parts, "tie_word_embeddings": False}


def measure_point(built: Built, found: Subject, rank_model: Model, case: tuple[int, int, int, int]) -> Ranks:
    """Generates on every rank, and gathers what each holds."""
    batch, tokens, new, encoder = case
    prompt = tokens - new + 1
    cache = transformers.cache_bytes(rank_model, found.settings, tokens, batch, encoder, prompt)
    whole = transformers.cache_bytes(found.model, found.settings, tokens, batch, encoder, prompt)
    depth = len(found.model.layers)
    done = generate(built, found.settings, batch, prompt - extra_positions(built), new, encoder, depth=depth)
    differing = [run.first for run in layer_runs(cache, done.weighed) if run.predicted_bytes != run.measured_bytes]
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, (done.weighed.bytes, differing))
    layers = [layer for _, others in gathered for layer in others]
    held = tuple(size for size, _ in gathered)
    return Ranks(batch, tokens, cache.total_bytes, held, whole.total_bytes, min(layers, default=None))


def _report(wanted: Request, found: Subject, ranks: int, points: Sequence[Ranks], agrees: bool) -> None:
    if wanted.json:
        text = json.dumps(
            {
                "schema_version": SCHEMA_VERSION, "kind": "tensor_parallel", "created": created(), "ranks": ranks,
                "model": found.model.name, "model_type": found.model.model_type, "source": str(found.whole.source),
                "layers": len(found.model.layers), "dtype": found.dtype, "cache": found.settings.cache_implementation,
                "device": dataclasses.asdict(device_facts(found.device)), "versions": versions(), "agrees": agrees,
                "points": [dataclasses.asdict(point) for point in points],
            },
            indent=1,
        )  # fmt: skip
        if wanted.json == "-":
            print(text)
        else:
            Path(wanted.json).expanduser().write_text(text + "\n", "utf-8")
    if wanted.json != "-":
        cache = found.settings.cache_implementation
        print(f"{found.model.name}: {ranks} ranks on {found.device.type}, {found.dtype}, {cache} cache")
        for point in points:
            print(f"  {point.text}")
