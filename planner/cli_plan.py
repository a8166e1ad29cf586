"""`python -m planner plan MODEL --gpu GPU`: the plan of a deployment in a shell."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from planner.capacity import plan
from planner.capacity_plan import Plan
from planner.capacity_weights import GGUF_BITS, as_gguf
from planner.cli_asked import with_config
from planner.cli_media import Counter, Found, add_flags, asked, media_data, told
from planner.cli_settings import settings_of
from planner.cli_share import add_sharing, shared
from planner.engines import ENGINES
from planner.engines.base import EngineSettings
from planner.errors import EngineRefusal, InputError, shown
from planner.model import Model
from planner.plan_markdown import plan_markdown
from planner.plan_report import plan_cost, plan_data, plan_text, why_data, why_text
from planner.plan_times import plan_times, times_data
from planner.texts import tell
from planner.units import parse_bytes
from planner.workload import Workload
from planner.workload_lengths import Lengths

if TYPE_CHECKING:
    from planner.simulate import Simulation

Count = Callable[[str], int]
_LENGTHS = "a count, p50=800,p95=4000 (log-normal), or percentiles up to max=16000"


def add_parser(commands: Any, count: Count) -> None:
    """Adds the `plan` command. count: reads a whole number."""
    add = commands.add_parser("plan", help="does it start, how many requests, how long a context, what to change").add_argument
    add("model", help="Hub id, catalogue id, path to a config.json or a folder, or - for a config.json on stdin")
    add("--gpu", required=True, help="an accelerator (h100-sxm, 4090), a node (8xh100, p5.48xlarge), or an amount (24GiB)")
    add("--gpus", type=count, default=1, help="how many of them (default: what the split takes)")
    add("--engine", choices=sorted(ENGINES), default="vllm", help="default vllm")
    add("--max-model-len", type=count, help="longest request (default: the model's own limit)")
    add("--requests", type=count, help="requests at once (default 1)")
    add("--prompt", help=f"tokens of a prompt: {_LENGTHS}")
    add("--output", help="tokens of an answer, likewise")
    add("--lengths", metavar="FILE", help="CSV or JSONL of observed prompt_tokens and output_tokens")
    add("--occupancy", choices=("worst", "typical"), help="all requests at their longest, or 95%% of the time (where they vary)")
    add("--shared-prefix", type=count, default=0, help="tokens that all prompts begin with")
    add("--beams", type=count, default=1, help="beams of a request")
    add("--speculative-tokens", type=count, default=0, help="positions that a draft takes on top")
    add("--encoder-tokens", type=count, default=0, help="encoder positions of an encoder-decoder model")
    add("--image-tokens", type=count, default=0, help="tokens that images become in each prompt")
    add_flags(add)
    add("--kv-cache-dtype", default="auto", help="in the engine's own words (fp8, q8_0)")
    add("--cache-implementation", help="transformers: dynamic, static or quantized")
    add("-tp", "--tensor-parallel-size", type=count, help="GPUs that each layer is split over (default: all)")
    add("-pp", "--pipeline-parallel-size", type=count, help="stages that the layers are split into")
    add("--block-size", type=count, help="positions of a block")
    add("--engine-version", help="version of the engine (default: the newest known)")
    add("--set", action="append", metavar="NAME=VALUE", help="any other setting of the engine, by its own name")
    add("--weights", help=f"size of one GPU's weights (16.5GB), or a GGUF storage ({', '.join(GGUF_BITS)})")
    add("--given", action="append", metavar="NAME=SIZE", help="a term of the budget that you know: kv=40GiB, activations=1.4GiB")
    add_sharing(add, count)
    add("--price", type=float, help="what one GPU costs an hour, in your currency")
    add("--seed", type=count, default=0, help="of the simulation where lengths vary")
    add("--revision", help="branch, tag or commit on the Hub")
    add("--token", help="Hub token for a gated model, used for this call alone")
    add("--assume-plain-attention", action="store_true", help="treat an unknown architecture as plain attention")
    add("--why", action="store_true", help="the arithmetic of every figure, with its numbers")
    add("--json", action="store_true", help="print JSON")
    add("--markdown", action="store_true", help="print a report to send on")


def show(arguments: argparse.Namespace, data: dict[str, Any]) -> int:
    """Prints the plan. Returns 0 where it fits, 1 where not."""
    text = plan_markdown if arguments.markdown else plan_text
    print(json.dumps(data, indent=2) if arguments.json else text(data))
    if arguments.why and not arguments.json:
        print(why_text(data))
    return 0 if data["verdict"] == "fits" else 1


def answer(arguments: argparse.Namespace, read: Callable[[argparse.Namespace], Model], count: Counter) -> dict[str, Any]:
    """The plan as data, see `plan_report.plan_data`. count: what images and audio become. Errors: PlannerError."""
    settings, work, given = settings_asked(arguments), _workload(arguments), given_asked(arguments.given or [])
    seen = asked(arguments)
    model = read(arguments)
    media = count(model, seen) if seen else None
    if media:
        arguments.image_tokens += media.prompt_tokens
        arguments.encoder_tokens += media.encoder_positions
        work = _workload(arguments)
    if arguments.weights:
        if arguments.weights.upper().replace("-", "_") in GGUF_BITS:
            model = as_gguf(model, arguments.weights)
        else:
            given["weights"] = _size("weights", arguments.weights)
    if work is None and arguments.engine == "transformers" and arguments.max_model_len is not None:
        work = Workload(prompt_tokens=arguments.max_model_len)
    settings = shared(model, settings, given, arguments)
    found = plan(model, arguments.engine, settings, arguments.gpu, arguments.gpus, work, given)
    simulation: Simulation | EngineRefusal | None = None
    if work is not None and work.varies:
        from planner.simulate import simulate  # with numpy, which nothing else here needs

        try:
            simulation = simulate(found, seed=arguments.seed, progress=_progress("simulating"))
        except EngineRefusal as refusal:
            simulation = refusal
    data = data_of(found, simulation, arguments.price, media)
    if arguments.why:
        data["why"] = why_data(found, None if arguments.price is None else plan_cost(found, arguments.price))
    return data


def data_of(
    found: Plan, simulation: Simulation | EngineRefusal | None = None, price: float | None = None, media: Found | None = None
) -> dict[str, Any]:
    """`plan_data` with all that a plan of the shell has. simulation: or why there is none; media: what images became."""
    cost = None if price is None else plan_cost(found, price)
    data = plan_data(found, None if isinstance(simulation, EngineRefusal) else simulation, cost)
    data["times"] = times_data(found, plan_times(found))
    if isinstance(simulation, EngineRefusal):
        data["notes"].append(tell("no_simulation", reason=simulation.message))
    if media:
        data["media"] = media_data(media)
        data["notes"] += told(media)
    return with_config(data, found.model)


def settings_asked(arguments: argparse.Namespace) -> EngineSettings:
    """The engine's settings by the flags of `plan`. Errors: InputError."""
    name = arguments.engine
    if name in ("llama.cpp", "transformers"):
        words = argparse.Namespace(**{**vars(arguments), "max_model_len": None})
        if name == "llama.cpp":
            extra = [f"front_end={json.dumps('server')}"]
            if arguments.max_model_len is not None:
                extra.append(f"n_ctx={arguments.max_model_len * _slots(arguments)}")
            words.set = [*extra, *(arguments.set or [])]
        return settings_of(name, words)
    return settings_of(name, arguments)


def _slots(arguments: argparse.Namespace) -> int:
    """Slots that were said by name: llama.cpp's context is that of all of them."""
    said = [text.partition("=")[2] for text in arguments.set or [] if text.startswith("n_seq_max=")]
    return int(said[-1]) if said and said[-1].isdigit() else 1


def _workload(arguments: argparse.Namespace) -> Workload | None:
    rest = {
        "shared_prefix_tokens": arguments.shared_prefix, "beams": arguments.beams, "image_tokens": arguments.image_tokens,
        "speculative_tokens": arguments.speculative_tokens, "encoder_tokens": arguments.encoder_tokens,
        "occupancy": arguments.occupancy,
    }  # fmt: skip
    requests = 1 if arguments.requests is None else arguments.requests
    if arguments.lengths is not None:
        if arguments.prompt or arguments.output:
            raise InputError("--lengths takes the place of --prompt and --output", field="lengths")
        return Workload.from_file(arguments.lengths, requests, progress=_progress("reading"), **rest)
    if arguments.output and not arguments.prompt:
        raise InputError("--output needs --prompt", field="prompt")
    if not arguments.prompt:
        asked = arguments.requests is not None or any(rest[name] not in (0, 1, None) for name in rest)
        return Workload(requests=requests, **rest) if asked else None
    output = Lengths.parse(arguments.output, "output") if arguments.output else 0
    return Workload(Lengths.parse(arguments.prompt, "prompt"), output, requests, **rest)


def given_asked(pairs: list[str]) -> dict[str, int]:
    """Bytes by term of NAME=SIZE. Errors: InputError."""
    found = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InputError(f"--given {shown(pair)}: write NAME=SIZE, like kv=40GiB", field="given")
        found[name.strip()] = _size("given", text)
    return found


def _size(field: str, text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise InputError(f"--{field}: {error}", field=field) from None


def _progress(what: str) -> Callable[[float], None] | None:
    """A line on a terminal's stderr that is rewritten, and nothing elsewhere."""
    if not sys.stderr.isatty():
        return None

    def show(share: float) -> None:
        end = "\r" if share < 1 else "\r\033[K"
        print(f"{what} {share:4.0%}" if share < 1 else "", end=end, file=sys.stderr, flush=True)

    return show
