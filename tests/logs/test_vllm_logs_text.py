"""vLLM's start-up logs end to end: text in, figures, rules and verdict out.

The rows of the truth set's vllm_logs.yaml are written as text in the shapes of their releases. Of its 184 rows 33 are of other
software (forks, Ascend, TPU, other engines), 12 print too little, 8 do not close by their own arithmetic and 2 do not say enough
of their model; of the 129 that are left all are reconciled but those of `DIFFER`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import validation.logs as logs
from planner.errors import InputError
from planner.units import GIB
from tests.logs.vllm_rows import model_for, reason_to_leave_out, text_of
from tests.logs.wrapped import WRAPPERS

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
GOLDEN: list[Any] = yaml.load((Path(__file__).parent.parent / "golden/vllm_logs.yaml").read_text("utf-8"), Loader=_LOADER)["logs"]
#: Rows with enough data that are not reconciled, and why.
DIFFER = {
    "log-68312849319-dcp1": "ROCm's sparse MLA kernels take blocks of 16 tokens, those of NVIDIA 64: one block of tokens differs",
}


def test_the_public_rows_are_reconciled_from_their_text(truth: Path) -> None:
    """At least 95% of the rows with enough data: every exact figure within its printed digits."""
    rows = yaml.load((truth / "truth/vllm_logs.yaml").read_text("utf-8"), Loader=_LOADER)
    enough = [row for row in rows if reason_to_leave_out(row) is None]
    wrong = []
    for row in enough:
        check = logs.explain(logs.read(text_of(row)), model_for(row, truth / "hf_configs"))
        if not check.agrees:
            wrong.append(row["id"])
    assert len(wrong) <= 0.05 * len(enough), wrong
    assert set(wrong) <= set(DIFFER), wrong
    assert len(enough) >= 0.6 * len(rows)


@pytest.mark.parametrize("row", GOLDEN, ids=[row["id"] for row in GOLDEN])
def test_the_golden_logs_are_reconciled_from_their_text(row: dict[str, Any]) -> None:
    """The compact extract of the same rows, on a bare clone."""
    if reason_to_leave_out(row):
        pytest.skip(str(reason_to_leave_out(row)))
    check = logs.explain(logs.read(text_of(row)), model_for(row, None))
    assert check.agrees, check


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_wrapper_changes_nothing(name: str) -> None:
    """Each way of pasting gives the same log: figures, settings, release and model."""
    for row in GOLDEN[::4]:
        plain, pasted = logs.read(text_of(row)), logs.read(WRAPPERS[name](text_of(row)))
        assert (pasted.figures, pasted.settings, pasted.version, pasted.model) == (
            plain.figures, plain.settings, plain.version, plain.model
        )  # fmt: skip


#: The figures of the index under our names; GiB are compared as printed.
_NAMES = {
    "kv_tokens": "gpu_kv_cache_tokens", "max_concurrency": "max_concurrency", "weights_gib": "model_load_bytes",
    "checkpoint_gib": "checkpoint_bytes", "graph_pool_actual_gib": "cudagraph_bytes", "kv_in_use_gib": "kv_in_use_bytes",
    "graph_estimated_gib": "cudagraph_estimated_bytes", "free_gib": "free_bytes", "total_gib": "gpu_total_bytes",
    "requested_gib": "requested_bytes", "consumed_gib": "consumed_bytes", "peak_activation_gib": "activation_bytes",
    "suggested_fit_bytes": "suggested_fit_bytes", "suggested_full_bytes": "suggested_full_bytes",
    "available_kv_gib": "available_kv_bytes", "kv_needed_gib": "kv_needed_bytes", "needed_gib": "kv_needed_bytes",
    "estimated_max_len": "estimated_max_model_len", "estimated_max_model_len": "estimated_max_model_len",
}  # fmt: skip


def _index(truth: Path) -> Iterator[tuple[dict[str, Any], logs.Log]]:
    for entry in yaml.load((truth / "logs/INDEX.yaml").read_text("utf-8"), Loader=_LOADER):
        if entry["engine"] == "vllm":
            yield entry, logs.read((truth / "logs" / entry["file"]).read_text("utf-8"))


def test_pasted_logs_yield_the_figures_of_their_index(truth: Path) -> None:
    for entry, log in _index(truth):
        for name, value in entry["figures"].items():
            if name == "at_tokens":
                assert value in (log.figures.get("concurrency_tokens"), log.figures.get("refused_max_model_len"))
            elif isinstance(value, int | float):
                ours = log.figures[_NAMES[name]]
                assert ours / (GIB if name.endswith("_gib") else 1) == pytest.approx(value), (entry["file"], name)


#: What is served, where only the text around the paste says so, and words and numbers that the explanation must have.
_EXPLAINED = {
    "02": ("Qwen/Qwen3-4B-Instruct-2507", ["16,785", "2,359,296", "40.27 GiB asked for - 2.81", "150 MiB", "graphs twice"]),
    "05": (None, ["17 full-attention", "1,634,304", "1,600 tokens", "27,852,800", "205 blocks / 179 blocks", "mtp of 3"]),
    "10": ("openai/gpt-oss-120b", ["4.500 GiB in full", "0.040 GiB in sliding", "batched_tokens 1024", "48,480 to 48,784"]),
    "11": ("google/gemma-4-31B-it", ["6 groups", "2,621,440", "10,050 blocks // 6 groups x 16", "81,920 bytes", "983,195"]),
}


def test_pasted_logs_are_explained_by_the_right_rule(truth: Path) -> None:
    """The rule that each log's index describes, with its numbers; every exact figure agrees."""
    for entry, log in _index(truth):
        model, words = _EXPLAINED[entry["file"][:2]]
        check = logs.explain(log, model)
        said = "\n".join([*(line.rule for line in check.lines), *check.rules])
        assert check.agrees, (entry["file"], check.lines)
        assert not [word for word in words if word not in said], (entry["file"], said)


def test_a_pasted_log_without_a_model_asks_for_it(truth: Path) -> None:
    """Figures are held to each other, and models of the same bytes a token are named."""
    _, log = next(_index(truth))
    check = logs.explain(log)
    assert check.agrees
    assert any("--model" in asked and "Qwen3-4B" in asked for asked in check.missing)


_PLACE = "INFO 01-31 10:00:00 [a.py:1]"
_LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def _v1(*messages: str, model: str = _LLAMA, version: str = "0.13.0", more: str = "") -> str:
    head = f"INFO 01-31 10:00:00 [core.py:1] Initializing a V1 LLM engine (v{version}) with config: model='{model}',"
    words = f"dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=1, kv_cache_dtype=auto{more}, seed=0)"
    return "\n".join([f"{head} {words}", *messages])


def test_ranks_share_the_least_pool() -> None:
    """Llama-3.1-8B over 2 GPUs keeps 32 x 4 x 128 x 2 x 2 = 65,536 bytes a token on each, a block of 16 is 1 MiB. 11.05 GiB are
    11,315 blocks; the rank with 11.08 GiB has more and may not use it. 11,315 x 16 = 181,040 tokens.
    """
    log = logs.read(_v1(
        "(Worker_TP0 pid=1) INFO 01-31 10:00:00 [gpu_worker.py:1] Available KV cache memory: 11.08 GiB",
        "(Worker_TP1 pid=2) INFO 01-31 10:00:00 [gpu_worker.py:1] Available KV cache memory: 11.05 GiB",
        "GPU KV cache size: 181,040 tokens", "Maximum concurrency for 8,192 tokens per request: 22.10x",
        more=", tensor_parallel_size=2",
    ).replace("tensor_parallel_size=1, ", ""))  # fmt: skip
    assert log.figures["available_kv_bytes"] == round(11.05 * GIB)
    assert [figure.rank for figure in log.all if figure.name == "available_kv_bytes"] == ["TP0", "TP1"]
    assert log.settings["tensor_parallel_size"] == 2
    assert logs.explain(log).agrees


def test_one_rank_alone_may_offer_more_than_is_used() -> None:
    """8.11 GiB are 8,304 blocks of 1 MiB, and 131,408 tokens are 8,213: 1.1% fewer, because another rank offers less."""
    log = logs.read(_v1(
        "(Worker_TP0 pid=1) INFO 01-31 10:00:00 [gpu_worker.py:1] Available KV cache memory: 8.11 GiB",
        "GPU KV cache size: 131,408 tokens", more=", tensor_parallel_size=2",
    ).replace("tensor_parallel_size=1, ", ""))  # fmt: skip
    check = logs.explain(log)
    assert check.agrees
    assert any("offers the least" in rule for rule in check.rules)


def test_data_parallel_engines_have_their_own_pools() -> None:
    lines = [
        f"({name} pid={pid}) INFO 01-31 10:00:00 [a.py:1] {message}"
        for pid, (name, message) in enumerate([
            ("Worker_DP0", "Available KV cache memory: 20.0 GiB"), ("Worker_DP1", "Available KV cache memory: 16.0 GiB"),
            ("EngineCore_DP0", "GPU KV cache size: 163,840 tokens"), ("EngineCore_DP1", "GPU KV cache size: 131,072 tokens"),
        ])
    ]  # fmt: skip
    log = logs.read(_v1(*lines, version="0.18.0"))
    assert (log.figures["available_kv_bytes"], log.figures["gpu_kv_cache_tokens"]) == (16 * GIB, 131_072)
    assert logs.explain(log).agrees


def test_two_starts_are_not_mixed() -> None:
    """Each start's tokens follow from its own memory: 10 GiB are 5,120 blocks of 2 MiB, 20 GiB 10,240."""
    starts = [
        f"(EngineCore pid={pid}) INFO 01-31 1{pid}:00:00 [a.py:1] {message}"
        for pid, size, tokens in ((1, "10.0", "81,920"), (2, "20.0", "163,840"))
        for message in (f"Available KV cache memory: {size} GiB", f"GPU KV cache size: {tokens} tokens")
    ]
    log = logs.read(_v1(*starts, version="0.20.0"))
    assert log.figures["available_kv_bytes"] == 20 * GIB
    assert [figure.value for figure in log.all if figure.name == "gpu_kv_cache_tokens"] == [81_920, 163_840]
    assert any("2 starts" in warning for warning in log.warnings)
    assert logs.explain(log).agrees


def test_a_refused_start_says_what_would_start() -> None:
    """32 x 8 x 128 x 2 x 2 = 131,072 bytes a token: 131,072 tokens are 16 GiB; 4 GiB hold 32,768 of them."""
    log = logs.read(_v1(
        "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which"
        " is larger than the available KV cache memory (4.00 GiB). Based on the available memory, the estimated maximum model"
        " length is 32768. Try increasing `gpu_memory_utilization`"
    ))  # fmt: skip
    check = logs.explain(log)
    assert check.agrees
    assert {line.name for line in check.lines} == {"kv_needed_bytes", "estimated_max_model_len"}
    said = " ".join(check.rules)
    assert "12.00 GiB too little" in said
    assert "131,072 bytes a token and 0.00 GiB" in said
    assert any("--max-model-len 32768" in change for change in check.advice)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Free memory on device (3.5/23.56 GiB) on startup is less than desired GPU memory utilization (0.9, 21.2 GiB)",
         ["3.5 of 23.56 GiB were free", "20.06 GiB are held"]),
        ("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`", ["nothing is left"]),
        ("ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (184). Each", ["1,024", "184 blocks"]),
        ("Initial free memory 78.5 GiB, reserved 12.0 GiB memory for KV Cache as specified by kv_cache_memory_bytes config and",
         ["pinned to 12.0 GiB"]),
    ],
)  # fmt: skip
def test_what_a_start_says_of_its_memory(line: str, words: list[str]) -> None:
    check = logs.explain(logs.read(_v1(line, version="0.24.0")))
    assert not [word for word in words if word not in " ".join(check.rules)], check.rules


def test_the_rule_that_differs_is_named() -> None:
    """A 33rd layer: 4 GiB over 33 x 4,096 bytes are 31,775 tokens, 1,985 blocks of 2,162,688 bytes."""
    log = logs.read(_v1(
        "Available KV cache memory: 4.00 GiB", "GPU KV cache size: 31,760 tokens", more=", speculative_config={'method': 'ngram',"
        " 'num_speculative_tokens': 2}, pipeline_parallel_size=1, max_num_seqs=8, block_size=16",
    ))  # fmt: skip
    check = logs.explain(log)
    assert not check.agrees
    assert any("1 layer more than the 32" in rule for rule in check.rules), check.rules


def test_what_is_missing_is_found_and_asked_for() -> None:
    """Half the bytes a token: 8-bit KV or two GPUs, and the figures cannot tell which."""
    text = f"{_PLACE} Available KV cache memory: 4.00 GiB\n{_PLACE} GPU KV cache size: 65,536 tokens"
    check = logs.explain(logs.read(text), _LLAMA)
    assert check.agrees
    assert any("inferred" in rule for rule in check.rules)
    assert any("fit as well" in rule for rule in check.rules)
    assert any("--set" in asked for asked in check.missing)
    assert logs.explain(logs.read(text), _LLAMA, settings={"kv_cache_dtype": "fp8"}).agrees


def test_a_cut_number_is_said_and_not_used() -> None:
    log = logs.read(_v1("Available KV cache memory: 4.00 GiB", "GPU KV cache size: 32,7"))
    assert "gpu_kv_cache_tokens" not in log.figures
    assert any("is cut" in warning for warning in log.warnings)


def test_a_decimal_comma_is_asked_about() -> None:
    log = logs.read(_v1("Available KV cache memory: 13,69 GiB", "GPU KV cache size: 32,768 tokens"))
    assert "available_kv_bytes" not in log.figures
    assert any("decimal comma" in warning for warning in log.warnings)


def test_an_override_of_the_graphs_profiling_is_none() -> None:
    log = logs.read(_v1("Overriding num_gpu_blocks=0 with num_gpu_blocks_override=512", "GPU KV cache size: 32,768 tokens"))
    assert "num_gpu_blocks_override" not in log.settings


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (f"{_PLACE} vLLM API server version 0.10.2\n{_PLACE} GPU KV cache size: 16 tokens", "0.10.2"),
        ("INFO 01-31 10:00:00 [kv_cache_utils.py:1319] GPU KV cache size: 16 tokens", "0.19.1"),
        ("INFO 01-31 10:00:00 [kv_cache_utils.py:2146] GPU KV cache size: 16 tokens", "0.24.0"),
        ("█ vLLM version 0.33.0\nGPU KV cache size: 16 tokens", "0.33.0"),
        ("GPU KV cache size: 16 tokens", None),
    ],
)  # fmt: skip
def test_the_release_is_read_or_told_by_the_line_of_code(text: str, version: str | None) -> None:
    assert logs.read(text).version == version


_DIRT = ("\n", "\x1b[0m", "(", "9" * 30, "-", "\0", "=", "'", ",", ".")
_ROWS = [text_of(row) for row in GOLDEN[:40:3]]


@settings(max_examples=60)
@given(st.sampled_from(_ROWS), st.randoms(use_true_random=False))
def test_a_damaged_log_is_read_or_refused_clearly(text: str, chance: random.Random) -> None:
    """Cut, shuffled, doubled and overwritten text: figures, or one InputError; explained without an error of another kind."""
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(text))
        text = chance.choice([
            text[:at], text[at:], text[:at] + chance.choice(_DIRT) + text[at + 1 :],
            text[:at] + text[at // 2 :], "\n".join(chance.sample(text.splitlines(), len(text.splitlines()))),
        ]) or " "  # fmt: skip
    try:
        check = logs.explain(logs.read(text))
    except InputError:
        return
    assert check.agrees <= bool(check.lines)
