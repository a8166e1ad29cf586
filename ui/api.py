"""The JSON routes: what `python -m planner kv` and `plan` print, over HTTP, with an OpenAPI description made from the same flags.

    GET /api/v1/kv?model=Qwen/Qwen2.5-72B&tokens=32768
    GET /api/v1/plan?model=meta-llama/Llama-3.1-8B&gpu=l4&max_model_len=8192&requests=4
    GET /api/v1/openapi.json

Parameters are the shell's flags with underscores. A model is one of the catalogue or of the Hub: no path of the server is read,
and no token is taken.
"""

from __future__ import annotations

import argparse
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from model_configs import catalogue
from planner import errors
from planner.cli import answer, parser_of
from planner.errors import InputError, PlannerError, shown
from planner.report import SCHEMA_VERSION
from planner.version import VERSION

COMMANDS = {"kv": "KV-cache bytes of a model", "plan": "does it start, how many requests, how long a context, what to change"}
#: Flags that a stranger cannot use: files of the server, secrets, and what only a terminal shows.
_LEFT_OUT = {"help", "lengths", "token", "json", "markdown"}
_MOST_LENGTH = 400
#: HTTP statuses, the first kind that an error is of.
_STATUSES: tuple[tuple[type[PlannerError], int], ...] = (
    (errors.NotFound, 404), (errors.Gated, 403), (errors.RateLimited, 429), (errors.HubError, 502), (errors.EngineRefusal, 422),
    (PlannerError, 400),
)  # fmt: skip


def flags(command: str) -> dict[str, argparse.Action]:
    """The parameters of a route by name."""
    return {action.dest: action for action in parser_of(command)._actions if action.dest not in _LEFT_OUT}


def words(command: str, query: list[tuple[str, str]]) -> list[str]:
    """The shell's arguments for a query. Errors: InputError naming the parameter."""
    known, found, given = flags(command), [command], dict(query)
    for name, value in query:
        action = known.get(name)
        if action is None:
            raise InputError(f"there is no parameter {shown(name)}; there are {', '.join(known)}", field=name)
        if len(value) > _MOST_LENGTH:
            raise InputError(f"{name} is longer than {_MOST_LENGTH} characters", field=name)
        if name == "model":
            continue
        if action.nargs == 0:
            if value.lower() not in ("true", "false", "1", "0"):
                raise InputError(f"{name} is {shown(value)}; it is true or false", field=name)
            found += [action.option_strings[-1]] if value.lower() in ("true", "1") else []
        else:
            found.append(f"{action.option_strings[-1]}={value}")
    if "model" not in given:
        raise InputError("say which model: ?model=owner/name", field="model")
    return [*found, "--", _model(given["model"], "revision" in given)]


def _model(name: str, revision: bool) -> str:
    """The model under a name that reads no path: a catalogue entry, else the Hub's."""
    if not revision and catalogue.find(name):
        return f"catalogue:{name}"
    return f"hub:{name}"


def _route(command: str) -> Route:
    async def endpoint(request: Request) -> JSONResponse:
        try:
            data = await run_in_threadpool(answer, words(command, request.query_params.multi_items()))
        except PlannerError as problem:
            status = next(status for kind, status in _STATUSES if isinstance(problem, kind))
            said = {"code": problem.code, "message": problem.message, "field": problem.fields.get("field")}
            return JSONResponse({"schema_version": SCHEMA_VERSION, "error": said}, status)
        return JSONResponse(data)

    return Route(f"/api/v1/{command}", endpoint, methods=["GET"])


def description() -> dict[str, Any]:
    """The routes in the words of OpenAPI 3.1, each parameter with the help of its flag."""
    paths = {}
    for command, text in COMMANDS.items():
        parameters = [_parameter(name, action) for name, action in flags(command).items()]
        answers = {"200": _told("what the shell prints with --json", {"type": "object"})}
        for status, why in (("400", "bad input"), ("404", "no such model"), ("422", "the engine refuses it"), ("502", "no Hub")):
            answers[status] = _told(why, {"$ref": "#/components/schemas/Error"})
        paths[f"/api/v1/{command}"] = {
            "get": {"operationId": command, "summary": text, "parameters": parameters, "responses": answers}
        }
    error = {
        "type": "object",
        "properties": {
            "schema_version": {"type": "integer"},
            "error": {"type": "object", "properties": {name: {"type": "string"} for name in ("code", "message", "field")}},
        },
    }
    return {
        "openapi": "3.1.0", "info": {"title": "KV-cache memory planner", "version": VERSION}, "paths": paths,
        "components": {"schemas": {"Error": error}},
    }  # fmt: skip


def _told(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _parameter(name: str, action: argparse.Action) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if action.nargs == 0:
        schema = {"type": "boolean"}
    elif isinstance(action.default, int) or getattr(action.type, "__name__", "") == "_count":
        schema = {"type": "integer", "minimum": 0}
    elif action.type is float:
        schema = {"type": "number"}
    if action.choices:
        schema["enum"] = list(action.choices)
    if action.default not in (None, False):
        schema["default"] = action.default
    if isinstance(action, argparse._AppendAction):
        schema = {"type": "array", "items": schema}
    text = str(action.help or "").replace("%%", "%")
    if name == "model":
        text = "a model of the catalogue, or of the Hub as owner/name"
    return {"name": name, "in": "query", "required": bool(action.required), "description": text, "schema": schema}


async def _openapi(request: Request) -> JSONResponse:
    return JSONResponse(description())


ROUTES = [*map(_route, COMMANDS), Route("/api/v1/openapi.json", _openapi, methods=["GET"])]
