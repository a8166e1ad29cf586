"""Publicly reported wrong estimates, asked here: the cases of `golden/peers.yaml` whose answer the architecture decides."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import model_configs
from planner import CacheBytes, Model, architecture_bytes, engine
from planner.layers import State

GOLDEN = Path(__file__).parent / "golden" / "peers.yaml"
UNITS = {"B": 1, "MiB": 1024**2, "GiB": 1024**3}
WIDTHS = {"float16": 2, "bfloat16": 2, "float32": 4}


@cache
def golden() -> dict[str, Any]:
    """The parsed file."""
    data: dict[str, Any] = yaml.safe_load(GOLDEN.read_text(encoding="utf-8"))
    return data


def cases(question: str) -> Any:
    return pytest.mark.parametrize("case", golden()[question], ids=lambda case: str(case["id"]))


def read(case: dict[str, Any]) -> Model:
    """The case's model, as if its checkpoint had the case's dtype."""
    return model_configs.read({**case["config"], "torch_dtype": case.get("dtype", "bfloat16")})


def count(model: Model, case: dict[str, Any]) -> CacheBytes:
    """The case's cache: transformers' static buffers where the report counts whole windows, else the architecture's."""
    tokens, requests, encoder_tokens = case["tokens"], case.get("requests", 1), case.get("encoder_tokens", 0)
    if case.get("cache") == "static":
        transformers = engine("transformers")
        settings = transformers.Settings(cache_implementation="static")
        return transformers.cache_bytes(model, settings, tokens, requests, encoder_tokens)
    return architecture_bytes(model, tokens, requests, encoder_tokens=encoder_tokens)


def by_kind(model: Model, counted: CacheBytes) -> dict[str, int]:
    """Bytes of each kind of cache, of everything, and of the float32 matrices of recurrent layers."""
    found = {"total": counted.total_bytes}
    for layer in counted.layers:
        for part in layer.parts:
            found[part.kind] = found.get(part.kind, 0) + part.bytes
    states = [t for layer in model.layers for c in layer.caches if isinstance(c, State) for t in c.states]
    found["float32 state"] = counted.requests * sum(4 * t.elements for t in states if t.dtype == "float32")
    return found


@cases("bytes")
def test_bytes_that_others_got_wrong(case: dict[str, Any]) -> None:
    """The reported model, length and dtype give the right bytes, to the byte, and not the figure that was reported."""
    model = read(case)
    found = by_kind(model, count(model, case))
    assert {kind: found.get(kind) for kind in case["expect"]} == case["expect"]
    if "wrong" in case:
        size, unit = case["wrong"].split()
        assert abs(found[next(iter(case["expect"]))] / (float(size) * UNITS[unit]) - 1) > 0.02


@cases("layers")
def test_layers_that_others_got_wrong(case: dict[str, Any]) -> None:
    """As many layers keep a cache of each kind as the model really has."""
    assert read(case).kinds == case["expect"]


@cases("stages")
def test_stages_that_others_got_wrong(case: dict[str, Any]) -> None:
    """A stage of a model takes the bytes of its own layers, not those of the whole model."""
    sizes, start = [], 0
    layers = count(read(case), case).layers
    for length in case["cut"]:
        sizes.append(sum(layer.bytes for layer in layers[start : start + length]))
        start += length
    assert start == len(layers)
    assert sizes == case["expect"]


@cases("widths")
def test_widths_that_others_got_wrong(case: dict[str, Any]) -> None:
    """Keys and values of one position take their own widths and head counts in each kind of layer."""
    found: dict[str, list[int]] = {}
    for layer in read(case).layers:
        for part in layer.caches:
            keys, values = (t.elements * WIDTHS[case["dtype"]] for t in part.tensors(1))
            sums = found.setdefault(part.kind, [0, 0])
            sums[0] += keys
            sums[1] += values
    assert found == case["expect"]


def test_the_golden_cases_say_where_they_come_from() -> None:
    """Each case is named once in its group, says what was asked, and has a source."""
    for question in ("bytes", "layers", "stages", "widths"):
        names = [case["id"] for case in golden()[question]]
        assert len(set(map(str, names))) == len(names)
        assert all(case["asked"] and case["source"] for case in golden()[question])
