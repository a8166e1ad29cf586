"""A plan as a report in Markdown that one sends to a colleague: the same text from the shell and from the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.markdown import again, code, made, plain, table, told
from planner.plan_report import verdict_line
from planner.units import format_bytes

_PYTHON = ("from ", "import ")


def plan_markdown(data: Mapping[str, Any], date: str | None = None) -> str:
    """The report of `plan_report.plan_data`, with its `asked` and, of a page, `page`. date: of the report, today where None."""
    lines = [f"# Memory plan: {plain(data['model']['name'])} on {_gpus(data)}", "", f"**{plain(verdict_line(dict(data)))}**"]
    if not data["certain"]:
        low, high = format_bytes(data["headroom_low_bytes"]), format_bytes(data["headroom_high_bytes"])
        lines += ["", f"Not certain: the room is {low} to {high} over the budget's range."]
    lines += ["", "## Question", "", *table(("", ""), _question(data))]
    lines += ["", "## Answer", "", *table(("", "Value", "Range"), _figures(data), (1,))]
    lines += [*_terms(data), *_each(data), *_more(data), *_advice(data)]
    lines += ["", "## Start it", "", *code(data["command"], "python" if data["command"].startswith(_PYTHON) else "bash")]
    lines += again(data)
    lines += told("Warnings", data["warnings"])
    lines += told("Notes", data["notes"])
    return "\n".join([*lines, *made(data, date), ""])


def _gpus(data: Mapping[str, Any]) -> str:
    return f"{plain(_cards(data))} with {data['engine']}"


def _cards(data: Mapping[str, Any]) -> str:
    """The GPUs by kind: "2 × GeForce RTX 4090 + 1 × GeForce RTX 3090"."""
    counts: dict[str, int] = {}
    for one in data["per_gpu"]:
        counts[one["gpu"]] = counts.get(one["gpu"], 0) + one["count"]
    return " + ".join(f"{count:,} × {name}" for name, count in counts.items())


def _question(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    model, work, split = data["model"], data["workload"] or {}, data["split"]
    kinds = ", ".join(f"{count} {kind}" for kind, count in model["kinds"].items())
    version, memory = data["settings"].get("version"), data["gpu"]["memory_bytes"]
    rows = [
        ("Model", f"{model['name']} ({model['model_type']}; {model['layers']} layers: {kinds})"),
        ("Read from", model["source"]),
        ("GPUs", f"{_cards(data)}; the smallest of {format_bytes(memory)}"),
        ("Engine", data["engine"] + (f" {version}" if version else "")),
        ("Requests at once", f"{data['requests']:,}"),
        ("Longest request", f"{data['length']:,} tokens"),
    ]  # fmt: skip
    if len(data["per_gpu"]) == 1:
        rows[2] = ("GPUs", f"{_cards(data)}; {format_bytes(memory)} of memory each")
    if max(split.values()) > 1:
        ranks, stages, replicas = (split[name] for name in ("tensor_parallel_size", "pipeline_parallel_size", "replicas"))
        rows.insert(3, ("Split", f"tensor parallel {ranks}, pipeline stages {stages}, replicas {replicas}"))
    asked = data.get("asked", {})
    rows += [(name.capitalize(), str(asked[name])) for name in ("prompt", "output") if name in asked]
    if work.get("typical"):
        rows.append(("Mean request", f"{work['mean_tokens']:,.0f} tokens; as many as are there in 95% of the time"))
    names = {
        "shared_prefix_tokens": "Shared prefix", "image_tokens": "Images, tokens", "speculative_tokens": "Draft, tokens",
        "encoder_tokens": "Encoder positions", "samples": "Observed requests",
    }  # fmt: skip
    rows += [(label, f"{work[name]:,}") for name, label in names.items() if work.get(name)]
    if work.get("beams", 1) > 1:
        rows.append(("Beams", str(work["beams"])))
    rows += [("Known", one) for one in asked.get("given", ())]
    rows += [(name, _value(value)) for name, value in data["settings"].items() if name != "version" and value is not None]
    return rows


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _figures(data: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    most, low, high = data["max_requests"], data["max_requests_low"], data["max_requests_high"]
    room, ends = data["headroom_bytes"], (data["headroom_low_bytes"], data["headroom_high_bytes"])
    span = f"{low or 0:,} to {high:,}" if most is not None and high is not None and low != high else ""
    return [
        (f"Most requests at once, of {data['length']:,} tokens", "not limited by memory" if most is None else f"{most:,}", span),
        (f"Longest context with {data['requests']:,} at once", f"{data['max_context']:,}" if data["max_context"] else "none", ""),
        ("Free" if room >= 0 else "Short", format_bytes(abs(room)), _range(*ends)),
        ("KV cache needed", format_bytes(data["kv_need_bytes"]), ""),
        ("KV cache's budget", format_bytes(data["kv_budget_bytes"]), ""),
    ]


def _range(low: int, high: int) -> str:
    return "" if low == high else f"{format_bytes(low)} to {format_bytes(high)}"


def _terms(data: Mapping[str, Any]) -> list[str]:
    """Every use of the memory, and that they add up to the device's total."""
    title = "Memory of one GPU, the fullest" if data["gpus"] > 1 else "Memory of the GPU"
    rows = [
        (term["name"], format_bytes(term["bytes"]), f"{term['bytes']:,}", _range(term["low"], term["high"]), term["confidence"],
         term["source"])
        for term in data["terms"]
    ]  # fmt: skip
    total, uses = data["terms"][0], data["terms"][1:]
    together = sum(term["bytes"] for term in uses)
    says = f"The uses below {total['name']} add up to {together:,} bytes{', all of it' if together == total['bytes'] else ''}."
    return ["", f"## {title}", "", *table(("Use", "Size", "Bytes", "Range", "Confidence", "Source"), rows, (1, 2)), "", says]


def _each(data: Mapping[str, Any]) -> list[str]:
    """Each card, where they differ."""
    if len(data["per_gpu"]) < 2:
        return []
    names = ("memory_bytes", "weight_bytes", "cache_bytes", "other_bytes", "free_bytes")
    rows = [(one["gpu"], *(format_bytes(one[name]) for name in names)) for one in data["per_gpu"]]
    head = ("GPU", "Memory", "Weights", "KV cache", "Other", "Free")
    return ["", "### Each GPU", "", *table(head, rows, range(1, 6))]


def _more(data: Mapping[str, Any]) -> list[str]:
    """The host's memory, what varies over time, and the cost, where the plan has them."""
    lines: list[str] = []
    if data["host"]["tiers"]:
        rows = [(one["name"], format_bytes(one["bytes"]), one["note"]) for one in data["host"]["tiers"]]
        lines += ["", "## Host memory", "", *table(("Tier", "Size of a server", "Note"), rows, (1,))]
    if data["simulation"]:
        found = data["simulation"]
        curve = [(f"{one['share_of_time']:.0%}", f"{one['requests']:,}") for one in found["curve"]]
        waits = "wait" if found["reserves_whole"] else "are preempted"
        lines += ["", "## Over time", "", *table(("Share of the time", "Requests at once that fit"), curve, (0, 1))]
        lines += ["", f"With {found['requests']:,} at once some {waits} in {found['preempted']:.1%} of the time."]
    if data["cost"]:
        found = data["cost"]
        text = f"{found['per_hour']:,.2f} an hour ({found['gpus']} × {found['price_per_gpu_hour']:,.2f})"
        if found["per_million_low"] is not None:
            text += f"; {found['per_million_low']:,.2f} to {found['per_million_high']:,.2f} a million generated tokens, estimated"
        lines += ["", "## Cost", "", plain(text + (f"; {found['note']}" if found["note"] else "")) + "."]
    return lines


def _advice(data: Mapping[str, Any]) -> list[str]:
    if not data["advice"]:
        return []
    rows = [
        (one["text"], format_bytes(one["headroom_bytes"]),
         "no limit" if one["max_requests"] is None else f"{one['max_requests']:,}", f"{one['max_context']:,}")
        for one in data["advice"]
    ]  # fmt: skip
    title = "What the room buys" if data["verdict"] == "fits" else "What would make it fit"
    return ["", f"## {title}", "", *table(("Change", "Then free", "Most requests", "Longest context"), rows, (1, 2, 3))]
