"""The memory budget: its laws under every engine, what a person knows better, and its accuracy on printed start-ups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import model_configs
from planner.budget import Budget, budget
from planner.budget_terms import runtime
from planner.engines import ENGINES, engine
from planner.errors import InputError
from planner.model import Model
from planner.units import GIB
from validation import accuracy

LLAMA = "meta-llama/Llama-3.1-8B"
CONFIDENCES = {"exact", "documented", "measured", "estimated", "given"}


def read(name: str = LLAMA) -> Model:
    return model_configs.read(f"catalogue:{name}")


@pytest.mark.parametrize("name", sorted(ENGINES))
@pytest.mark.parametrize("card", ["h100", "4090", "96 GiB"])
def test_terms_and_cache_make_up_the_device(name: str, card: str) -> None:
    found = budget(read(), name, engine(name).Settings(), card)
    assert found.terms[0].name == "device"
    assert found.free_bytes == 0
    assert found.kv_low <= found.kv_bytes <= found.kv_high
    for term in found.terms:
        assert term.low <= term.bytes <= term.high
        assert term.confidence in CONFIDENCES
        assert term.source


def vllm(given: dict[str, int] | None = None, model: Model | None = None, **flags: Any) -> Budget:
    return budget(model or read(), "vllm", engine("vllm").Settings(**flags), "h100", given=given)


def test_what_the_person_knows_wins() -> None:
    known = {"weights": 15 * GIB, "activations": 2 * GIB, "non-torch": GIB, "cuda graphs": 0, "device": 79 * GIB}
    found = vllm(known, gpu_memory_utilization=0.5)
    assert found.kv_bytes == found.kv_low == found.kv_high == 79 * GIB // 2 - 18 * GIB
    assert all(term.confidence == "given" for term in found.terms if term.name in known)
    assert vllm({"runtime": 3 * GIB}).term("activations") is None


def test_a_cache_given_in_bytes_is_the_cache() -> None:
    found = vllm(kv_cache_memory_bytes=20 * GIB)
    assert (found.kv_bytes, found.kv_low, found.kv_high, found.kv_confidence) == (20 * GIB, 20 * GIB, 20 * GIB, "given")
    assert found.free_bytes > 0
    short = vllm(kv_cache_memory_bytes=70 * GIB)
    assert short.free_bytes < 0
    assert short.warnings


@pytest.mark.parametrize("given", [{"weight": 1}, {"weights": -1}, {"weights": 1.5}, {"weights": True}])
def test_a_figure_that_is_none_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="given"):
        vllm(given)


def test_graphs_count_from_the_release_on_that_subtracts_them() -> None:
    assert vllm(version="0.19.1").term("cuda graphs") is None
    assert vllm(version="0.22.1").term("cuda graphs") is not None


def test_a_draft_model_is_weighed_too() -> None:
    draft = read("meta-llama/Llama-3.2-1B")
    found = vllm(speculative_config={"method": "draft_model", "model": draft, "num_speculative_tokens": 3})
    term = found.term("draft weights")
    assert term is not None
    assert term.bytes >= (draft.weight_bytes or 0)


def test_more_leaves_less() -> None:
    """A longer batch, more requests and a larger dtype never leave more; a larger share never less."""
    base = vllm().kv_bytes
    assert vllm(max_num_batched_tokens=65536).kv_bytes <= base
    assert vllm(max_num_seqs=2048).kv_bytes <= base
    assert vllm(gpu_memory_utilization=0.95).kv_bytes > base


def test_sglang_takes_its_fraction_of_free_memory() -> None:
    """Llama-3.1-8B on an 80 GB card: 63.72 free after loading, 78.81 before, a fraction of 0.88."""
    known = {"device": int(79.2 * GIB), "non-torch": int(0.39 * GIB), "weights": int(15.09 * GIB)}
    settings = engine("sglang").Settings(version="0.4.3", mem_fraction_static=0.88)
    found = budget(read(), "sglang", settings, "h100", given=known)
    assert found.kv_bytes / GIB == pytest.approx(63.72 - 78.81 * 0.12, abs=0.01)


def test_constants_say_where_they_come_from_and_are_the_fit() -> None:
    """Each constant has a source and a range; vLLM's fitted ones are what scripts/fit_runtime.py writes."""
    facts, fit = runtime(), accuracy.calibrate()
    for section in ("activation", "non_torch"):
        assert facts["vllm"][section] == fit["vllm"][section]
    for row in [*facts["vllm"]["activation"], *facts["vllm"]["non_torch"], *facts["vllm"]["cuda_graphs"], *facts["context"]]:
        assert row["source"]
        assert row["low"] <= row.get("value", 1.0) <= row["high"]


def test_accuracy_on_printed_start_ups() -> None:
    """What the fit without the row's model reaches, so that a change for the worse is seen. docs/ACCURACY.md has the figures."""
    found = accuracy.measure()
    stated = accuracy.figures(found.stated)
    assert stated["n"] + accuracy.figures(found.presumed)["n"] + len(found.left_out) == 79
    assert stated["median"] < 0.035
    assert stated["mean"] < 0.06
    assert stated["outside"] <= 4
    assert accuracy.figures(found.own)["median"] < 0.03


def test_the_page_says_what_was_measured() -> None:
    text = (Path(accuracy.ROOT) / "docs/ACCURACY.md").read_text("utf-8")
    body = text.split("<!-- accuracy:start -->")[1].split("<!-- accuracy:end -->")[0]
    assert body.strip() == accuracy.document(accuracy.measure()).strip()


def test_every_row_of_the_truth_set_is_used_or_said_to_be_left_out(truth: Path) -> None:
    """The rows with both figures are all there, with the figures that they printed."""
    rows = yaml.safe_load((truth / "truth/vllm_logs.yaml").read_text("utf-8"))
    printed = {row["id"]: row for row in rows if {"available_kv_gib", "model_load_gib"} <= set(row.get("reported") or {})}
    golden = {row["id"]: row for row in accuracy.golden()["rows"]}
    assert set(printed) == {name for name in golden if not name.startswith("b1-")} | set(accuracy.golden()["left_out"])
    for name, row in golden.items():
        if name in printed:
            reported = printed[name]["reported"]
            assert (row["kv"], row["weights"]) == (reported["available_kv_gib"], reported["model_load_gib"]), name
            assert row.get("total") == reported.get("total_gpu_gib"), name
            stated = printed[name].get("gpu_memory_utilization")
            assert row.get("share") == (0.95 if name == "llmd-gptoss120b" else stated), name


def test_an_image_tower_counts_beyond_the_decoders_peak() -> None:
    """Qwen3.5's profiling run encodes one image of 16,384 embeddings, 4 patches each, of 3 x 1,152 + 2 x 4,304 + 1,536 numbers.

    Source: its config.json; vLLM prints a budget of 16,384 for it.
    """
    model = model_configs.read("catalogue:Qwen/Qwen3.5-27B")
    settings = engine("vllm").Settings(version="0.26.0", max_model_len=131072)
    found = budget(model, "vllm", settings, "l40s")
    peak, tower = found.term("activations"), found.term("image encoder")
    assert peak
    assert tower
    assert peak.bytes + tower.bytes == 65_536 * 2 * (3 * 1152 + 2 * 4304 + 1536)
    text = budget(model, "vllm", settings.model_copy(update={"language_model_only": True}), "l40s")
    assert text.term("image encoder") is None
    assert text.kv_bytes > found.kv_bytes
