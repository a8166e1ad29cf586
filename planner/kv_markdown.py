"""A KV answer as a report in Markdown that one sends to a colleague: the same text from the shell and from the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.markdown import again, made, plain, table, told
from planner.units import format_bytes


def kv_markdown(data: Mapping[str, Any], date: str | None = None) -> str:
    """The report of `report.kv_data`, with its `asked` and, of a page, `page`. date: of the report, today where None."""
    requests = f"{data['requests']:,} request" + ("" if data["requests"] == 1 else "s")
    whose = "" if data["engine"] == "architecture" else f", as {data['engine']} allocates it"
    total = data["kv_cache_bytes"]
    lines = [
        f"# KV cache: {plain(data['model']['name'])}", "",
        f"**{format_bytes(total)}** ({total:,} bytes) for {requests} of {data['tokens']:,} tokens, "
        f"{plain(data['kv_cache_dtype'])}{whose}.", "", "## Question", "", *table(("", ""), _question(data)),
        "", "## Answer", "", *table(("", "Size", "Bytes"), _figures(data), (1, 2)), *_how(data), *_beside(data),
    ]  # fmt: skip
    return "\n".join([*lines, *again(data), *told("Notes", data["warnings"]), *made(data, date), ""])


def _question(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    model, asked = data["model"], data.get("asked", {})
    kinds = ", ".join(f"{count} {kind}" for kind, count in model["kinds"].items())
    rows = [
        ("Model", f"{model['name']} ({model['model_type']}; {model['layers']} layers: {kinds})"), ("Read from", model["source"]),
        ("Engine", data["engine"] + (f" {asked['engine_version']}" if "engine_version" in asked else "")),
        ("Tokens of a request", f"{data['tokens']:,}"), ("Requests at once", f"{data['requests']:,}"),
        ("Keys and values stored as", data["kv_cache_dtype"]),
    ]  # fmt: skip
    if data["encoder_tokens"]:
        rows.append(("Encoder positions", f"{data['encoder_tokens']:,}"))
    known = ("tensor_parallel_size", "pipeline_parallel_size", "max_model_len", "block_size", "cache_implementation")
    rows += [(f"--{name.replace('_', '-')}", str(asked[name])) for name in known if name in asked]
    rows += [("--set", one) for one in asked.get("set", ())]
    return rows


def _figures(data: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    rows = [("KV cache", data["kv_cache_bytes"]), ("Each request", data["bytes_per_request"])]
    if data["architecture_bytes"] != data["kv_cache_bytes"]:
        rows.append(("By the architecture alone", data["architecture_bytes"]))
    if data["model"]["weight_bytes"] is not None:
        rows.append((f"Weights, {data['model']['weights_confidence']}", data["model"]["weight_bytes"]))
    found = [(name, format_bytes(count), f"{count:,}") for name, count in rows]
    each = data["average_bytes_per_token"]
    found.insert(2, ("Each token, on average", format_bytes(round(each)), f"{each:,.10g}"))
    return found


def _how(data: Mapping[str, Any]) -> list[str]:
    """The kinds of layers with their formulas, which add up to the whole."""
    rows = [
        (len(one["layers"]), one["kind"], one["formula"] or "", f"{one['bytes_per_layer']:,}", f"{one['bytes']:,}")
        for one in data["groups"]
    ]
    together = sum(one["bytes"] for one in data["groups"])
    says = f"Together {together:,} bytes" + (f", and {data['kv_cache_bytes']:,} with what no layer has alone."
                                             if together != data["kv_cache_bytes"] else ".")  # fmt: skip
    rule = ["", f"By the rule: {plain(data['rule'])}"] if data["rule"] else []
    return ["", "## How", "", *table(("Layers", "Kind", "Formula", "Bytes a layer", "Bytes"), rows, (0, 3, 4)), "", says, *rule]


def _beside(data: Mapping[str, Any]) -> list[str]:
    """The step from the architecture to the engine, the twins, and one GPU's memory."""
    lines: list[str] = []
    if data["difference"]:
        rows = [(one["text"], f"{one['bytes']:+,}") for one in data["difference"]]
        title = f"## From the architecture's {data['architecture_bytes']:,} bytes"
        lines += ["", title, "", *table(("Why", "Bytes"), rows, (1,))]
    names = {
        "multi_head_bytes": "Its multi-head twin", "multi_query_bytes": "Its multi-query twin",
        "common_formula_bytes": "2 x layers x hidden x tokens x bytes",
    }  # fmt: skip
    twins = [(label, format_bytes(data["twins"][name]), f"{data['twins'][name]:,}")
             for name, label in names.items() if data["twins"][name] is not None]  # fmt: skip
    if twins:
        lines += ["", "## For comparison", "", *table(("", "Size", "Bytes"), twins, (1, 2))]
    if "gpu" in data:
        gpu = data["gpu"]
        room = gpu["headroom_bytes"]
        text = f"Weights and cache take {format_bytes(gpu['weights_and_cache_bytes'])} of {format_bytes(gpu['usable_bytes'])}: "
        text += f"{format_bytes(abs(room))} {'left' if room >= 0 else 'short'}, activations and runtime not counted."
        lines += ["", f"## {plain(gpu['name'])}", "", text]
        if gpu["requests_beside_weights"] is not None:
            lines += ["", f"{gpu['requests_beside_weights']:,} such requests fit beside the weights."]
    return lines
