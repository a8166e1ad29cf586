"""The sweep over all architectures: a fixed part of it at each run, and what is kept of the whole one."""

from __future__ import annotations

import dataclasses
import json
import warnings
from pathlib import Path

import pytest

import model_configs
from planner.errors import InputError, PlannerError
from validation import coverage_sweep, documents
from validation.coverage_sweep import Row, Sweep

pytest.importorskip("torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    from validation import measure_sweep, measure_tiny

#: Types of every kind of cache and of every rule of their own; small enough to run in two to three minutes on two cores.
SUBSET = [
    # keys and values of every position: grouped, one head, all heads, expanded heads, widths of their own
    "llama", "qwen2", "qwen3", "mixtral", "gemma", "phi", "olmo2", "glm4", "gpt2", "gpt_neox", "bloom", "falcon", "gpt_bigcode",
    "opt", "mpt", "stablelm", "cohere", "dbrx", "nemotron", "phi3", "dory", "hrm_text", "bert", "xlm", "cpmant", "reformer",
    "xlnet", "openai-gpt",
    # windows and chunks
    "mistral", "gemma2", "gemma3", "cohere2", "gpt_oss", "mimo_v2_flash", "modernbert-decoder", "exaone4", "olmo3", "llama4",
    "smollm3", "unlimited_ocr",
    # latents, index keys, compressed keys
    "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v4", "longcat_flash", "kimi_linear", "glm_moe_dsa", "minicpm3",
    "dots3_note_text", "minimax_m3_vl_text", "hy_v4",
    # states, alone and beside keys
    "mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm", "recurrent_gemma", "jamba", "bamba", "zamba", "zamba2", "falcon_h1",
    "nemotron_h", "qwen3_next", "qwen3_5", "lfm2", "minimax", "granitemoehybrid", "inkling_text", "zaya",
    # shared layers, and layers of images
    "gemma3n", "gemma4", "mllama", "qwen2_vl",
    # the encoder's keys
    "t5", "bart", "whisper", "t5gemma", "moonshine", "canary", "pp_formulanet",
]  # fmt: skip
KINDS = {
    "full", "sliding", "chunked", "latent", "indexed", "compressed", "state", "full+state", "sliding+state", "shared", "none",
    "cross", "full+cross", "sliding+cross",
}  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    """The subset, generated now."""
    return {row.type: row for row in measure_sweep.sweep(SUBSET, jobs=2, timeout=600)}


@pytest.mark.parametrize("model_type", SUBSET)
def test_generated_bytes_are_the_predicted_ones(rows: dict[str, Row], model_type: str) -> None:
    """Real generation with a cache; each point's bytes, and each layer's, are those that the planner says."""
    row = rows[model_type]
    assert row.status == "equal", row.text
    assert len(row.points) == len(measure_sweep.POINTS)


def test_the_subset_has_every_kind(rows: dict[str, Row]) -> None:
    assert len(SUBSET) >= 60
    assert {kind for row in rows.values() for kind in row.kinds} >= KINDS


@pytest.fixture(scope="module")
def kept() -> Sweep:
    return coverage_sweep.read()


def test_the_whole_sweep_found_nothing_that_differs(kept: Sweep) -> None:
    """What is kept says what its figures say; nearly every type ran, and each other has a reason."""
    assert kept.of("differs") == []
    assert len(kept.of("equal")) >= 0.95 * len(kept.rows)
    assert all(row.reason for row in kept.rows if row.status != "equal")
    for row in kept.of("equal"):
        assert len(row.points) == 2
        assert row.layer is None
        assert all(point.predicted == point.measured for point in row.points)


def test_the_whole_sweep_had_every_type(kept: Sweep) -> None:
    """Every model type that the transformers of that sweep maps to a class that generates text."""
    import transformers

    if kept.versions["transformers"] != transformers.__version__:
        pytest.skip(f"the sweep ran with transformers {kept.versions['transformers']}")
    assert [row.type for row in kept.rows] == list(measure_tiny.types())


def test_the_pages_say_what_is_kept(kept: Sweep) -> None:
    """`python -m validation sweep --write` rewrites both."""
    assert documents.stale("sweep", kept) == []


def test_tiny_models_keep_every_kind_of_layer(kept: Sweep) -> None:
    """Shrinking drops no kind that the class's own default config has."""
    lost = {}
    for row in kept.of("equal"):
        try:
            full = model_configs.read(json.loads(json.dumps(CONFIG_MAPPING[row.type]().to_dict(), default=str)))
        except PlannerError:  # its default leaves out what every checkpoint states
            continue
        if missing := set(full.kinds) - set(row.kinds):
            lost[row.type] = missing
    assert lost == {}


def test_a_row_survives_its_line() -> None:
    row = Row("t", "causal", "differs", "C", "bfloat16", {"full": 2}, (coverage_sweep.Point(1, 11, 0, 5, 6),), 1, False)
    assert coverage_sweep.load(coverage_sweep.dump(row)) == row
    assert coverage_sweep.load(coverage_sweep.dump(Row("t", "causal", "refused", reason="why"))) == Row(
        "t", "causal", "refused", reason="why"
    )


def test_new_rows_stand_in_place_of_old_ones(kept: Sweep) -> None:
    """Only where the same versions ran; else the old figures would pass for new ones."""
    row = dataclasses.replace(kept.rows[0], reason="new")
    part = Sweep("2026-01-01", kept.versions, (row,))
    assert part.over(kept).rows == (row, *kept.rows[1:])
    assert dataclasses.replace(part, versions={**kept.versions, "torch": "0"}).over(kept).rows == (row,)


def test_resume_goes_on_after_a_line_that_was_cut_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.jsonl"
    line = coverage_sweep.dump(Row("llama", "causal", "equal", kinds={"full": 2}))
    file.write_text(f"{line}\n{line[:20]}", "utf-8")
    assert measure_sweep.main(["--types", "llama", "--resume", str(file), "--progress", "none"]) == 0
    assert "| decoders (causal LM) | 1 | 1 | 0 |" in capsys.readouterr().out
    file.write_text("something else\n", "utf-8")
    with pytest.raises(InputError, match="not a file of this sweep"):
        measure_sweep.main(["--types", "llama", "--resume", str(file)])


def test_unknown_types_are_named() -> None:
    with pytest.raises(InputError, match="no-such-type"):
        measure_sweep.main(["--types", "llama,no-such-type"])


def test_a_type_that_takes_too_long_is_a_row() -> None:
    """No process has loaded torch in a hundredth of a second."""
    (row,) = measure_sweep.sweep(["llama"], jobs=1, timeout=0.01)
    assert (row.type, row.status) == ("llama", "timed out")


def test_a_process_that_dies_is_a_row() -> None:
    worker = measure_sweep._Worker.started()
    worker.model_type = "llama"
    worker.process.kill()
    row, alive = measure_sweep._received(worker, ready=True, timeout=1)
    worker.end()
    assert (row.status, row.reason, alive) == ("not run", "its process ended with status -9", False)
