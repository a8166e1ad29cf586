"""The planner in a shell: `python -m planner kv MODEL`, `models`, `gpus`, `engines`.

Exit status: 0 done or fits, 1 does not fit, 2 bad input, 3 source not available. Errors are one line on stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from planner import cli_disaggregate, cli_log, cli_media, cli_plan, cli_sweep, kv_markdown, report
from planner.cache import architecture_bytes
from planner.cli_asked import asked, with_config, with_question
from planner.cli_settings import COMMON, ranks_of, settings_of
from planner.detect import detected
from planner.dtypes import FORMATS, storage_format
from planner.engines import ENGINES, engine
from planner.engines.base import allocated
from planner.engines.explain import Reason, difference
from planner.errors import InputError, PlannerError
from planner.hardware import gpu, gpus
from planner.model import Model
from planner.units import format_bytes
from planner.version import VERSION

#: Gives the model that the arguments name.
Read = Callable[[argparse.Namespace], Model]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see `{self.prog} --help`", field="arguments")


def _count(text: str) -> int:
    digits = text.replace(",", "").replace("_", "")
    if not digits.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(digits)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="planner", description="How much memory a model's KV cache takes, and why.")
    parser.add_argument("--version", action="version", version=VERSION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    kv = commands.add_parser("kv", help="KV-cache bytes of a model")
    kv.add_argument("model", help="Hub id, catalogue id, path to a config.json or a folder, or - for a config.json on stdin")
    kv.add_argument("--engine", choices=sorted(ENGINES), help="allocate as this engine does (default: the architecture alone)")
    kv.add_argument("--tokens", type=_count, help="positions held by each request (default: the model's context limit)")
    kv.add_argument("--requests", type=_count, default=1, help="requests at once (default 1)")
    kv.add_argument("--encoder-tokens", type=_count, default=0, help="encoder positions of an encoder-decoder or image model")
    cli_media.add_flags(kv.add_argument)
    kv.add_argument("--prompt-tokens", type=_count, help="how many of the tokens were the prompt, where that matters")
    kv.add_argument("--kv-cache-dtype", default="auto", help=f"auto (the model's), {', '.join(FORMATS)}, or an engine's own word")
    kv.add_argument("--cache-implementation", help="transformers: dynamic, static, offloaded or quantized")
    kv.add_argument("-tp", "--tensor-parallel-size", type=_count, help="GPUs that each layer is split over")
    kv.add_argument("-pp", "--pipeline-parallel-size", type=_count, help="stages that the layers are split into")
    kv.add_argument("--max-model-len", type=_count, help="longest request that the engine accepts")
    kv.add_argument("--block-size", type=_count, help="positions of a block")
    kv.add_argument("--engine-version", help="version of the engine (default: the newest known)")
    kv.add_argument("--set", action="append", metavar="NAME=VALUE", help="any other setting of the engine, by its own name")
    kv.add_argument("--gpu", help="compare weights and cache with this accelerator's memory, e.g. h100 or 24GiB")
    kv.add_argument("--revision", help="branch, tag or commit on the Hub")
    kv.add_argument("--token", help="Hub token for a gated model, used for this call alone")
    kv.add_argument("--assume-plain-attention", action="store_true", help="treat an unknown architecture as plain attention")
    kv.add_argument("--json", action="store_true", help="print JSON")
    kv.add_argument("--markdown", action="store_true", help="print a report to send on")
    cli_plan.add_parser(commands, _count)
    cli_sweep.add_parser(commands)
    cli_disaggregate.add_parser(commands, _count)
    cli_log.add_parser(commands)
    for name, text in (("models", "the bundled catalogue"), ("gpus", "known accelerators"), ("engines", "known engines")):
        command = commands.add_parser(name, help=text)
        command.add_argument("filter", nargs="?", default="", help="show only names that contain this")
        command.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _read(arguments: argparse.Namespace) -> Model:
    import model_configs

    source: Any = arguments.model
    if source == "-":
        source = model_configs.parse_config(sys.stdin.buffer.read(), "standard input")
    return model_configs.read(
        source, arguments.revision, arguments.token, assume_plain_attention=arguments.assume_plain_attention
    )


def _media(model: Model, asked: cli_media.Asked) -> cli_media.Found:
    import model_configs

    return model_configs.media_tokens(model, asked.images, [model_configs.Video(*video) for video in asked.videos], asked.audio)


def _tokens(model: Model, asked: int | None) -> int:
    if asked is not None:
        return asked
    if model.max_context is not None:
        return model.max_context
    if any(cache.grows for layer in model.layers for cache in layer.caches):
        raise InputError(f"{model.name} states no context limit; say --tokens", field="tokens")
    return 1


def _kv(arguments: argparse.Namespace) -> int:
    data = _kv_data(arguments)
    text = kv_markdown.kv_markdown if arguments.markdown else report.kv_text
    print(json.dumps(data, indent=2) if arguments.json else text(data))
    return 1 if "gpu" in data and data["gpu"]["headroom_bytes"] < 0 else 0


def _kv_data(arguments: argparse.Namespace, read: Read = _read) -> dict[str, Any]:
    device = gpu(arguments.gpu) if arguments.gpu else None
    name = arguments.engine or _implied_engine(arguments)
    plain_dtype = None if name or arguments.kv_cache_dtype == "auto" else storage_format(arguments.kv_cache_dtype).name
    settings = settings_of(name, arguments) if name else None
    seen = cli_media.asked(arguments)
    model = read(arguments)
    media = _media(model, seen) if seen else None
    tokens, encoder = _tokens(model, arguments.tokens), arguments.encoder_tokens
    if media:
        tokens += 0 if arguments.tokens is None else media.prompt_tokens
        encoder += media.encoder_positions
    plain = architecture_bytes(
        model, tokens, arguments.requests, kv_cache_dtype=plain_dtype,
        encoder_tokens=encoder, prompt_tokens=arguments.prompt_tokens,
    )  # fmt: skip
    cache, reasons = plain, tuple[Reason, ...]()
    if name:
        cache = allocated(
            model, engine(name), settings, tokens, arguments.requests, device, encoder, arguments.prompt_tokens
        )
        if name != "transformers" or cache.rule is None:
            reasons = difference(model, engine(name), settings, tokens, arguments.requests, encoder, device)
    own = model.dtype if name in (None, "transformers") else "the engine's own dtype"
    kv_dtype = plain_dtype or (arguments.kv_cache_dtype if arguments.kv_cache_dtype != "auto" else own)
    data = report.kv_data(
        model, cache, engine=name or "architecture", kv_cache_dtype=kv_dtype, gpu=device, reasons=reasons, plain=plain,
        ranks=ranks_of(settings) if settings else 1,
    )  # fmt: skip
    if media:
        data["media"] = cli_media.media_data(media)
        data["warnings"] += cli_media.told(media)
    if model.max_context and tokens > model.max_context:
        data["warnings"].append(f"{tokens:,} tokens are more than the model's limit of {model.max_context:,}")
    return with_question(with_config(data, model), "kv", parser_of("kv"), arguments)


def _implied_engine(arguments: argparse.Namespace) -> str | None:
    """transformers where one of its words is given; no engine where only the architecture's arithmetic is asked for."""
    if arguments.cache_implementation:
        return "transformers"
    given = [flag for flag in COMMON if flag != "kv_cache_dtype" and getattr(arguments, flag) is not None]
    if given or arguments.set or arguments.engine_version:
        flag = (given or ["set" if arguments.set else "engine_version"])[0]
        raise InputError(f"--{flag.replace('_', '-')} is an engine's setting; say --engine too", field=flag)
    return None


def _plan(arguments: argparse.Namespace) -> int:
    return cli_plan.show(arguments, _plan_data(arguments))


def _plan_data(arguments: argparse.Namespace, read: Read = _read) -> dict[str, Any]:
    own = argparse.Namespace(**vars(arguments))  # because images are added to its tokens
    return with_question(cli_plan.answer(own, read, _media), "plan", parser_of("plan"), arguments)


def _disaggregate(arguments: argparse.Namespace) -> int:
    return cli_disaggregate.run(arguments, _read)


def _models(arguments: argparse.Namespace) -> int:
    import model_configs
    from model_configs import catalogue

    rows = []
    for entry in catalogue.entries():
        if arguments.filter.lower() in entry.id.lower():
            model = model_configs.read(f"catalogue:{entry.id}")
            rows.append(report.model_data(model))
    return _table(
        arguments, rows, ["model", "type", "layers", "context", "parameters"],
        lambda m: [
            m["name"], m["model_type"], " ".join(f"{n} {k}" for k, n in m["kinds"].items()),
            f"{m['max_context']:,}" if m["max_context"] else "-", f"{m['params'] / 1e9:,.2f} B" if m["params"] else "-",
        ],
    )  # fmt: skip


def _gpus(arguments: argparse.Namespace) -> int:
    rows = [
        report.gpu_row(g) for g in gpus() if arguments.filter.lower() in g.id.lower() + g.name.lower()
    ]
    head = ["id", "name", "driver total", "usable", "range", "GB/s", "16-bit TFLOPs", "fp8", "fp8 KV", "memory figure"]

    def cells(row: dict[str, Any]) -> list[str]:
        low, high = (format_bytes(row[key]) for key in ("usable_low_bytes", "usable_high_bytes"))
        speeds = [row["bandwidth_gbs"], row["fp16_tflops"], row["fp8_tflops"]]
        return [row["id"], row["name"], format_bytes(row["memory_bytes"]), format_bytes(row["usable_bytes"]),
                low if low == high else f"{low} to {high}", *(f"{x:,g}" if x else "-" for x in speeds),
                row["kv_fp8"] or "-", row["status"]]  # fmt: skip

    status = _table(arguments, rows, head, cells)
    if not arguments.json:
        found = detected()
        here = [f"{g.name} ({format_bytes(g.free_bytes or 0)} free)" for g in found.gpus]
        print(f"\nthis machine: {', '.join(here) or found.reason}")
    return status


def _engines(arguments: argparse.Namespace) -> int:
    rows = [
        {
            "name": name, "versions": known.VERSIONS,
            "settings": {key: field.default for key, field in known.Settings.model_fields.items()},
        }
        for name, known in ENGINES.items()
        if arguments.filter in name
    ]  # fmt: skip

    def cells(row: dict[str, Any]) -> list[str]:
        versions = [f"{version} ({date})" for version, date in row["versions"].items()]
        told = [f"{key}={value}" for key, value in row["settings"].items() if value not in (None, (), False) and key != "version"]
        return [row["name"], " to ".join(dict.fromkeys((versions[0], versions[-1]))), " ".join(told)]

    return _table(arguments, rows, ["engine", "rules by version", "defaults"], cells)


def _table(
    arguments: argparse.Namespace, rows: list[dict[str, Any]], head: list[str], cells: Callable[[dict[str, Any]], list[str]]
) -> int:
    if arguments.json:
        print(json.dumps({"schema_version": report.SCHEMA_VERSION, arguments.command: rows}, indent=2))
        return 0
    lines = [head, *map(cells, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    return 0


def _sweep(arguments: argparse.Namespace) -> int:
    def read(name: str) -> Model:
        return _read(argparse.Namespace(**{**vars(arguments), "model": name}))

    return cli_sweep.run(arguments, read)


def _log(arguments: argparse.Namespace) -> int:
    from validation import logs

    return cli_log.run(arguments, logs.read, logs.explain)


COMMANDS = {
    "kv": _kv, "plan": _plan, "sweep": _sweep, "disaggregate": _disaggregate, "log": _log, "models": _models, "gpus": _gpus,
    "engines": _engines,
}  # fmt: skip


def parser_of(command: str) -> argparse.ArgumentParser:
    """The flags of one command, for whoever offers them elsewhere."""
    commands = next(action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction))
    found: argparse.ArgumentParser = commands.choices[command]
    return found


def arguments_of(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of one command. Errors: InputError."""
    return _parser().parse_args(argv)


def asked_of(argv: Sequence[str]) -> dict[str, Any]:
    """The question that these arguments of `kv` or `plan` ask, as `answer` has it. Errors: InputError."""
    return asked(argv[0], parser_of(argv[0]), arguments_of(argv))


def answer(argv: Sequence[str], read: Read = _read) -> dict[str, Any]:
    """What `kv` or `plan` with these arguments prints as JSON, of the model that `read` gives. Errors: PlannerError."""
    arguments = arguments_of(argv)
    return {"kv": _kv_data, "plan": _plan_data}[arguments.command](arguments, read)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    try:
        arguments = _parser().parse_args(argv)
        return COMMANDS[arguments.command](arguments)
    except PlannerError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
