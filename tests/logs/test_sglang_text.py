"""SGLang's start-up text, from the paste to the verdict: public logs' figures in their version's shapes, and hand arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.units import GIB
from tests.logs.checked import GOLDEN, check, entries, figures, model_of, said
from tests.logs.paged_text import text as written
from tests.logs.wrapped import WRAPPERS
from validation import coverage_logs
from validation.logs import explain, read

LOGS = entries("sglang")
RANKS = """\
[2026-05-01 10:00:00 TP{rank}] server_args=ServerArgs(model_path='/models/m', tp_size=2, max_total_tokens=200000)
[2026-05-01 10:00:00 TP{rank}] Load weight begin. avail mem=31.00 GB
[2026-05-01 10:00:09 TP{rank}] Load weight end. elapsed=8.00 s, type=LlamaForCausalLM, avail mem={free} GB, mem usage=7.60 GB.
[2026-05-01 10:00:10 TP{rank}] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 200000, K size: 6.10 GB, V size: 6.10 GB
[2026-05-01 10:00:10 TP{rank}] Memory pool end. avail mem={end} GB
"""


@pytest.mark.parametrize("name", LOGS)
def test_rows_of_public_logs(name: str) -> None:
    """Each printed size of the row is found in its text and agrees."""
    entry = LOGS[name]
    log, found = check(written(entry, figures(entry)), model=model_of(LOGS[name]))
    assert log.engine == "sglang"
    assert found.agrees, [line for line in found.lines if not line.agrees]
    names = {"k_gb": "k_bytes", "v_gb": "v_bytes", "kv_gb": "kv_bytes", "swa_k_gb": "swa_k_bytes", "conv_gb": "conv_bytes",
             "ssm_gb": "ssm_bytes", "draft_k_gb": "draft_k_bytes", "full_k_gb": "k_bytes"}  # fmt: skip
    for key, ours in names.items():
        if key in entry["printed"]:
            assert log.figures[ours] == pytest.approx(entry["printed"][key] * GIB), key
            assert ours in {line.name for line in found.lines}


def test_every_row_with_enough_data(truth: Path) -> None:
    """The same from the full rows, whose other figures are printed too."""
    rows = {row["id"]: row for row in coverage_logs.load(truth / "truth/sglang_trtllm_tgi_logs.yaml")}
    different = [
        name for name, entry in LOGS.items()
        if not check(written(entry, rows[name]), model=coverage_logs.model_of(GOLDEN, entry, truth / "hf_configs"))[1].agrees
    ]  # fmt: skip
    assert different == []


def test_the_budget_from_two_readings_of_free_memory() -> None:
    """63.72 - 78.81 x (1 - 0.88) = 54.26 GiB; / 131,072 B = 444,520 with rounding, 444,500 printed. Source: SGLang's own docs."""
    entry = LOGS["sglang-07"]
    log, found = check(written(entry, figures(entry)), model=model_of(LOGS["sglang-07"]))
    tokens = next(line for line in found.lines if line.name == "kv_tokens")
    assert tokens.agrees
    assert "63.72 - 78.81 x (1 - 0.88) = 54.26 GiB" in tokens.rule
    assert log.printed["avail_after_load_bytes"].slack == pytest.approx(0.005 * GIB)


def test_a_wrong_fraction_is_told() -> None:
    """At 0.8 the same readings would leave 47.96 GiB, 392,880 tokens: what is printed is more than that."""
    entry = {**LOGS["sglang-07"], "settings": {**LOGS["sglang-07"]["settings"], "mem_fraction_static": 0.8}}
    _, found = check(written(entry, figures(entry)), model=model_of(LOGS["sglang-07"]))
    tokens = next(line for line in found.lines if line.name == "kv_tokens")
    assert not tokens.agrees
    assert not found.agrees
    assert 392_000 < tokens.ours < 394_000


def test_ranks_differ_and_the_least_binds() -> None:
    """Llama 3.1 8B over two ranks: 32 layers x 4 heads x 128 x 2 B = 32,768 B of keys; 200,001 of them are 6.1035 GiB."""
    text = RANKS.format(rank=0, free="23.40", end="11.20") + RANKS.format(rank=1, free="23.31", end="11.11")
    log, found = check(text, model="catalogue:meta-llama/Llama-3.1-8B")
    assert (log.settings["tensor_parallel_size"], log.gpus, log.settings["max_total_tokens"]) == (2, 2, 200_000)
    assert log.figures["avail_after_load_bytes"] == round(23.31 * GIB)
    assert len([figure for figure in log.all if figure.name == "k_bytes"]) == 2
    keys = next(line for line in found.lines if line.name == "k_bytes")
    assert keys.agrees
    assert keys.ours == 200_001 * 32_768


def test_target_and_draft_hold_the_same_tokens() -> None:
    """One layer of 4 heads x 256 for the draft: 171,072 rows x 2,048 B of keys are 0.33 GiB; the GB add up, not the tokens."""
    entry = LOGS["sglang-10"]
    _, found = check(written(entry, figures(entry)), model=model_of(LOGS["sglang-10"]))
    assert "two pools of each rank" in said(found)
    assert "1 layers x 2,048 B" in said(found)
    assert "43 are printed and 44 allocated" in said(found)


def test_virtual_addresses_are_no_memory() -> None:
    text = (
        "[2026-10-01 10:00:00] KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 900000, K size: 27.47 GB,"
        " V size: 27.47 GB\n"
        "[2026-10-01 10:00:01] Memory pool end. avail mem=60.00 GB\n"
    )
    log, found = check(text)
    assert "k_bytes" not in log.figures
    assert log.figures["virtual_tokens"] == 900_000
    assert "addresses, not memory" in said(found)


def test_host_pools_are_decimal() -> None:
    """64 GB of host memory are 59.60 GiB."""
    text = RANKS.format(rank=0, free="23.40", end="11.20")
    text += "[2026-05-01 10:00:11] Allocating 64.00 GB host memory for hierarchical KV cache.\n"
    log, found = check(text, model="catalogue:meta-llama/Llama-3.1-8B")
    assert log.figures["host_bytes"] == 64 * 10**9
    assert "59.60 GiB" in said(found)


def test_a_start_that_is_refused() -> None:
    """1 - 6.40 / 31.00 = 0.7935: the weights take 79.35% of what was free, more than the 0.75 that was given."""
    text = (
        "[2026-08-01 10:00:00 TP0] Load weight begin. avail mem=31.00 GB\n"
        "[2026-08-01 10:00:09 TP0] Load weight end. elapsed=8.00 s, type=LlamaForCausalLM, avail mem=6.40 GB,"
        " mem usage=24.60 GB.\n"
        "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.75. Raise"
        " --mem-fraction-static above 0.794 (minimum viable = 1 - available/pre = 0.7935). If using speculative decoding, draft\n"
    )
    log, found = check(text)
    assert log.settings["mem_fraction_static"] == 0.75
    line = next(line for line in found.lines if line.name == "mem_fraction_static")
    assert line.agrees
    assert "above 0.794" in said(found)


def test_the_last_of_several_starts() -> None:
    """The fraction was raised between two starts: 200,000 tokens, then 240,000 of 32,768 B of keys, 7.32 GiB."""
    first = RANKS.format(rank=0, free="23.40", end="11.20")
    second = first.replace("200000", "240000").replace("6.10", "7.32")
    log, found = check(first + second, model="catalogue:meta-llama/Llama-3.1-8B")
    assert log.figures["kv_tokens"] == 240_000
    assert "swa_tokens" not in log.figures
    assert found.agrees
    assert any("2 starts" in text for text in log.warnings)


def test_the_other_ranks_are_not_in_the_paste() -> None:
    """One rank's lines without the arguments: 200,001 x 32,768 B are the keys of two ranks that share 8 heads."""
    line = "[2026-05-01 10:00:10] KV Cache is allocated. #tokens: 200000, K size: 6.10 GB, V size: 6.10 GB\n"
    _, found = check(line, model="catalogue:meta-llama/Llama-3.1-8B")
    assert found.agrees
    assert "inferred: kv_cache_dtype fp8_e4m3, or tensor_parallel_size 2" in said(found)


def test_what_differs_is_named() -> None:
    """The arguments say one rank; the sizes are those of half the heads."""
    text = (
        "[2026-05-01 10:00:00] server_args=ServerArgs(model_path='/m', tp_size=1, kv_cache_dtype='auto')\n"
        "[2026-05-01 10:00:10] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 200000, K size: 6.10 GB, V size: 6.10 GB\n"
    )
    _, found = check(text, model="catalogue:meta-llama/Llama-3.1-8B")
    assert not found.agrees
    assert "differs" in said(found)


def test_an_identical_line_is_not_doubled() -> None:
    """A second start in the same paste, or another rank without its tag."""
    line = "[2026-05-01 10:00:10] KV Cache is allocated. #tokens: 200000, K size: 12.21 GB, V size: 12.21 GB\n"
    log, found = check(line * 2, model="catalogue:meta-llama/Llama-3.1-8B")
    assert "draft_k_bytes" not in log.figures
    assert any("repeats an allocation" in text for text in log.warnings)
    assert found.agrees


def test_a_cut_line_is_said() -> None:
    log, _ = check(
        "[2026-05-01 10:00:10 TP0] KV Cache is allocated. #tokens: 200000, K size: 12.2\n[2026-05-01 10:00:11 TP0] Memory\n"
    )
    assert "kv_tokens" not in log.figures
    assert any(text.startswith("line 1 is cut") for text in log.warnings)


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrapped(name: str) -> None:
    for row in ("sglang-07", "sglang-10", "sglang-13"):
        text = written(LOGS[row], figures(LOGS[row]))
        plain, log = read(text), read(WRAPPERS[name](text))
        assert log.figures == plain.figures
        assert explain(log, model=model_of(LOGS[row])).agrees


def test_ranks_written_over_each_other() -> None:
    """Two processes write to one terminal: a line begins in the middle of another."""
    lines = RANKS.format(rank=0, free="23.40", end="11.20").splitlines()
    other = RANKS.format(rank=1, free="23.31", end="11.11").splitlines()
    text = "\n".join(f"{a}{b}" for a, b in zip(lines, other, strict=True)) + "\n"
    log, found = check(text, model="catalogue:meta-llama/Llama-3.1-8B")
    assert {figure.rank for figure in log.all if figure.name == "k_bytes"} == {"TP0", "TP1"}
    assert found.agrees
