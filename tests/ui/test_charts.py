"""The figures: ten colours, one cell a layer, the person's point and the model's limit in the picture."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from planner import explain
from planner.cache import architecture_bytes
from ui import charts
from ui import format as fmt
from ui.model_input import from_catalogue

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomllib", reason="tomllib is in Python 3.11 and later")

CONFIG = Path(__file__).resolve().parents[2] / ".streamlit" / "config.toml"


def test_each_kind_has_one_of_exactly_ten_colours_the_page_is_configured_with() -> None:
    theme = tomllib.loads(CONFIG.read_text(encoding="utf-8"))["theme"]
    assert theme["chartCategoricalColors"] == list(charts.COLOURS.values())
    assert len(set(charts.COLOURS.values())) == 10  # with any other number Plotly uses its own palette
    assert list(charts.COLOURS) == list(explain.KINDS)


def test_neighbouring_kinds_differ_by_pattern_too() -> None:
    """Kinds that stand side by side in one model are told apart without colour."""
    for one, other in (("full", "sliding"), ("full", "state"), ("full", "cross"), ("latent", "indexed"), ("none", "state")):
        assert charts.PATTERNS[one] != charts.PATTERNS[other]


@pytest.mark.parametrize(
    ("model", "kinds"),
    [
        ("Qwen/Qwen2.5-72B", {"full": 80}),
        ("google/gemma-3-27b-it", {"sliding": 52, "full": 10}),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", {"state": 36, "full": 12}),
        ("openai/whisper-large-v3", {"full": 32, "cross": 32}),
        ("meta-llama/Llama-3.1-405B", {"full": 126}),
    ],
)
def test_the_strip_has_one_cell_a_layer(model: str, kinds: dict[str, int]) -> None:
    described = from_catalogue(model)
    figure = charts.layers(architecture_bytes(described, 8_192, encoder_tokens=1_500))
    strip = [trace for trace in figure["data"] if trace["yaxis"] == "y"]
    assert {trace["legendgroup"]: len(trace["x"]) for trace in strip} == kinds
    for index in range(len(described.layers)):
        heights = [y for trace in strip for x, y in zip(trace["x"], trace["y"], strict=True) if x == index]
        assert sum(heights) == pytest.approx(1)


def test_the_layers_bytes_are_drawn_only_where_they_differ() -> None:
    same = charts.layers(architecture_bytes(from_catalogue("Qwen/Qwen2.5-72B"), 8_192))
    differ = charts.layers(architecture_bytes(from_catalogue("google/gemma-3-27b-it"), 8_192))
    assert "yaxis2" not in same["layout"]
    assert "yaxis2" in differ["layout"]


def test_the_curve_marks_the_point_and_the_limit() -> None:
    points = [(0, 0), (1_024, 1_024**3), (2_048, 2 * 1_024**3)]
    figure = charts.curve([("this model", "own", points)], (1_024, 1_024**3), 2_048, 512 * 1_024**2, "1 request")
    assert [note["text"] for note in figure["layout"]["annotations"]] == ["1,024 tokens: 1.00 GiB", "model's limit 2,048"]
    assert figure["layout"]["shapes"][0]["x0"] == 2_048
    assert [trace["y"] for trace in figure["data"] if "room" in str(trace.get("name"))] == [[0.5, 0.5]]


@pytest.mark.parametrize("room", [None, -1, 10 * 1_024**3])
def test_room_outside_the_picture_is_not_drawn(room: int | None) -> None:
    figure = charts.curve([("this model", "own", [(0, 0), (10, 1_024)])], (10, 1_024), None, room, "1 request")
    assert len(figure["data"]) == 2
    assert figure["layout"]["shapes"] == []


@pytest.mark.parametrize(
    ("figure", "names"),
    [
        (charts.gpu(50, 20, 100, "GPU"), ["Weights 50 B", "KV cache 20 B", "Free 30 B"]),
        (charts.gpu(90, 20, 100, "GPU"), ["Weights 90 B", "KV cache 20 B"]),
        (charts.gpu(None, 20, 100, "GPU"), ["KV cache 20 B", "Free 80 B"]),
    ],
)
def test_the_gpu_bar_says_every_part_in_words(figure: charts.Figure, names: list[str]) -> None:
    assert [trace["name"] for trace in figure["data"]] == names


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(0, 5, "0 to 5 B"), (-3 * 2**30, 2**30, "-3.00 to 1.00 GiB"), (500, 2**30, "500 B to 1.00 GiB")],
)
def test_a_range_says_its_unit_once(low: int, high: int, text: str) -> None:
    assert fmt.span(low, high) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (1_000, "1,000"), (32_768, "32K"), (131_072, "128K"), (1_048_576, "1M"), (10_485_760, "10M")]
)
def test_token_counts_on_an_axis(count: int, text: str) -> None:
    assert fmt.tokens(count) == text


def test_memory_axes_stop_at_gib() -> None:
    assert [fmt.unit(size)[0] for size in (0, 1, 1_024, 1_024**2, 1_024**3, 1_024**5)] == ["B", "B", "KiB", "MiB", "GiB", "GiB"]
