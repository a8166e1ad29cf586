"""Every architecture that transformers ships, tiny and random, generating with its cache: `python -m validation sweep`.

Each type is built from its class's own default config (measure_tiny.py), generates at two points through transformers' own
`generate`, and its cache is weighed layer by layer beside the prediction. Types run in child processes: one that does not
come back in time, or takes its process with it, is a row of its own and not the end of the sweep.

Exit status: 0 every type that generated agrees, 1 one does not, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

import model_configs
from planner.engines import transformers
from planner.errors import InputError, PlannerError
from planner.model import Model
from validation import coverage_sweep, documents, measure_tiny
from validation.coverage_sweep import Point, Row
from validation.measure import layer_runs
from validation.measure_build import Built, build
from validation.measure_facts import created, versions
from validation.measure_generate import extra_positions, generate
from validation.progress import FORMS, Progress

#: (requests, positions held, new tokens, encoder positions): below and above every tiny window, primes throughout, so that a
#: wrong count of anything shows.
POINTS = ((1, 11, 3, 7), (2, 37, 4, 13))
_CPU = torch.device("cpu")


def measure(model_type: str) -> Row:
    """Builds a type, generates and compares. Never raises for what transformers or the reader refuse: the row says it."""
    mapping = measure_tiny.types()[model_type]
    try:
        config = measure_tiny.tiny(model_type).to_dict()
    except Exception as error:  # whatever a configuration class raises
        return Row(model_type, mapping, "not run", reason=measure_tiny.cannot(model_type) or _text(error))
    try:
        model = model_configs.read(json.loads(json.dumps(config, default=str)))
    except PlannerError as error:
        return Row(model_type, mapping, "refused", reason=measure_tiny.cannot(model_type) or error.message)
    failed = ""
    for dtype in ("bfloat16", "float32"):  # some old classes mix in float32
        try:
            return _compared(model_type, mapping, model, build(model, dtype, _CPU), dtype)
        except Exception as error:  # whatever a model class raises
            failed = failed or _text(error)
    return Row(model_type, mapping, "not run", reason=measure_tiny.cannot(model_type) or failed)


def _compared(model_type: str, mapping: str, model: Model, built: Built, dtype: str) -> Row:
    settings = transformers.Settings(dtype=dtype)  # type: ignore[arg-type]
    points, differing = [], []
    for requests, tokens, new, encoder in POINTS:
        encoder = encoder if built.encoder else 0
        prompt = tokens - new + 1
        cache = transformers.cache_bytes(model, settings, tokens, requests, encoder, prompt)
        done = generate(built, settings, requests, prompt - extra_positions(built), new, encoder, depth=len(model.layers))
        points.append(Point(requests, tokens, encoder, cache.total_bytes, done.weighed.bytes))
        runs = layer_runs(cache, done.weighed)
        differing += [run.first for run in runs if run.predicted_bytes != run.measured_bytes]
    return Row(
        model_type, mapping, "differs" if differing or any(p.predicted != p.measured for p in points) else "equal",
        cls=type(built.model).__name__, dtype=dtype, kinds=dict(model.kinds), points=tuple(points),
        layer=min(differing, default=None), by_layer=bool(runs),
    )  # fmt: skip


def _text(error: Exception) -> str:
    """The first line that says something, without the paths of this machine."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[-1] if type(error).__name__.startswith("StrictDataclass") and lines else (lines or [""])[0]
    return f"{type(error).__name__}: {text}"[:200].strip(": ")


def _child(pipe: Connection) -> None:
    """Measures the types that come through the pipe until it closes."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with open(os.devnull, "w") as nowhere:  # classes print advice about kernels and special tokens
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    while True:
        try:
            model_type = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        pipe.send(measure(model_type))


@dataclass
class _Worker:
    """A child process and what it is at."""

    process: BaseProcess
    pipe: Connection
    model_type: str = ""
    deadline: float = field(default=float("inf"))

    @classmethod
    def started(cls) -> _Worker:
        spawn = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=_child, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours)

    def give(self, model_type: str, timeout: float) -> None:
        self.model_type, self.deadline = model_type, time.monotonic() + timeout
        self.pipe.send(model_type)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def sweep(types: Sequence[str], jobs: int, timeout: float) -> Iterator[Row]:
    """Rows of the types as they finish, `jobs` at a time; a type has `timeout` seconds, its class's first import included."""
    waiting = list(reversed(types))
    workers = [_Worker.started() for _ in range(min(jobs, len(waiting)))]
    try:
        for worker in workers:
            worker.give(waiting.pop(), timeout)
        while busy := [worker for worker in workers if worker.model_type]:
            first = min(worker.deadline for worker in busy)
            ready = wait([worker.pipe for worker in busy], max(0.0, first - time.monotonic()))
            for worker in busy:
                if worker.pipe not in ready and time.monotonic() < worker.deadline:
                    continue
                row, alive = _received(worker, worker.pipe in ready, timeout)
                if not alive:
                    worker.end()
                    workers[workers.index(worker)] = worker = _Worker.started() if waiting else worker
                worker.model_type = ""
                if waiting:
                    worker.give(waiting.pop(), timeout)
                yield row
    finally:
        for worker in workers:
            if not worker.pipe.closed:
                worker.end()


def _received(worker: _Worker, ready: bool, timeout: float) -> tuple[Row, bool]:
    """What a worker has to say, and whether it can go on."""
    mapping = measure_tiny.types()[worker.model_type]
    if not ready:
        return Row(worker.model_type, mapping, "timed out", reason=f"no answer in {timeout:g} s"), False
    try:
        row: Row = worker.pipe.recv()
    except EOFError:
        worker.process.join(10)
        reason = f"its process ended with status {worker.process.exitcode}"
        return Row(worker.model_type, mapping, "not run", reason=reason), False
    return row, True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m validation sweep", description="Generate with every architecture and compare every byte of the cache."
    )
    add = parser.add_argument
    add("--types", metavar="A,B", help="only these model types")
    add("--resume", metavar="FILE", help="keep finished types in FILE, a line each, and go on where it ends")
    add("--timeout", type=float, default=120.0, metavar="S", help="seconds for one type (default 120)")
    add("--jobs", type=int, default=min(4, os.cpu_count() or 1), metavar="N", help="processes at once")
    add("--json", metavar="FILE", help="write all rows as JSON (- for standard output)")
    add("--write", action="store_true", help="keep the rows in validation/results and rewrite docs/COVERAGE.md and README.md")
    add("--progress", choices=FORMS, default="text", help="progress on stderr")
    return parser


def main(argv: Sequence[str]) -> int:
    """Runs the sweep and returns its exit status. Errors: InputError."""
    arguments = _parser().parse_args(argv)
    known = measure_tiny.types()
    wanted = [word.strip() for word in arguments.types.split(",")] if arguments.types else list(known)
    if unknown := sorted(set(wanted) - set(known)):
        raise InputError(f"types: transformers ships no generating class for {', '.join(unknown)}", field="types")
    if arguments.timeout <= 0 or arguments.jobs < 1:
        raise InputError("timeout must be above 0 seconds, and jobs at least 1", field="timeout")
    found = _kept(arguments.resume)
    rows = {name: found[name] for name in wanted if name in found}
    progress = Progress(arguments.progress)
    progress.start(f"{len(wanted)} model types", "cpu", len(wanted) - len(rows))
    try:
        for row in sweep([name for name in wanted if name not in rows], arguments.jobs, arguments.timeout):
            rows[row.type] = row
            progress.step(row.type, row.text)
            if arguments.resume:
                with Path(arguments.resume).open("a", encoding="utf-8") as lines:
                    print(coverage_sweep.dump(row), file=lines)
    except KeyboardInterrupt:
        progress.failed("interrupted; --resume goes on where it ended", 130)
        return 130
    result = coverage_sweep.Sweep(created()[:10], versions(), tuple(rows[name] for name in sorted(rows)))
    _report(arguments, result)
    agrees = not result.of("differs")
    progress.finished(agrees, 0 if agrees else 1)
    return 0 if agrees else 1


def _kept(path: str | None) -> dict[str, Row]:
    """The rows of a file that an earlier run left; its last line may be cut off. Errors: InputError."""
    if not path or not Path(path).exists():
        return {}
    found = {}
    for number, line in enumerate(Path(path).read_text("utf-8").splitlines()):
        try:
            row = coverage_sweep.load(line)
        except (ValueError, TypeError, KeyError):
            if number == 0:
                raise InputError(f"resume: {path} is not a file of this sweep", field="resume") from None
            continue
        found[row.type] = row
    return found


def _report(arguments: argparse.Namespace, result: coverage_sweep.Sweep) -> None:
    if arguments.write:
        kept = coverage_sweep.read() if arguments.types and coverage_sweep.RESULTS.exists() else None
        coverage_sweep.write(result.over(kept))
        documents.rewrite("sweep", coverage_sweep.read())
    if arguments.json:
        text = json.dumps(coverage_sweep.as_json(result), indent=1)
        if arguments.json == "-":
            print(text)
        else:
            Path(arguments.json).write_text(text, "utf-8")
    if arguments.json != "-":
        print(coverage_sweep.summary(result))
        for row in result.rows:
            if row.status != "equal":
                print(f"{row.type}: {row.text}")
