"""Real cached generation against the prediction: `python -m validation MODEL`, and the commands `sweep` and `server`.

MODEL is a catalogue id, a config.json, a folder or a Hub id. The model is built with random weights unless others are asked
for, generates through transformers' own `generate`, and its cache is weighed layer by layer at each point of the grid.
`--tensor-parallel N` divides the model over N ranks by transformers' own plan and weighs the cache of each; it starts torchrun
on itself, or runs under one.

Exit status: 0 all figures agree within the stated tolerances, 1 they do not, 2 bad input, 3 source not available,
130 interrupted. Errors are one line on stderr.

Progress goes to stderr. `--progress json` makes it one JSON object a line, for a program that watches:

    {"event": "start", "model": NAME, "device": "cpu", "steps": 7}
    {"event": "step", "done": 2, "steps": 7, "what": "grid", "detail": "batch 1, 512 tokens"}
    {"event": "point", "batch": 1, "tokens": 512, "predicted": 65536, "measured": 65536, "agrees": true}
    {"event": "note", "text": "..."}
    {"event": "error", "message": "...", "exit_status": 2}
    {"event": "done", "agrees": true, "exit_status": 0}

`done` counts finished steps and never exceeds `steps`, which may grow while a frontier is searched. The last line is `done`
or `error`. The report itself is written by `--json` and `--html`, after each part of the run that ends, so that an
interrupted run leaves what it measured.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from planner.errors import InputError, PlannerError
from planner.units import parse_bytes
from validation import report, request
from validation.compare import Report, to_json
from validation.progress import FORMS, Progress
from validation.report_html import html


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see `{self.prog} --help`", field="arguments")


def _limit(text: str) -> int:
    """Bytes of "--limit 4" (GiB), "4GiB" or "512MiB"."""
    try:
        return parse_bytes(text if not text.replace(".", "", 1).isdigit() else f"{text}GiB")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m validation",
        description="Generate with a real KV cache and compare every byte with the prediction.",
        epilog="Other commands: `sweep` (every architecture that transformers ships), `server URL` (a running engine).",
    )
    add = parser.add_argument
    add("model", help="catalogue id, config.json, folder or Hub id")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto takes CUDA where there is a device")
    add("--dtype", choices=("auto", "float32", "float16", "bfloat16"), default="auto", help="auto is the config's own")
    add("--grid", nargs="+", default=[], metavar="NAME=A,B", help="batch=1,4 tokens=512,4096 new=8 encoder=64 (the defaults for"
        " cuda; smaller on the cpu); tokens are positions held at the end, new of them generated")  # fmt: skip
    add("--cache", choices=request.CACHES, default="dynamic", help="cache_implementation of transformers")
    add("--cache-config", nargs="+", default=[], metavar="NAME=VALUE", help="of a quantized cache: backend=fp8 nbits=4 ...")
    add("--weights", default="random", metavar="random|hub|PATH", help="random needs no download; hub loads the model's own")
    add("--layers", type=int, metavar="N", help="keep the first N layers of the pattern, and predict for these")
    add("--find-limit", nargs="?", const="tokens", choices=("tokens", "batch"), help="raise it until out of memory")
    add("--limit", type=_limit, metavar="GiB", help="memory for --find-limit: of the device's, or above the weights on the cpu")
    add("--tensor-parallel", type=int, metavar="N", help="divide the model over N ranks, and weigh the cache of each")
    add("--speed", action="store_true", help="the same generation with and without the cache, and time to first token")
    add("--speed-lengths", default="", metavar="A,B", help="new tokens at which --speed measures")
    add("--threads", type=int, metavar="N", help="threads of torch on the cpu")
    add("--revision", help="branch, tag or commit on the Hub")
    add("--token", help="Hub token for a gated model, used for this call alone")
    add("--json", metavar="FILE", help="write the report as JSON (- for standard output)")
    add("--html", metavar="FILE", help="write the report as one self-contained page")
    add("--progress", nargs="?", const="json", choices=FORMS, default="text", help="progress on stderr")
    return parser


def _validate(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    progress = Progress(arguments.progress)
    try:
        wanted = request.from_arguments(arguments)
        if arguments.tensor_parallel is not None:
            from validation import measure_parallel

            return int(measure_parallel.main(wanted, arguments.tensor_parallel, argv, progress))
        return _run(wanted, progress)
    except PlannerError as error:
        progress.failed(error.message, error.exit_status)
        return error.exit_status
    except KeyboardInterrupt:
        progress.failed("interrupted; what was measured until then is in the report, where one was asked for", 130)
        return 130


def _run(wanted: request.Request, progress: Progress) -> int:
    """Runs, writes the report after each part, and prints it at the end."""
    try:
        from validation import measure
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed: pip install -r requirements-validation.txt", field="torch") from None
    last = None
    for last in measure.run(wanted, progress):
        _write(wanted, last)
    if last is None:
        raise InputError("nothing was asked to be measured", field="grid")
    if wanted.json != "-":
        print(report.text(last), end="")
    status = 0 if last.agrees else 1
    progress.finished(last.agrees, status)
    return status


def _write(wanted: request.Request, found: Report) -> None:
    """Writes the files that were asked for, each whole or not at all; standard output gets the last report alone."""
    for target, render in ((wanted.json, to_json), (wanted.html, html)):
        if target == "-":
            if not found.partial:
                print(render(found), end="")
        elif target:
            path = Path(target).expanduser()
            beside = path.with_name(f".{path.name}.part")
            beside.write_text(render(found), "utf-8")
            beside.replace(path)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one validation, or the command named first, and returns its exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        if given[:1] == ["sweep"]:
            from validation import measure_sweep

            return int(measure_sweep.main(given[1:]))
        if given[:1] == ["server"]:
            from validation import server

            return int(server.main(given[1:]))
        return _validate(given)
    except PlannerError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return error.exit_status
    except ModuleNotFoundError as error:
        print(f"error: {error.name} is not installed: pip install -r requirements-validation.txt", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
