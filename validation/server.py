"""A running engine beside the planner: `python -m validation server URL` reads the engine's own endpoints and compares.

    python -m validation server http://localhost:8000 [--model MODEL] [--gpu h100] [--set NAME=VALUE ...] [--json]

vLLM, SGLang, Text Generation Inference, llama.cpp's llama-server and Ollama are recognised by what they answer. The model is
the one that the server names, where the catalogue or a file on this machine has it, else --model. Only this machine and
private networks are asked, unless --allow-remote is given.

Exit status: 0 all compared figures agree, 1 they do not, 2 bad input or nothing could be compared, 3 not reachable.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NoReturn

import model_configs
from model_configs import catalogue
from planner.cli_settings import COMMON, settings_of
from planner.engines import engine
from planner.errors import InputError, PlannerError
from planner.hardware import gpu as find_gpu
from planner.model import Model
from validation import server_llama_cpp, server_ollama, server_sglang, server_tgi, server_vllm
from validation.logs.log import Check
from validation.logs.models import candidates
from validation.server_http import Client, ServerError, near, refusal, resolve, target_of
from validation.server_report import as_json, as_text
from validation.server_told import Told

#: Each engine's reader, in the order in which they are tried: the surest sign first.
READERS: Final[Mapping[str, ModuleType]] = {
    "llama.cpp": server_llama_cpp,
    "sglang": server_sglang,
    "tgi": server_tgi,
    "ollama": server_ollama,
    "vllm": server_vllm,
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see `{self.prog} --help`", field="arguments")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds up to 600")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m validation server", description="Read a running engine's own endpoints and compare them with the planner."
    )
    add = parser.add_argument
    add("url", help="the server, e.g. http://localhost:8000")
    add("--engine", choices=sorted(READERS), help="which engine it is (default: recognised)")
    add("--model", help="Hub id, catalogue id, path to a config.json, a folder or a .gguf file (default: as the server names it)")
    add("--gpu", help="the accelerator it runs on, e.g. h100 or 24GiB: compares the pool's size too")
    add("--set", action="append", metavar="NAME=VALUE", help="a setting that the endpoints do not tell, by the engine's own name")
    add("--engine-version", help="the engine's version where it does not tell it")
    add("--allow-remote", action="store_true", help="ask a server that is neither on this machine nor in a private network")
    add("--timeout", type=_seconds, default=10.0, metavar="S", help="seconds for all questions together (default 10)")
    add("--api-key-env", metavar="VARIABLE", help="the environment variable that holds the server's key")
    add("--json", action="store_true", help="print JSON")
    return parser


def ask(client: Client, name: str | None) -> tuple[str, Told]:
    """The engine and what it says. Errors: ServerError for a server that none of the readers recognises."""
    for known in (name,) if name else READERS:
        told: Told | None = READERS[known].read(client)
        if told is not None:
            return known, told
    refused = sorted((answer for answer in client.asked.values() if not answer.ok), key=lambda answer: answer.status)
    for answer in refused:
        if answer.status in (401, 403, 503):
            raise refusal(answer)
    what = f"does not answer like {name}" if name else f"answers like none of {', '.join(READERS)}"
    raise ServerError(f"{client.target.origin} {what}; what it is can be said with --engine")


def find_model(told: Told, asked: str | None, local: bool) -> Model | None:
    """The model as it was asked for, as the server describes it, from its own file where that is on this machine, or from the
    catalogue by its name, without weights where that says that these are stored otherwise than the catalogue's. None where
    it is known from none of them: no name that a server gives is looked up elsewhere.
    """
    if asked is not None:
        return model_configs.read(asked)
    if told.described is not None:
        return told.described
    for name in (told.root, told.model):
        path = Path(name) if name and local and os.path.isabs(name) else None
        if path and ((path.suffix == ".gguf" and path.is_file()) or (path / "config.json").is_file()):
            return model_configs.read(path)
    for name in filter(None, (told.root, told.model)):
        for word in candidates(name):
            if entry := catalogue.find(word):
                model = model_configs.read(f"catalogue:{entry.id}")
                return model if name.rstrip("/").endswith(word) else replace(model, weights=None)
    return None


def check(told: Told, reader: ModuleType, arguments: argparse.Namespace, local: bool) -> tuple[Model | None, Check]:
    """What the server says beside the planner's figures."""
    card = find_gpu(arguments.gpu) if arguments.gpu else None
    given = argparse.Namespace(**dict.fromkeys(COMMON), set=arguments.set, engine_version=arguments.engine_version)
    said = settings_of(told.engine, given).model_dump(exclude_unset=True)
    settings = engine(told.engine).Settings(**{**told.settings, **said})
    model = find_model(told, arguments.model, local)
    if model is None:
        named = f"{told.model!r} is not in the catalogue" if told.model else "the server does not name it"
        return None, Check((), (f"--model: the model that is served; {named}",), False, (), told.notes)
    found: Check = reader.explain(told, model, settings, card)
    return model, found


def _key(arguments: argparse.Namespace, scheme: str, addresses: Sequence[Any]) -> str | None:
    name = arguments.api_key_env
    if name is None:
        return None
    key = os.environ.get(name, "").strip()
    if not key or not key.isascii() or not key.isprintable():
        raise InputError(f"the variable {name} holds no key", field="api-key-env")
    if scheme == "http" and not all(near(str(entry[4][0])) for entry in addresses):
        raise InputError("a key is sent over the internet by https alone; give an https address", field="url")
    return key


def run(argv: Sequence[str]) -> int:
    arguments = _parser().parse_args(argv)
    target = target_of(arguments.url)
    addresses = resolve(target, arguments.allow_remote)
    client = Client(target, addresses, arguments.timeout, _key(arguments, target.scheme, addresses))
    name, told = ask(client, arguments.engine)
    local = all(str(entry[4][0]).startswith(("127.", "::1")) for entry in addresses)
    model, found = check(told, READERS[name], arguments, local)
    print((as_json if arguments.json else as_text)(name, told, model, found))
    return 0 if found.agrees else 1 if found.lines else 2


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    try:
        return run(sys.argv[1:] if argv is None else argv)
    except PlannerError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return error.exit_status
