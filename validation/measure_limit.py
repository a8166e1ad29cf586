"""The frontier: the most tokens, or requests, that really generate within a limit of memory, beside the planner's.

The prompt goes through in chunks, so that the cache and not the activations meets the limit. On CUDA PyTorch's allocator
enforces it (`set_per_process_memory_fraction`). On the CPU the system does: a child process that has built and warmed up
the model lowers its own RLIMIT_AS to what it has mapped plus the limit, and an allocation beyond that really fails. The
child's C library maps each block of 64 KiB or more on its own, so that freed tensors go back at once and the address space
follows the live tensors. Should a failure end the child, the next attempt gets a new one.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from planner.engines import transformers
from planner.errors import InputError
from planner.model import Model
from planner.units import MIB, format_bytes
from validation.compare_parts import Attempt, Frontier
from validation.measure_build import Built, build
from validation.measure_generate import generate
from validation.measure_memory import status_bytes
from validation.predict import Case, largest
from validation.progress import Progress
from validation.request import Request

#: Prompt tokens processed at once.
CHUNKS = {"cuda": 512, "cpu": 256}
#: The memory on the CPU where none is said: far above a page, and met by a small model in seconds.
CPU_LIMIT = 64 * MIB
#: The search ends when the gap is this share of the predicted frontier.
_STEP = 25
_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "bad_alloc", "could not create a primitive",
                  "could not create a memory", "cannot allocate memory", "alloc_cpu")  # fmt: skip
#: Blocks from this size on are mapped on their own, and given back when freed.
_MAPPED_BYTES = 65536

#: One attempt: did it run, its peak above what was there before, and the error that ended it.
Try = Callable[[int], tuple[bool, int | None, str | None]]


def ran_out(error: BaseException) -> bool:
    """Whether an error says that memory ran out, and nothing else."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in _OUT_OF_MEMORY)


def search(
    attempt: Try, predicted: int, smallest: int, what: Any, other: int, limit: int, how: str, chunk: int, progress: Progress
) -> Frontier:
    """Raises the value until memory runs out, then halves the gap; the smallest runs again at the end, to show recovery.

    Errors: InputError when not even the smallest runs.
    """
    attempts: list[Attempt] = []
    word = "tokens" if what == "tokens" else "requests"

    def tried(value: int) -> bool:
        started = time.perf_counter()
        ran, peak, error = attempt(value)
        attempts.append(Attempt(value, ran, peak, time.perf_counter() - started, error))
        progress.step("frontier", f"{value:,} {word} {'ran' if ran else 'did not fit'}")
        return ran

    if not tried(smallest):
        raise InputError(
            f"not even {smallest:,} {word} run within {format_bytes(limit)}: {attempts[-1].error}; say a larger --limit",
            field="limit",
        )
    step = max(1, predicted // _STEP)
    low, high = smallest, max(predicted * 9 // 10, smallest + step)
    while tried(high):
        low, high = high, high + max(step, high // 5)
    while high - low > step:
        middle = (low + high) // 2
        low, high = (middle, high) if tried(middle) else (low, middle)
    recovered = tried(smallest)
    return Frontier(what, other, limit, how, chunk, step, predicted, low, recovered, tuple(attempts))


def on_cuda(
    request: Request, built: Built, model: Model, settings: transformers.Settings, case: Case, progress: Progress
) -> Frontier:
    """The frontier of the device, or of the first `--limit` bytes of it."""
    device, what = built.model.device, request.find_limit
    gc.collect()
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    before = torch.cuda.memory_allocated(device)
    ours = free + torch.cuda.memory_reserved(device)
    allowed = min(request.limit or ours, ours)
    case = replace(case, chunk=CHUNKS["cuda"])
    limit = allowed - before
    if limit <= 0:
        raise InputError(f"the weights alone take {format_bytes(before)}; say a larger --limit", field="limit")
    torch.cuda.set_per_process_memory_fraction(allowed / total, device)
    try:
        return search(
            _try(built, settings, case, what), largest(model, settings, case, limit, str(what)), _smallest(case, what),
            what, _other(case, what), limit, f"set_per_process_memory_fraction, {allowed / total:.4f} of the device",
            CHUNKS["cuda"], progress,
        )  # fmt: skip
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, device)


def _smallest(case: Case, what: str | None) -> int:
    return case.new + 1 if what == "tokens" else 1


def _other(case: Case, what: str | None) -> int:
    return case.batch if what == "tokens" else case.tokens


def _try(built: Built, settings: transformers.Settings, case: Case, what: str | None) -> Try:
    """Generates once with one value changed; out of memory is an answer, and leaves the device as it was."""

    def attempt(value: int) -> tuple[bool, int | None, str | None]:
        wanted = replace(case, tokens=value) if what == "tokens" else replace(case, batch=value)
        failed = None
        try:
            cuda = built.model.device.type == "cuda"
            reading = generate(
                built, settings, wanted.batch, wanted.prompt, wanted.new, wanted.encoder, wanted.chunk, metered=cuda
            ).reading
            return True, max(reading.prefill_peak, reading.decode_peak) - reading.before if cuda else None, None
        except (RuntimeError, MemoryError) as error:
            if not ran_out(error):
                raise
            failed = str(error).splitlines()[0][:300]
        finally:
            # The failed step's tensors hang on the error's frames, which are gone only here.
            gc.collect()
            if built.model.device.type == "cuda":
                torch.cuda.empty_cache()
        return False, None, failed

    return attempt


class Child:
    """A process that has the model and tries one value after the other under its own limit."""

    def __init__(self, request: Request, case: Case) -> None:
        request = replace(request, device="cpu")
        self._order = json.dumps({"request": dataclasses.asdict(request), "case": dataclasses.asdict(case)})
        self._process: subprocess.Popen[str] | None = None

    def attempt(self, value: int) -> tuple[bool, int | None, str | None]:
        try:
            if self._process is None:
                self._start()
            reply = self._ask(str(value))
        except EOFError:
            self.close()
            return False, None, "the process ended when its memory ran out"
        if reply.get("error") == "other":
            raise InputError(f"transformers failed at {value:,}: {reply['text']}", field="model")
        return reply["ran"], reply["peak"], reply["text"]

    def _start(self) -> None:
        environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(_MAPPED_BYTES), "MALLOC_ARENA_MAX": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "validation.measure_limit"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment,
        )  # fmt: skip
        ready = self._ask(self._order)
        if "ready" not in ready:
            raise InputError(f"the frontier's process could not build the model: {ready.get('text')}", field="model")

    def _ask(self, line: str) -> dict[str, Any]:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise EOFError
        try:
            print(line, file=process.stdin, flush=True)
        except BrokenPipeError:
            raise EOFError from None
        answer = process.stdout.readline()
        if not answer:
            raise EOFError
        found: dict[str, Any] = json.loads(answer)
        return found

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def on_cpu(request: Request, model: Model, settings: transformers.Settings, case: Case, progress: Progress) -> Frontier:
    """The frontier within `--limit` bytes above the weights, in a child process under RLIMIT_AS."""
    if sys.platform != "linux":
        raise InputError("the frontier on the CPU needs Linux, whose address space limit is kept", field="find_limit")
    what, limit = request.find_limit, request.limit or CPU_LIMIT
    case = replace(case, chunk=CHUNKS["cpu"])
    child = Child(replace(request, limit=limit), case)
    try:
        return search(
            child.attempt, largest(model, settings, case, limit, str(what)), _smallest(case, what), what, _other(case, what),
            limit, "RLIMIT_AS of a child process", CHUNKS["cpu"], progress,
        )  # fmt: skip
    finally:
        child.close()


def _serve() -> None:
    """The child: reads an order, then one value a line, and answers each with a line of JSON."""
    import resource

    from validation.measure import subject

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is told too, and ends this process
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not look like an answer

    def say(**answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    order = json.loads(sys.stdin.readline())
    request, case = Request(**_tuples(order["request"])), Case(**order["case"])
    if request.threads:
        torch.set_num_threads(request.threads)
    torch.backends.mkldnn.set_flags(False)  # its kernels compile themselves anew for each shape, and keep the code mapped
    found = subject(request)
    built = build(found.model, found.dtype, found.device, request.weights, request.revision, request.token)
    attempt = _try(built, found.settings, case, request.find_limit)
    attempt(_smallest(case, request.find_limit) + 2 * (case.chunk or 0) * (request.find_limit == "tokens"))
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    say(ready=True)
    for line in sys.stdin:
        gc.collect()
        resource.setrlimit(resource.RLIMIT_AS, ((status_bytes("VmSize") or 0) + (request.limit or CPU_LIMIT), hard))
        try:
            ran, peak, text = attempt(int(line))
            answer: dict[str, Any] = {"ran": ran, "peak": peak, "text": text}
        except Exception as error:  # the parent says what went wrong
            answer = {"error": "other", "text": f"{type(error).__name__}: {error}"[:300]}
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        say(**answer)


def _tuples(request: dict[str, Any]) -> dict[str, Any]:
    request["grid"] = {name: tuple(values) for name, values in request["grid"].items()}
    return {**request, "speed_lengths": tuple(request["speed_lengths"])}


if __name__ == "__main__":
    _serve()
