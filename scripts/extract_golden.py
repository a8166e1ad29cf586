"""Makes tests/golden/transformers.yaml from the full truth sets: a few rows of every model type, with only the config words
that were read, so that a clone without the truth sets still proves every family.

Usage: python scripts/extract_golden.py TRUTH_FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

import model_configs
from model_configs.build import Builder
from model_configs.decoder import decoder
from model_configs.families import table

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "tests/golden/transformers.yaml"
HEAD = """# Bytes of real transformers 5.24 caches, a few rows of every model type.
#
# tiny: real generate(use_cache=True) of tiny random models on the CPU, torch 2.13. real: full-size configs on the meta device.
# config: the words that decide the cache, and no others. rows: [implementation, dtype, batch, prompt, new tokens, positions
# held, encoder positions, bytes of the cache tensors]; quantized rows add their cache_config.
# Made by scripts/extract_golden.py from measured rows; the bytes are never computed by the planner.
"""


def compact(config: dict[str, Any]) -> dict[str, Any]:
    """The words of `config` that its family's rule reads, in their place in the file."""
    words = decoder(config)
    family = table().by_type[words.model_type]
    Builder(family, words).build()
    read = words.read | {"model_type"} | set(family.lists)
    part = {k: v for k, v in words.given.items() if k in read and not k.startswith("max_")}
    if words.given is config:
        return part
    name = next(n for n in table().parts if config.get(n) is words.given or isinstance(config.get(n), dict))
    inner = {"text_config": part} if config[name] is not words.given else part
    return {"model_type": config["model_type"], name: inner}


def picked(rows: list[dict[str, Any]]) -> list[list[Any]]:
    """The longest row of each implementation and dtype."""
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        key = (row["cache_implementation"], row["dtype"])
        if key not in best or (row["cached_len"] or 0) > (best[key]["cached_len"] or 0):
            best[key] = row
    found = []
    for row in best.values():
        held = row["cached_len"] if row["cached_len"] is not None else row["expected_len"]
        found.append([
            row["cache_implementation"], row["dtype"], row["batch"], row["prompt_len"], row["new_tokens"], held,
            row.get("encoder_len") or 0, row["total_bytes"], *([row["cache_config"]] if row.get("cache_config") else []),
        ])  # fmt: skip
    return found


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def main(truth: Path) -> None:
    by_config: dict[str, list[dict[str, Any]]] = {}
    for row in json_lines(truth / "truth/transformers.jsonl"):
        by_config.setdefault(row["config_id"], []).append(row)
    tiny, types = {}, set()
    for row in json_lines(truth / "truth/transformers_configs.jsonl"):
        key = (row["model_type"], row["variant"])
        wanted = row["variant"] in ("base", "mqa", "win_exact", "kvshared", "keqv") and key not in types
        if (wanted or row["model_type"] not in {known for known, _ in types}) and row["config_id"] in by_config:
            types.add(key)
            tiny[row["config_id"]] = {"config": compact(row["config"]), "rows": picked(by_config[row["config_id"]])}
    real, seen = {}, set()
    for row in json_lines(truth / "truth/transformers_real.jsonl"):
        name = row.get("config_file")
        if not name or not row["layers"] or (row["model_type"] in seen and row["name"] not in real):
            continue
        seen.add(row["model_type"])
        config = json.loads((truth / "hf_configs" / name).read_text("utf-8"))
        entry = real.setdefault(row["name"], {"config": compact(config), "rows": []})
        entry["rows"] = [*entry["rows"], *picked([row])]
    for entries in (tiny, real):
        for name, entry in entries.items():
            model_configs.read(entry["config"])  # the extract must read by itself
            assert entry["rows"], name
    lines = [HEAD]
    for title, entries in (("tiny", tiny), ("real", real)):
        lines.append(f"{title}:")
        for name, entry in sorted(entries.items()):
            lines.append(f"  {json.dumps(name)}:")
            lines.append(f"    config: {json.dumps(entry['config'])}")
            lines += ["    rows:", *(f"    - {json.dumps(row)}" for row in entry["rows"])]
    OUT.write_text("\n".join(lines) + "\n", "utf-8")
    yaml.safe_load(OUT.read_text("utf-8"))
    print(len(tiny), "tiny,", len(real), "real,", OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
