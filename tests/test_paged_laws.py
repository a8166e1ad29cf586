"""Laws of the engines with paged pools, over models of every kind that they keep."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import planner
from planner.engines.base import Engine
from planner.errors import EngineRefusal
from planner.model import Model
from planner.units import GIB, MIB
from validation import coverage_logs

GOLDEN = coverage_logs.load(coverage_logs.GOLDEN)
MODELS: dict[str, Model] = {name: coverage_logs.model_of(GOLDEN, {"model": name}) for name in GOLDEN["models"]}
ENGINES = ["sglang", "tensorrt-llm", "tgi"]
TP = {"sglang": "tensor_parallel_size", "tensorrt-llm": "tensor_parallel_size", "tgi": "num_shard"}
BLOCK = {
    "sglang": ("page_size", [1, 16, 64]),
    "tensorrt-llm": ("tokens_per_block", [32, 64]),
    "tgi": ("attention", ["flashinfer", "paged"]),
}
DTYPES = {
    "sglang": ["nvfp4", "mxfp8", "bfloat16", "float32"],
    "tensorrt-llm": ["nvfp4", "fp8", "float16", "float32"],
    "tgi": ["fp8_e4m3fn", "auto"],
}

names, engines, counts = st.sampled_from(sorted(MODELS)), st.sampled_from(ENGINES), st.integers(0, 50_000)


def taken(engine: Engine, model: Model, values: dict[str, Any], tokens: int, requests: int = 1) -> int:
    """Bytes, or no example where the engine refuses the combination."""
    try:
        return engine.cache_bytes(model, engine.Settings(**values), tokens, requests).total_bytes
    except EngineRefusal:
        assume(False)
        raise


def sized(name: str, model: Model, values: dict[str, Any], budget: int) -> Any:
    engine: Any = planner.engine(name)
    try:
        return engine.pool(model, engine.Settings(**values), budget)
    except EngineRefusal:
        assume(False)
        raise


@given(names, engines, counts, counts, st.integers(1, 40), st.integers(1, 40), st.integers(0, 2))
@settings(max_examples=150, deadline=None)
def test_more_never_takes_less(model: str, name: str, few: int, more: int, one: int, many: int, block: int) -> None:
    engine, flag = planner.engine(name), BLOCK[name]
    values = {flag[0]: flag[1][block % len(flag[1])]}
    few, more, one, many = min(few, more), max(few, more), min(one, many), max(one, many)
    least = taken(engine, MODELS[model], values, few, one)
    assert least <= taken(engine, MODELS[model], values, more, one)
    assert least <= taken(engine, MODELS[model], values, few, many)


@given(names, engines, st.integers(1, 20_000))
@settings(max_examples=60, deadline=None)
def test_a_wider_dtype_never_takes_less(model: str, name: str, tokens: int) -> None:
    engine = planner.engine(name)
    sizes = [taken(engine, MODELS[model], {"kv_cache_dtype": dtype}, tokens) for dtype in DTYPES[name]]
    assert sizes == sorted(sizes)


@given(names, engines, st.integers(1, 20_000), st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_more_ranks_never_hold_more(model: str, name: str, tokens: int, requests: int) -> None:
    """And never less than a fair share."""
    engine, sizes = planner.engine(name), []
    for ranks in (1, 2, 4, 8, 16):
        try:
            cache = engine.cache_bytes(MODELS[model], engine.Settings(**{TP[name]: ranks}), tokens, requests)
        except EngineRefusal:
            continue
        sizes.append((ranks, cache.total_bytes))
    assert [size for _, size in sizes] == sorted((size for _, size in sizes), reverse=True)
    assert all(size * ranks >= sizes[0][1] for ranks, size in sizes)


@given(names, engines, st.integers(0, 200 * GIB), st.integers(0, 2), st.sampled_from([1, 2, 3]))
@settings(max_examples=150, deadline=None)
def test_a_pool_never_exceeds_its_budget(model: str, name: str, budget: int, block: int, stages: int) -> None:
    flag = BLOCK[name]
    values: dict[str, Any] = {flag[0]: flag[1][block % len(flag[1])]}
    if name != "tgi":
        values["pipeline_parallel_size"] = stages
    pool = sized(name, MODELS[model], values, budget)
    assert pool.num_blocks * pool.bytes_per_block <= budget
    if name == "sglang":
        held = pool.details["kv_bytes"] - pool.details["padding_bytes"]
        states = pool.details.get("conv_bytes", 0) + pool.details.get("ssm_bytes", 0)
        assert held + states <= budget or not pool.tokens


@given(names, engines, st.integers(64 * MIB, 200 * GIB), st.integers(0, 2))
@settings(max_examples=150, deadline=None)
def test_the_solved_length_fits_and_one_more_does_not(model: str, name: str, budget: int, block: int) -> None:
    flag = BLOCK[name]
    values: dict[str, Any] = {flag[0]: flag[1][block % len(flag[1])]}
    described = MODELS[model]
    found = sized(name, described, {**values, "max_model_len": -1}, budget).max_model_len
    assume(found > 0)
    assert sized(name, described, {**values, "max_model_len": found}, budget).fits
    if found != described.max_context:
        assert not sized(name, described, {**values, "max_model_len": found + 1}, budget).fits


@given(names, engines, st.integers(GIB, 200 * GIB), st.integers(1, 30_000))
@settings(max_examples=150, deadline=None)
def test_as_many_requests_as_the_pool_serves_stay_within_the_budget(model: str, name: str, budget: int, length: int) -> None:
    engine, described = planner.engine(name), MODELS[model]
    pool = sized(name, described, {"max_model_len": length}, budget)
    many = int(pool.max_concurrency)
    assume(many >= 1)
    assert taken(engine, described, {}, length, many) <= budget


@pytest.mark.parametrize("name", ENGINES)
def test_results_name_every_layer(name: str) -> None:
    """As many layers as the model has, also on a pipeline stage of few."""
    engine = planner.engine(name)
    values = {} if name == "tgi" else {"pipeline_parallel_size": 2}
    cache = engine.cache_bytes(MODELS["llama-3.1-8b"], engine.Settings(**values), 100)
    assert [layer.index for layer in cache.layers] == list(range(32))
    assert cache.rule is not None


ODD = "a b/it's; $(rm x) `y` \"z\" & #é"


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        (
            "sglang", {"tp_size": 2, "attention_backend": "a; b", "disable_radix_cache": True},
            ["python", "-m", "sglang.launch_server", "--model-path", ODD, "--tensor-parallel-size", "2", "--attention-backend",
             "a; b", "--disable-radix-cache"],
        ),
        ("tensorrt-llm", {"tp_size": 2, "max_seq_len": 5}, ["trtllm-serve", ODD, "--tp_size", "2", "--max_seq_len", "5"]),
        (
            "tgi", {"num_shard": 2, "attention": "paged"},
            ["ATTENTION=paged", "text-generation-launcher", "--model-id", ODD, "--num-shard", "2"],
        ),
        ("vllm", {"tensor_parallel_size": 2}, ["vllm", "serve", ODD, "--tensor-parallel-size", "2"]),
    ],
)  # fmt: skip
def test_a_shell_reads_the_command_as_it_was_meant(name: str, values: dict[str, Any], words: list[str]) -> None:
    """A model's name stays one word and is never run, whatever characters it has."""
    engine: Any = planner.engine(name)
    model = replace(MODELS["llama-3.1-8b"], name=ODD)
    assert shlex.split(engine.launch_command(model, engine.Settings(**values))) == words


def test_what_trtllm_serve_has_no_flag_for_is_in_its_yaml() -> None:
    engine: Any = planner.engine("tensorrt-llm")
    values = {"enable_attention_dp": True, "kv_cache_dtype": "fp8", "tokens_per_block": 64, "max_attention_window": [128, 4096]}
    file, command = engine.launch_command(replace(MODELS["llama-3.1-8b"], name=ODD), engine.Settings(**values)).split("\nEND\n")
    head, body = file.split("\n", 1)
    assert head == "cat > options.yaml <<'END'"
    assert yaml.safe_load(body) == {
        "enable_attention_dp": True,
        "kv_cache_config": {"dtype": "fp8", "tokens_per_block": 64, "max_attention_window": [128, 4096]},
    }
    assert shlex.split(command) == ["trtllm-serve", ODD, "--extra_llm_api_options", "options.yaml"]


@pytest.mark.parametrize(
    ("name", "settings", "known", "missing"),
    [
        # (80 - 1) x 0.9 - 75; 80 - 85 - 1 - 1; 80 - 87 - 0.1 x 80
        ("sglang", {"mem_fraction_static": 0.9}, {"weights": 75 * GIB, "non-torch": GIB}, -3.9),
        ("tensorrt-llm", {}, {"weights": 85 * GIB, "non-torch": GIB, "activations": GIB}, -7.0),
        ("tgi", {}, {"weights": 85 * GIB, "non-torch": GIB, "activations": GIB}, -15.0),
    ],
)
def test_a_plan_tells_the_whole_shortfall(
    name: str, settings: dict[str, Any], known: dict[str, int], missing: float
) -> None:
    """The shortfall is what the budget lacks and the 16 GiB of a request of 131,072 tokens besides."""
    plan = planner.plan(MODELS["llama-3.1-8b"], engine=name, gpu="80 GiB", settings=settings, given=known)
    assert plan.kv_bytes / GIB == pytest.approx(missing, abs=1e-6)
    assert plan.headroom_bytes / GIB == pytest.approx(missing - 16, abs=0.001)
    assert (plan.verdict, plan.max_requests) == ("does_not_fit", 0)
