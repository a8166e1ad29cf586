"""How well the planner agrees with real caches: every row of the truth sets against the prediction, and the tables of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import model_configs
from model_configs.families import table
from planner.cache import CacheBytes, CachePart, LayerBytes
from planner.engines import transformers
from planner.errors import EngineRefusal, PlannerError
from planner.model import Model

ROOT = Path(__file__).resolve().parent.parent
Row = Mapping[str, Any]


@dataclass
class Tally:
    """Rows compared, and the ones that were refused or differ, by what was compared."""

    rows: int = 0
    refused: list[str] = field(default_factory=list)
    bytes_differ: list[str] = field(default_factory=list)
    layers_differ: list[str] = field(default_factory=list)

    @property
    def supported(self) -> int:
        return self.rows - len(self.refused)

    @property
    def exact(self) -> int:
        return self.supported - len(self.bytes_differ)

    @property
    def layers_exact(self) -> int:
        return self.supported - len(self.layers_differ)


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def predict(model: Model, row: Row) -> CacheBytes:
    """Our bytes for a truth row: its implementation, dtype, batch and lengths."""
    implementation, _, backend = row["cache_implementation"].partition("-")
    settings: dict[str, Any] = {"dtype": row["dtype"]}
    if implementation in ("static", "quantized"):
        settings["cache_implementation"] = implementation
    if implementation == "quantized":
        given = row.get("cache_config") or {}
        settings.update(backend=backend, **{k: given[k] for k in ("nbits", "q_group_size", "residual_length") if k in given})
    tokens = row["cached_len"] if row["cached_len"] is not None else row["expected_len"]
    return transformers.cache_bytes(
        model, transformers.Settings(**settings), tokens=tokens, requests=row["batch"],
        encoder_tokens=row.get("encoder_len") or 0, prompt_tokens=max(0, tokens - (row["new_tokens"] - 1)),
    )  # fmt: skip


#: transformers' layer classes and the kinds of ours that they hold.
_CLASSES = {
    "QuantoQuantizedLayer": {"full", "latent"},
    "HQQQuantizedLayer": {"full", "latent"},
    "Fp8QuantizedLayer": {"full", "latent"},
    "DynamicLayer": {"full", "latent", "cross"},
    "StaticLayer": {"full", "latent", "cross"},
    "DynamicSlidingWindowLayer": {"sliding", "chunked", "latent"},
    "StaticSlidingWindowLayer": {"sliding", "chunked", "latent"},
    "LinearAttentionLayer": {"state"},
    "LinearAttentionAndFullAttentionLayer": {"full+state"},
    "LinearAttentionAndStaticFullAttentionLayer": {"full+state"},
    "LinearAttentionAndSlidingWindowAttentionLayer": {"sliding+state"},
    "LinearAttentionAndStaticSlidingWindowAttentionLayer": {"sliding+state"},
    "DynamicIndexedLayer": {"indexed"},
    "StaticIndexedLayer": {"indexed"},
    "MiniMaxM3VLSparseCacheLayer": {"indexed"},
    "MiniMaxM3VLSparseStaticCacheLayer": {"indexed"},
    "DummyLayer": {"shared", "none"},
    "DeepseekV4HCACache": {"compressed"},
    "DeepseekV4CSACache": {"compressed"},
    "UnlimitedOcrDynamicReferenceSlidingWindowLayer": {"sliding"},
    "UnlimitedOcrStaticReferenceSlidingWindowLayer": {"sliding"},
    "Tensor": {"state", "full"},
}


def layers_agree(cache: CacheBytes, row: Row) -> bool:
    """Whether each layer's bytes, kind, window and widths are those that were measured."""
    spread = [entry for entry in row["layers"] for _ in range(entry["n"])]
    own = [entry for entry in spread if entry.get("part") != "cross"]
    cross = [entry for entry in spread if entry.get("part") == "cross"]
    ours = [_self_part(layer) for layer in cache.layers]
    crossing = [part for layer in cache.layers for part in layer.parts if part.kind == "cross"] if cross else []
    # A cache class made as long as a deeper encoder leaves empty layers at its end.
    while len(own) > len(ours) and not own[-1]["bytes"]:
        own.pop()
    while len(cross) > len(crossing) and not cross[-1]["bytes"]:
        cross.pop()
    return (
        len(own) == len(ours)
        and len(cross) == len(crossing)
        and all(_layer_agrees(layer, entry, row) for layer, entry in zip(ours, own, strict=True))
        and all(part.bytes == entry["bytes"] for part, entry in zip(crossing, cross, strict=True))
    )


def _self_part(layer: LayerBytes) -> LayerBytes:
    """The layer without the encoder's keys and values, which transformers keeps in a cache of its own."""
    parts = tuple(part for part in layer.parts if part.kind != "cross") if len(layer.parts) > 1 else layer.parts
    return layer if parts == layer.parts else LayerBytes(layer.index, "+".join(part.kind for part in parts), parts)


def _layer_agrees(layer: LayerBytes, entry: Row, row: Row) -> bool:
    kinds = _CLASSES.get(entry["kind"], set())
    if entry["kind"].endswith("IndexedLayer") and "indexer_keys" not in entry.get("state_shapes", {}):
        kinds = {"latent", "shared"}  # it chooses positions with another layer's indexer
    if entry["bytes"] == 0 and layer.kind == "none":
        kinds = {"none"}  # nothing was stored, or the state lives in the module
    if entry["bytes"] != layer.bytes or layer.kind not in kinds:
        return False
    part = layer.parts[0] if layer.parts else None
    return part is None or _part_agrees(part, entry, row)


def _part_agrees(part: CachePart, entry: Row, row: Row) -> bool:
    if entry["kind"].endswith("QuantizedLayer") or "Reference" in entry["kind"]:
        return True  # the stored shapes are those of packed groups, and of the prompt apart from the window
    window = entry.get("sliding")
    if window is not None:
        static = row["cache_implementation"] == "static"
        if part.window is None or window != (min(part.window, row["cached_len"]) if static else part.window):
            return False
    for name, width in (("k_shape", part.k_dim), ("v_shape", part.v_dim)):
        shape = entry.get(name)
        if not shape or width is None:
            continue
        held = shape[-2] if part.kind == "compressed" else part.positions  # whose window is a part of its positions
        if shape[-1] != width or shape[-2] != held:
            return False
    return True


def compare(models: Iterable[tuple[str, Model | PlannerError, Row]]) -> Tally:
    """Each row's bytes and layers against the prediction of its model; refusals are listed, not skipped."""
    tally = Tally()
    for name, model, row in models:
        tally.rows += 1
        label = f"{name} {row['cache_implementation']} {row['dtype']} b{row['batch']} L{row['cached_len']}"
        if isinstance(model, PlannerError):
            tally.refused.append(f"{label}: {model.message}")
            continue
        try:
            cache = predict(model, row)
        except EngineRefusal as error:
            tally.refused.append(f"{label}: {error.message}")
            continue
        if cache.total_bytes != row["total_bytes"]:
            tally.bytes_differ.append(f"{label}: ours {cache.total_bytes}, measured {row['total_bytes']}")
        if not layers_agree(cache, row):
            tally.layers_differ.append(label)
    return tally


def read_or_refusal(source: Any) -> Model | PlannerError:
    try:
        return model_configs.read(source)
    except PlannerError as error:
        return error


def tiny_tallies(truth: Path) -> dict[str, Tally]:
    """Real generation of tiny random models, by cache implementation."""
    configs = {row["config_id"]: row["config"] for row in json_lines(truth / "truth/transformers_configs.jsonl")}
    models = {name: read_or_refusal(config) for name, config in configs.items()}
    by_kind: dict[str, list[tuple[str, Model | PlannerError, Row]]] = {"dynamic": [], "static": [], "quantized": []}
    for row in json_lines(truth / "truth/transformers.jsonl"):
        kind = row["cache_implementation"].partition("-")[0]
        by_kind[kind].append((row["config_id"], models[row["config_id"]], row))
    return {kind: compare(found) for kind, found in by_kind.items()}


def real_tally(truth: Path) -> Tally:
    """Full-size models, read from the raw config.json that each row names."""
    files: dict[str, Model | PlannerError] = {}
    found = []
    for row in json_lines(truth / "truth/transformers_real.jsonl"):
        if not row.get("config_file") or not row["layers"]:
            continue
        name = row["config_file"]
        if name not in files:
            files[name] = read_or_refusal(truth / "hf_configs" / name)
        found.append((name, files[name], row))
    return compare(found)


def config_files(truth: Path) -> dict[str, Model | PlannerError]:
    """Every config.json of the truth set, read or refused."""
    return {path.name: read_or_refusal(path) for path in sorted((truth / "hf_configs").glob("*.json"))}


def measure(truth: Path) -> dict[str, Any]:
    """All figures that the documents state."""
    tiny, files = tiny_tallies(truth), config_files(truth)
    return {**tiny, "real": real_tally(truth), "files": files}


def summary(figures: Mapping[str, Any]) -> str:
    """The table of README.md."""
    names = {
        "dynamic": "dynamic cache, real generation of tiny models",
        "static": "static cache, the same",
        "quantized": "quantized cache (quanto, hqq, fp8), the same",
        "real": "full-size models from their raw config.json",
    }
    lines = ["| compared with transformers 5.24 | rows | read | bytes equal | every layer equal |", "|---|---|---|---|---|"]
    for key, text in names.items():
        t = figures[key]
        shares = (_share(part, t.rows) for part in (t.supported, t.exact, t.layers_exact))
        lines.append(f"| {text} | {t.rows:,} | {' | '.join(shares)} |")
    files = figures["files"]
    good = sum(isinstance(model, Model) for model in files.values())
    lines.append(f"| public config.json files | {len(files):,} | {_share(good, len(files))} | | |")
    return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    percent = 100 * part / whole if whole else 100.0
    text = "100%" if part == whole else f"{min(percent, 99.99):.2f}%"
    return f"{part:,} ({text})"


def document(figures: Mapping[str, Any]) -> str:
    """The generated part of docs/COVERAGE.md: the table, what differs and why, and which model types are known."""
    known = sorted({*table().by_type, *table().composites, *table().spellings}, key=str.lower)
    lines = [summary(figures), "", "### Rows that differ or are refused", ""]
    listed = False
    for key in ("dynamic", "static", "quantized", "real"):
        for what, rows in (("refused", figures[key].refused), ("bytes", figures[key].bytes_differ)):
            listed = listed or bool(rows)
            lines += [f"* {key}, {what}: {row}" for row in rows]
    refused = [(name, model) for name, model in figures["files"].items() if not isinstance(model, Model)]
    lines += [f"* {name}: {error.message}" for name, error in refused]
    if not listed and not refused:
        lines.append("None.")
    lines += ["", "### Rows whose total is equal and whose layers are not laid out as ours", ""]
    types: dict[str, int] = {}
    for key in ("dynamic", "static", "quantized", "real"):
        for row in figures[key].layers_differ:
            name = re.sub(r"^\w+/", "", row.split(" ")[0]).split("/")[0]
            types[name] = types.get(name, 0) + 1
    lines += [f"* {name}: {count} rows" for name, count in sorted(types.items())] or ["None."]
    lines += ["", f"### Model types read ({len(known)})", "", ", ".join(f"`{name}`" for name in known)]
    return "\n".join(lines)


def truth_folder() -> Path | None:
    folder = Path(os.environ.get("PLANNER_TRUTH") or ROOT.parent / "shared")
    return folder if (folder / "truth").is_dir() else None
