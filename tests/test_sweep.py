"""Sweeps: the closed form is the scalar path to the byte, columns and CSV say the same, and what is refused."""

from __future__ import annotations

import csv
import io
import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import model_configs
from planner import cli
from planner.cache import architecture_bytes
from planner.cli_sweep import counts
from planner.engines import ENGINES, vllm
from planner.engines import engine as find_engine
from planner.errors import InputError, PlannerError
from planner.hardware import gpu
from planner.model import Model
from planner.sweep import ARCHITECTURE, Grid, Variant, form_of, points, sweep
from planner.sweep_budget import cache_budget
from planner.sweep_forms import ClosedForm, Tabulated
from planner.sweep_variants import variant

#: Models of every kind of cache that the catalogue has.
NAMES = (
    "meta-llama/Llama-3.1-8B", "google/gemma-3-27b-it", "google/gemma-3n-E4B-it", "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-V3.2", "deepseek-ai/DeepSeek-V4-Flash", "Qwen/Qwen3-Next-80B-A3B-Instruct", "openai/gpt-oss-120b",
    "tiiuae/Falcon-H1-7B-Instruct", "meta-llama/Llama-4-Scout-17B-16E-Instruct", "state-spaces/mamba-2.8b-hf",
    "openai/whisper-large-v3", "meta-llama/Llama-3.2-11B-Vision-Instruct", "XiaomiMiMo/MiMo-V2-Flash", "tiiuae/falcon-7b",
    "mistralai/Mistral-7B-v0.1", "moonshotai/Kimi-Linear-48B-A3B-Instruct", "openai-community/gpt2", "zai-org/GLM-5.2",
)  # fmt: skip
#: Settings beside the common ones that change how bytes follow from tokens and requests.
OTHERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "vllm": (
        (), ("enable_prefix_caching=true",), ("disable_hybrid_kv_cache_manager=true",), ('version="0.20.0"',),
        ("max_num_batched_tokens=512",),
    ),
    "sglang": (
        (), ("page_size=64",), ("swa_full_tokens_ratio=0.3",), ("disable_radix_cache=true",),
        ("enable_dp_attention=true", "data_parallel_size=2"),
        ('speculative_algorithm="EAGLE"', "speculative_num_steps=3", "speculative_num_draft_tokens=4"),
    ),
    "tensorrt-llm": (
        (), ("max_attention_window=[512,4096]",), ("max_draft_len=3", "num_nextn_predict_layers=1"), ("sink_token_length=5",)
    ),
    "tgi": ((), ("speculate=3",), ('version="2.4.0"',)),
    "llama.cpp": (
        (), ("swa_full=true",), ("kv_unified=true",), ("n_seq_max=4",), ('front_end="server"',), ("n_ubatch=64",),
        ('flash_attn="off"',), ('version="b5000"',), ('version="b6123"',),
    ),
    "transformers": ((), ('cache_implementation="static"',), ('cache_implementation="static"', "max_cache_len=777")),
    ARCHITECTURE: ((),),
}  # fmt: skip
DTYPES = {
    ARCHITECTURE: ("auto", "fp8", "int4", "int2"), "transformers": ("auto", "float16"), "vllm": ("auto", "fp8"),
    "sglang": ("auto", "fp8_e4m3"), "tensorrt-llm": ("auto", "fp8"), "tgi": ("auto", "fp8_e4m3fn"),
    "llama.cpp": ("auto", "q8_0", "q4_0"),
}  # fmt: skip
CARDS = ("h100", "l4", "a100", "b200")
WANTED = 2_000


def read(name: str) -> Model:
    return model_configs.read(f"catalogue:{name}")


def scalar(model: Model, chosen: Variant, card: str | None, encoder: int, tokens: int, requests: int) -> int:
    """Bytes by the engine's own function, as its users call it; -1 where it refuses."""
    try:
        if chosen.engine == ARCHITECTURE:
            dtype = None if chosen.kv_cache_dtype == "auto" else chosen.kv_cache_dtype
            return architecture_bytes(model, tokens, requests, kv_cache_dtype=dtype, encoder_tokens=encoder).total_bytes
        if isinstance(chosen.settings, vllm.Settings):
            return vllm.cache_bytes(model, chosen.settings, tokens, requests, encoder, gpu=card).total_bytes
        engine = find_engine(chosen.engine)
        return engine.cache_bytes(model, chosen.settings, tokens, requests, encoder).total_bytes
    except PlannerError:
        return -1


def test_closed_forms_are_the_scalar_path() -> None:
    """2,000 random points and more, 19 models of all kinds, all engines, settings that bend the curve: equal to the byte.

    Source: each engine's own `cache_bytes`.
    """
    rng, models, done, closed = random.Random(20261130), [read(name) for name in NAMES], 0, set[str]()
    held: dict[str, int] = {}
    cases = itertools.cycle(itertools.product(models, (ARCHITECTURE, *ENGINES)))
    while done < WANTED:
        model, engine = next(cases)
        split = rng.choice([(1, 1), (2, 1), (1, 2), (8, 1)]) if engine in ("vllm", "sglang", "tensorrt-llm") else (1, 1)
        chosen = variant(engine, rng.choice(DTYPES[engine]), *split, others=rng.choice(OTHERS[engine]))
        card, encoder = rng.choice(CARDS) if engine == "vllm" else None, rng.choice([0, 1500])
        tokens = [rng.choice([rng.randint(1, 300), rng.randint(1, 20_000), rng.randint(1, 2_000_000)]) for _ in range(5)]
        requests = [rng.choice([1, 2, rng.randint(1, 300)]) for _ in range(5)]
        if scalar(model, chosen, card, encoder, 1, 1) < 0:
            [row] = sweep(Grid([model], [chosen], (1,), (1,), (card,) if card else (), encoder)).rows()
            assert row["cache_bytes"] is None
            assert row["refusal"]
            continue
        form = form_of(model, chosen, gpu(card) if card else None, encoder)
        if isinstance(form, Tabulated):
            assert "each point is computed by the engine's own function" in form.why
            continue
        wanted = [scalar(model, chosen, card, encoder, t, r) for t, r in zip(tokens, requests, strict=True)]
        assert points(form, tokens, requests).tolist() == wanted, (model.name, chosen, tokens, requests, card, encoder)
        done, held[engine] = done + len(tokens), held.get(engine, 0) + 1
        closed.add(model.name)
    assert set(held) == {ARCHITECTURE, *ENGINES}
    assert len(closed) >= 12


@pytest.mark.parametrize("name", ["meta-llama/Llama-3.1-8B", "google/gemma-3-27b-it", "deepseek-ai/DeepSeek-V3"])
@pytest.mark.parametrize("engine", [ARCHITECTURE, *ENGINES])
def test_default_settings_have_a_closed_form(name: str, engine: str) -> None:
    """The models and engines that most people ask for never fall back to the slow path."""
    assert form_of(read(name), variant(engine)).exact


def test_by_hand() -> None:
    """Llama-3.1-8B: 131,072 bytes a position. vLLM gives it whole blocks of 16, llama.cpp whole cells of 256.

    Source: 2 x 32 layers x 8 KV heads x 128 x 2 bytes; docs/COVERAGE.md for both engines' rounding.
    """
    model, lengths, counts_ = read("meta-llama/Llama-3.1-8B"), [1, 16, 17, 1000], [1, 2, 3, 4]
    for engine, size in ((ARCHITECTURE, 1), ("vllm", 16), ("llama.cpp", 256)):
        wanted = [-(-t // size) * size * r * 131_072 for t, r in zip(lengths, counts_, strict=True)]
        assert points(form_of(model, variant(engine)), lengths, counts_).tolist() == wanted


def test_a_form_that_is_not_the_engines_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the check at the corners fails, each point is computed by the engine: slower, and right."""

    def wrong(*given: Any) -> ClosedForm:
        return ClosedForm((lambda tokens: tokens,), (), (((1,), ()),), ((0,), ()), "wrong")

    monkeypatch.setattr("planner.sweep.tgi_form", wrong)
    model = read("meta-llama/Llama-3.1-8B")
    form = form_of(model, variant("tgi"))
    assert not form.exact
    assert points(form, [100, 100, 7], [2, 2, 1]).tolist() == [
        find_engine("tgi").cache_bytes(model, None, t, r).total_bytes for t, r in ((100, 2), (100, 2), (7, 1))
    ]


def test_columns_rows_and_csv_say_the_same() -> None:
    seen: list[tuple[int, int]] = []
    models = [read("meta-llama/Llama-3.1-8B"), read("Qwen/Qwen3-Next-80B-A3B-Instruct")]
    grid = Grid(models, [variant("vllm", "fp8"), variant("tgi")], (1000, 4096), (1, 8), ("h100", "l4"))
    table = sweep(grid, cache_budget, lambda done, total: seen.append((done, total)))
    columns, rows = table.columns(), list(table.rows())
    assert len(table) == grid.points == len(rows) == 32
    assert {len(values) for values in columns.values()} == {32}
    assert seen[-1] == (32, 32)
    assert [len(seen), [done for done, _ in seen]] == [8, list(range(4, 33, 4))]
    assert columns["cache_bytes"].dtype == columns["tokens"].dtype == np.int64
    for row in rows:
        if row["engine"] == "tgi" and "Next" in row["model"]:
            assert row["cache_bytes"] is row["fits"] is None
            assert "state" in row["refusal"]
            continue
        model = next(each for each in models if each.name == row["model"])
        chosen = grid.variants[0 if row["engine"] == "vllm" else 1]
        assert row["cache_bytes"] == scalar(model, chosen, row["gpu"], 0, row["tokens"], row["requests"])
        assert row["headroom_bytes"] == row["kv_budget_bytes"] - row["cache_bytes"]
        assert row["fits"] == (row["headroom_bytes"] >= 0)
    file = io.StringIO()
    assert table.write_csv(file) == 32
    written = list(csv.DictReader(io.StringIO(file.getvalue())))
    assert [row["cache_bytes"] for row in written] == ["" if r["cache_bytes"] is None else str(r["cache_bytes"]) for r in rows]
    assert set(written[0]) == set(columns)


def test_points_that_an_engine_refuses_are_rows_with_its_reason() -> None:
    """llama.cpp keeps at most 256 sequences. Source: LLAMA_MAX_SEQ, as the engine's table has it."""
    table = sweep(Grid([read("meta-llama/Llama-3.1-8B")], [variant("llama.cpp")], (1000,), (256, 257)))
    first, second = table.rows()
    assert (first["cache_bytes"], first["refusal"]) == (1024 * 256 * 131_072, "")
    assert second["cache_bytes"] is None
    assert "256 sequences" in second["refusal"]
    assert sum(table.reasons.values()) == 1


def test_a_quantized_cache_is_computed_point_by_point() -> None:
    """transformers refuses lengths whose groups do not divide; the others are its own figures.

    Source: `transformers.cache_bytes`, QuantizedCache.
    """
    model = read("openai-community/gpt2")
    chosen = variant("transformers", "int4", others=("q_group_size=3072", "residual_length=1"))
    table = sweep(Grid([model], [chosen], tuple(range(1, 9))))
    for row in table.rows():
        size = scalar(model, chosen, None, 0, row["tokens"], 1)
        assert row["cache_bytes"] == (None if size < 0 else size)
        assert bool(row["refusal"]) == (size < 0)
        assert row["exact_form"] is False
    assert sum(table.reasons.values()) == 6  # 768 elements a position: every fourth length is whole groups


def test_the_architecture_is_set_against_what_the_weights_leave() -> None:
    model, card = read("meta-llama/Llama-3.1-8B"), gpu("l4")
    assert cache_budget(model, ARCHITECTURE, None, card) == card.usable_bytes - 16_060_522_496


def test_bytes_beyond_64_bits_are_refused_and_not_wrapped() -> None:
    form = form_of(read("meta-llama/Llama-3.1-405B"), variant(ARCHITECTURE))
    assert points(form, [10**9], [1000])[0] == 516_096 * 10**12
    with pytest.raises(InputError, match="64 bits"):
        points(form, [10**12], [10**9])


@pytest.mark.parametrize(
    ("tokens", "requests"),
    [
        ([0], [1]), ([1], [0]), ([-5], [1]), ([1.5], [1]), (["a"], [1]), ([1, 2], [1]), ([2**70], [1]), ([10**13], [1]),
        ([None], [1]), ([True], [1]),
    ],
    ids=str,
)  # fmt: skip
def test_counts_that_cannot_be_are_refused(tokens: list[Any], requests: list[Any]) -> None:
    form = form_of(read("openai-community/gpt2"), variant(ARCHITECTURE))
    with pytest.raises(InputError):
        points(form, tokens, requests)


def test_nothing_to_sweep_is_refused() -> None:
    model, plain = read("openai-community/gpt2"), variant(ARCHITECTURE)
    assert points(form_of(model, plain), [], []).size == 0
    for grid in (Grid([], [plain], (1,)), Grid([model], [], (1,)), Grid([model], [plain], ()), Grid([model], [plain], (1,), ())):
        with pytest.raises(InputError):
            sweep(grid)
    with pytest.raises(InputError):
        sweep(Grid([model], [plain], (1,), (1,), ("no such card",)))


@pytest.mark.parametrize(
    ("engine", "dtype", "split", "others"),
    [
        ("no engine", "auto", (1, 1), ()), (ARCHITECTURE, "fp7", (1, 1), ()), (ARCHITECTURE, "auto", (2, 1), ()),
        ("tgi", "auto", (1, 2), ()), ("llama.cpp", "auto", (2, 1), ()), ("vllm", "auto", (1, 1), ("nonsense=1",)),
        ("vllm", "auto", (0, 1), ()),
    ],
    ids=str,
)  # fmt: skip
def test_variants_that_an_engine_does_not_have(engine: str, dtype: str, split: tuple[int, int], others: tuple[str, ...]) -> None:
    with pytest.raises(PlannerError):
        variant(engine, dtype, *split, others=others)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("4096", (4096,)), ("1k,2K", (1024, 2048)), ("1k:8k:x2", (1024, 2048, 4096, 8192)), ("1:9:4", (1, 5, 9)),
        ("1m", (1 << 20,)), ("3, 3,5", (3, 5)), ("1:10:x3,7", (1, 3, 9, 7)), ("1_000", (1000,)),
    ],
)  # fmt: skip
def test_counts_as_they_are_written(text: str, wanted: tuple[int, ...]) -> None:
    assert counts(text, "tokens") == wanted


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "0", "1.5k", "1:2", "1:2:3:4", "8:1:x2", "1:8:x1", "1:8:0", "1g", "1e3", "1:9999999999999:1"]
)
def test_counts_that_are_none(text: str) -> None:
    with pytest.raises(InputError):
        counts(text, "tokens")


class TestShell:
    """`python -m planner sweep`."""

    MODEL = "meta-llama/Llama-3.1-8B"

    def test_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["sweep", self.MODEL, "--tokens", "1k:4k:x2", "--requests", "1,16"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[1].split() == ["tokens", "requests", "cache"]
        assert lines[2].split() == ["1,024", "1", "128", "MiB"]
        assert len(lines) == 8

    def test_json_and_what_fits(self, capsys: pytest.CaptureFixture[str]) -> None:
        asked = ["--engine", "vllm,sglang", "--gpu", "l4", "--tokens", "8k", "--requests", "1,512", "--json", "-tp", "1,2"]
        assert cli.main(["sweep", self.MODEL, *asked]) == 0
        data = json.loads(capsys.readouterr().out)
        assert data["points"] == len(data["sweep"]) == 8
        assert {row["fits"] for row in data["sweep"]} == {True, False}
        assert cli.main(["sweep", self.MODEL, "--gpu", "l4", "--tokens", "128k", "--requests", "512"]) == 1

    def test_csv(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        name = tmp_path / "points.csv"
        assert cli.main(["sweep", self.MODEL, "openai-community/gpt2", "--tokens", "1:100:1", "--csv", str(name)]) == 0
        rows = list(csv.DictReader(io.StringIO(name.read_text(encoding="utf-8"))))
        assert len(rows) == 200
        assert rows[99]["cache_bytes"] == str(100 * 131_072)
        assert "200 points" in capsys.readouterr().out
        assert cli.main(["sweep", self.MODEL, "--csv", str(tmp_path / "no" / "folder.csv")]) == 2

    @pytest.mark.parametrize(
        "asked",
        [
            ["--engine", "nothing"], ["--tokens", "zero"], ["--gpu", "nothing"], ["--tokens", "1:9m:1", "--requests", "1:64:1"],
            ["--kv-cache-dtype", "fp7"], ["--engine", "vllm", "--set", "nonsense"], ["--engine", ""],
        ],
        ids=str,
    )  # fmt: skip
    def test_bad_input(self, asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["sweep", self.MODEL, *asked]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.startswith("error: ")
        assert told.err.count("\n") == 1

    def test_an_engine_that_refuses_every_point(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["sweep", "Qwen/Qwen3-Next-80B-A3B-Instruct", "--engine", "tgi"]) == 2
        assert "state" in capsys.readouterr().err
