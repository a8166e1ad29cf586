"""Real cached generation of every kind of cache, byte for byte: tensors, storages, blocks, layer by layer.

Both sides are independent: the measured one is tensors of transformers' caches, the other the planner's arithmetic.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import model_configs
from planner.errors import EngineRefusal, InputError
from tests.validation.models import MODELS
from validation import measure
from validation.compare import Report
from validation.measure_build import build
from validation.measure_cache import weigh
from validation.measure_generate import generate
from validation.predict import Case
from validation.progress import Progress
from validation.request import Request

GRID = {"batch": (2,), "tokens": (12, 30), "new": (4,), "encoder": (7,)}
STATIC = ("multi-head", "latent", "latent with index keys", "sliding and full", "chunked", "gated delta and full",
          "shared layers", "encoder, BART")  # fmt: skip
CHATGLM = {**MODELS["grouped"], "model_type": "chatglm", "num_layers": 3, "multi_query_group_num": 2}
QUANTIZED = ("multi-head", "grouped", "latent")


def measured(tmp_path: Path, config: dict[str, Any], **asked: Any) -> Report:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"torch_dtype": "bfloat16", **config}), "utf-8")
    wanted = Request(**{"model": str(path), "device": "cpu", "grid": GRID, "threads": 1, **asked})
    *_, last = measure.run(wanted, Progress("none"))
    assert not last.partial
    return last


def assert_exact(report: Report) -> None:
    assert report.agrees, report.differences
    for point in report.points:
        assert point.measured.tensor_bytes == point.predicted.tensor_bytes > 0
        assert point.measured.storage_bytes == point.predicted.storage_bytes
        for layer in point.layers:
            assert (layer.predicted_bytes, layer.predicted_storage_bytes) == (layer.measured_bytes, layer.measured_storage_bytes)
        assert point.positions in (point.tokens, None)


@pytest.mark.parametrize("name", MODELS)
def test_a_growing_cache_is_exact(name: str, tmp_path: Path) -> None:
    report = measured(tmp_path, MODELS[name])
    assert_exact(report)
    for _, checks in report.checks:
        allocated = next(check for check in checks if check.name == "allocated bytes")
        assert not allocated.decided or allocated.agrees
    assert report.model.parameter_bytes > 0
    assert report.fits


@pytest.mark.parametrize("name", STATIC)
def test_a_static_cache_is_exact(name: str, tmp_path: Path) -> None:
    assert_exact(measured(tmp_path, MODELS[name], settings={"cache_implementation": "static"}))


@pytest.mark.parametrize("name", QUANTIZED)
def test_an_fp8_cache_is_exact(name: str, tmp_path: Path) -> None:
    report = measured(tmp_path, MODELS[name], settings={"cache_implementation": "quantized", "backend": "fp8"})
    assert_exact(report)
    assert report.run.cache_config == {"backend": "fp8"}


def test_a_grouped_quantized_cache_is_exact(tmp_path: Path) -> None:
    pytest.importorskip("optimum.quanto", reason="optimum-quanto is not installed")
    settings = {"cache_implementation": "quantized", "backend": "quanto", "q_group_size": 16, "residual_length": 4}
    assert_exact(measured(tmp_path, MODELS["grouped"], settings=settings))


def test_a_cut_model_keeps_its_pattern_and_is_exact(tmp_path: Path) -> None:
    """Gemma 3's pattern of six in twelve layers, cut to seven: the whole model's bytes stand beside the cut one's."""
    report = measured(tmp_path, {**MODELS["sliding and full"], "num_hidden_layers": 12}, layers=7)
    assert_exact(report)
    assert (report.model.layers, report.model.full_layers) == (7, 12)
    assert report.model.kinds == {"sliding": 6, "full": 1}
    # 10 sliding and 2 full layers of 2 x 2 heads x 20 x 2 bytes x 2 requests, 8 and 30 positions.
    assert report.points[-1].predicted.whole_bytes == (10 * 8 + 2 * 30) * 2 * 2 * 20 * 2 * 2


def test_real_weights_of_a_folder_are_read(tmp_path: Path) -> None:
    model = model_configs.read(MODELS["grouped"])
    build(model, "bfloat16", torch.device("cpu")).model.save_pretrained(tmp_path / "saved")
    report = measured(tmp_path, MODELS["grouped"], weights=str(tmp_path / "saved"))
    assert_exact(report)
    assert report.run.weights == "folder"


def test_what_differs_is_named_by_its_first_layer(tmp_path: Path) -> None:
    """A planner that takes the window for one position more than it holds is found out at the first sliding layer."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MODELS["sliding and full"]), "utf-8")
    found = measure.subject(Request(str(path), device="cpu"))
    built = build(found.model, found.dtype, found.device)
    wrong = model_configs.read({**MODELS["sliding and full"], "sliding_window": 10})
    point = measure.measure_point(built, replace(found, model=wrong, whole=wrong), Case(1, 30, 4, expandable=True))
    assert "layer 0 (sliding, DynamicSlidingWindowLayer) is the first that differs" in str(point.first_difference)


def test_a_cache_says_its_classes_and_shapes() -> None:
    model = model_configs.read(MODELS["latent"])
    built = build(model, "float32", torch.device("cpu"))
    done = generate(built, measure.transformers.Settings(dtype="float32"), 2, 9, 4, depth=3)
    assert done.weighed.layers[0].tensors == [("keys", (2, 1, 12, 24), "float32"), ("values", (2, 1, 12, 8), "float32")]
    assert done.weighed.positions == 12
    assert tuple(done.sequences.shape) == (2, 13)


def test_one_tensor_kept_twice_counts_once_and_none_is_nothing() -> None:
    class Layer:
        def __init__(self) -> None:
            self.keys = torch.zeros(1, 2, 3)
            self.values = self.keys

    class Cache:
        layers = (Layer(),)

    assert weigh(Cache()).bytes == weigh(Cache()).storage_bytes == 24
    assert weigh(None).bytes == 0


@pytest.mark.parametrize(
    ("config", "asked", "error", "says"),
    [
        (MODELS["grouped"], {"device": "cuda"}, InputError, "no CUDA device"),
        (MODELS["grouped"], {"settings": {"cache_implementation": "offloaded"}}, InputError, "no CUDA device"),
        (MODELS["state"], {"settings": {"cache_implementation": "quantized", "backend": "fp8"}}, EngineRefusal, "state"),
        (MODELS["grouped"], {"layers": 9}, InputError, "1 to 2 layers"),
        (MODELS["sliding and full"], {"layers": 3}, InputError, "leave out the full layers"),
        (MODELS["grouped"], {"weights": "nowhere"}, InputError, "safetensors"),
        (MODELS["grouped"], {"weights": "hub"}, InputError, "Hub id"),
        (MODELS["grouped"], {"grid": {"tokens": (3,)}}, InputError, "no prompt"),
        ({**MODELS["grouped"], "hidden_size": 10**5, "intermediate_size": 10**6, "head_dim": 16}, {}, InputError, "are free"),
        (CHATGLM, {}, InputError, "does not ship"),
    ],
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="says what is missing without CUDA")
def test_what_cannot_run_is_refused_in_one_line(
    config: dict[str, Any], asked: dict[str, Any], error: type[Exception], says: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=says):
        measured(tmp_path, config, **asked)


@pytest.mark.gpu
def test_a_growing_cache_is_exact_on_cuda(tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    for name in ("grouped", "sliding and full", "latent", "gated delta and full"):
        assert_exact(measured(tmp_path, MODELS[name], device="cuda"))
