"""llama.cpp and Ollama as they are run: Ollama's defaults, what a budget holds, launch commands, and laws."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import model_configs
import planner
from planner.engines import llama_cpp, llama_cpp_ollama
from planner.engines.llama_cpp_command import command
from planner.errors import EngineRefusal, InputError
from planner.model import Model
from planner.units import GIB, MIB

from .test_llama_cpp import GEMMA, GOLDEN, LLAMA_8B, allocated


class TestOllama:
    """Its defaults, its environment, and the versions that ran something else."""

    def test_environment(self) -> None:
        values = llama_cpp_ollama.from_environment(
            {"OLLAMA_CONTEXT_LENGTH": "8192", "OLLAMA_NUM_PARALLEL": "4", "OLLAMA_KV_CACHE_TYPE": "q8_0",
             "OLLAMA_FLASH_ATTENTION": "1", "OLLAMA_HOST": "0.0.0.0", "PATH": "/bin"}
        )  # fmt: skip
        settings = llama_cpp.Settings(**values)
        assert settings.model_dump(exclude_defaults=True) == {
            "front_end": "ollama", "n_ctx": 32768, "n_seq_max": 4, "cache_type_k": "q8_0", "cache_type_v": "q8_0",
            "flash_attn": "on",
        }  # fmt: skip
        found = llama_cpp.cache_bytes(model_configs.read(LLAMA_8B), settings)
        assert (found.tokens, found.total_bytes) == (8192, 32 * 32768 * 2 * 1024 // 32 * 34)

    @pytest.mark.parametrize(
        "environment",
        [{"OLLAMA_NUM_PARALLEL": "many"}, {"OLLAMA_CONTEXT_LENGTH": "-1"}, {"OLLAMA_KV_CACHE_TYPE": "q6"},
         {"OLLAMA_FLASH_ATTENTION": "2"}],
    )
    def test_values_that_ollama_would_not_understand(self, environment: dict[str, str]) -> None:
        with pytest.raises(InputError) as failure:
            llama_cpp_ollama.from_environment(environment)
        assert failure.value.fields["field"] in environment

    def test_the_context_follows_the_gpu(self) -> None:
        """262,144 from 47 GiB on but never more than trained, 32,768 from 23 GiB, else 4,096; 2,048 and 4,096 in old versions."""
        model = model_configs.read(LLAMA_8B)
        settings = llama_cpp.Settings(front_end="ollama")
        contexts = {
            gpu: llama_cpp.pool(model, settings, budget_bytes=10 * GIB, gpu=gpu).details["n_ctx"]
            for gpu in ("h100", "4090", "12GiB")
        }
        assert contexts == {"h100": 131072, "4090": 32768, "12GiB": 4096}
        assert allocated(model, front_end="ollama", version="0.5.4").n_ctx == 2048
        assert any("OLLAMA_CONTEXT_LENGTH" in text for text in llama_cpp.cache_bytes(model, settings).warnings)

    def test_its_own_engine_is_not_guessed(self) -> None:
        with pytest.raises(InputError, match="engine of its own"):
            allocated(model_configs.read(LLAMA_8B), front_end="ollama", version="0.11.4")

    def test_hybrids_get_one_slot(self) -> None:
        metadata = GOLDEN["logs"]["lc-qwen35-9b-rs"]["metadata"]
        found = allocated(model_configs.read(metadata), front_end="ollama", n_ctx=16384, n_seq_max=4)
        assert (found.requests, found.n_ctx) == (1, 4096)
        assert any("one slot" in text for text in found.warnings)


class TestPool:
    """What a budget holds."""

    def test_the_largest_context_fits_and_one_step_more_does_not(self) -> None:
        model, budget = model_configs.read(GEMMA), 20 * GIB
        for front_end in ("cli", "server", "ollama"):
            settings = llama_cpp.Settings(front_end=front_end, n_ctx=8192, n_seq_max=2)
            pool = llama_cpp.pool(model, settings, budget_bytes=budget)
            assert pool.fits
            assert pool.num_blocks * 256 == pool.tokens
            at = settings.model_copy(update={"n_ctx": pool.tokens})
            after = settings.model_copy(update={"n_ctx": pool.tokens + 512})
            assert llama_cpp.cache_bytes(model, at).total_bytes <= budget < llama_cpp.cache_bytes(model, after).total_bytes

    def test_slots(self) -> None:
        """Llama-3.1-8B at 8,192 tokens takes 1 GiB a slot."""
        model = model_configs.read(LLAMA_8B)
        pool = llama_cpp.pool(model, llama_cpp.Settings(n_ctx=8192), budget_bytes=10 * GIB + 5)
        assert (pool.max_concurrency, pool.tokens, pool.bytes_per_block, pool.max_model_len) == (10.0, 81920, 32 * MIB, 8192)

    def test_an_open_context_is_lowered_to_what_fits(self) -> None:
        model = model_configs.read(LLAMA_8B)
        pool = llama_cpp.pool(model, llama_cpp.Settings(front_end="cli"), budget_bytes=4 * GIB)
        assert not pool.fits
        assert pool.max_model_len == 32768

    def test_states_do_not_grow(self) -> None:
        model = model_configs.read(GOLDEN["gguf"]["tiny-mamba"]["metadata"])
        pool = llama_cpp.pool(model, llama_cpp.Settings(n_ctx=512), budget_bytes=GIB)
        assert pool.fits
        assert (pool.num_blocks, pool.bytes_per_block) == (0, 0)


def test_launch_commands() -> None:
    """The command that a person can paste says what was planned, in each front end's own words."""
    model = model_configs.read(LLAMA_8B)
    settings = {"n_ctx": 8192, "n_seq_max": 2, "cache_type_k": "q8_0", "cache_type_v": "q8_0", "flash_attn": "on"}
    commands = {
        name: llama_cpp.launch_command(model, llama_cpp.Settings(front_end=name, **settings))
        for name in ("server", "cli", "ollama", "library")
    }
    assert commands["server"].split()[:1] == ["llama-server"]
    assert "-c 8192 -np 2 -ctk q8_0 -ctv q8_0 -fa on" in commands["server"]
    assert commands["ollama"].startswith("OLLAMA_CONTEXT_LENGTH=4096 OLLAMA_NUM_PARALLEL=2 OLLAMA_KV_CACHE_TYPE=q8_0")
    assert "n_ctx=8192, flash_attn=True, type_k=8, type_v=8" in commands["library"]
    assert planner.engine("llama.cpp") is llama_cpp
    assert commands["server"].endswith(" -ngl 99 --split-mode layer")
    assert commands["cli"].endswith(" -ngl 99 --split-mode layer")
    assert "n_gpu_layers=-1" in commands["library"]


def test_launch_command_splits_over_the_cards() -> None:
    """Several cards are named by their shares of memory: 24,074 and 12,029 MiB are what PyTorch has of a 4090 and a 3060."""
    model = model_configs.read(LLAMA_8B)
    big, small = planner.hardware.gpu("4090"), planner.hardware.gpu("3060")
    server, library = llama_cpp.Settings(front_end="server", n_ctx=512), llama_cpp.Settings()
    words = "llama-server -m model.gguf -c 512 -ngl 99 --split-mode layer"
    named = replace(model, name="model")
    assert command(named, server) == command(named, server, [big]) == words
    assert command(named, server, [big, big]) == f"{words} --tensor-split 1,1"
    assert command(named, server, [big, small]) == f"{words} --tensor-split 24074,12029"
    assert "n_gpu_layers=-1, tensor_split=[24074, 12029]" in command(named, library, [big, small])
    assert "'it'\"'\"'s x.gguf'" in command(replace(model, name="it's x"), server)


@pytest.mark.parametrize(("layers", "number"), [(98, 99), (99, 999)])
def test_all_layers_and_the_output_go_to_the_gpu(layers: int, number: int) -> None:
    """99 takes 98 layers and the output; a model with more of them needs a larger number."""
    model = model_configs.read(LLAMA_8B)
    deep = replace(model, layers=(model.layers[0],) * layers, engine_layers={})
    assert f"-ngl {number} " in command(deep, llama_cpp.Settings(front_end="server"))


MODELS = [model_configs.read(GOLDEN["gguf"][name]["metadata"]) for name in GOLDEN["gguf"]]
WIDTHS = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "f16", "f32"]


@hypothesis_settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(MODELS), st.integers(1, 70_000), st.integers(0, 5_000), st.integers(1, 9), st.integers(0, 4), st.booleans(),
    st.booleans(), st.sampled_from(WIDTHS[:-1]),
)  # fmt: skip
def test_more_never_takes_less(
    model: Model, n_ctx: int, more: int, slots: int, more_slots: int, unified: bool, swa_full: bool, kind: str
) -> None:
    """Law: more cells, more sequences at the same share, or a wider type never take less memory."""
    base = {"n_ctx": n_ctx * slots, "n_seq_max": slots, "kv_unified": unified, "swa_full": swa_full,
            "cache_type_k": kind, "cache_type_v": kind}  # fmt: skip
    try:
        least = allocated(model, **base).total_bytes
    except EngineRefusal:
        return
    assert allocated(model, **{**base, "n_ctx": (n_ctx + more) * slots}).total_bytes >= least
    both = slots + more_slots
    assert allocated(model, **{**base, "n_ctx": n_ctx * both, "n_seq_max": both}).total_bytes >= least
    wider = WIDTHS[WIDTHS.index(kind) + 1]
    assert allocated(model, **{**base, "cache_type_k": wider, "cache_type_v": wider}).total_bytes >= least


@hypothesis_settings(max_examples=60, deadline=None)
@given(st.sampled_from(MODELS), st.integers(1, 2**34), st.integers(1, 5), st.booleans(), st.integers(1, 20_000))
def test_what_a_budget_holds_fits_and_one_more_does_not(
    model: Model, budget: int, slots: int, unified: bool, n_ctx: int
) -> None:
    """Law: blocks never exceed the budget, the largest context and the most slots fit, and a step more of either does not."""
    settings = llama_cpp.Settings(n_ctx=n_ctx * slots, n_seq_max=slots, kv_unified=unified, swa_full=False)
    try:
        pool = llama_cpp.pool(model, settings, budget_bytes=budget)
    except EngineRefusal:
        return
    assert pool.num_blocks * pool.bytes_per_block <= budget
    base = settings.model_dump(exclude={"n_ctx", "n_seq_max"})
    step = 256 if unified else 256 * slots
    if pool.num_blocks:
        assert allocated(model, **base, n_ctx=pool.tokens, n_seq_max=slots).total_bytes <= budget
        assert allocated(model, **base, n_ctx=pool.tokens + step, n_seq_max=slots).total_bytes > budget
    most = int(pool.max_concurrency)
    share = pool.details["n_ctx"] if unified else pool.details["n_ctx"] // slots
    if 0 < most < 256:
        assert allocated(model, **base, n_ctx=share * most, n_seq_max=most).total_bytes <= budget
        assert allocated(model, **base, n_ctx=share * (most + 1), n_seq_max=most + 1).total_bytes > budget
    assert pool.fits == (pool.details["total_bytes"] <= budget)
