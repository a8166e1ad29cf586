"""The map and the other choices of the Capacity page: what they show is the plan's, and what is taken comes true."""

from __future__ import annotations

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from planner.capacity import plan
from planner.sweep_map import fit_map
from planner.units import GIB
from planner.workload import Workload
from ui import capacity_map
from ui.capacity_inputs import Asked, named
from ui.model_input import from_catalogue

from .conftest import OpenPage
from .reading import DEEPSEEK, GEMMA, LLAMA, pressed, printed, shell, verdict
from .test_plan_page import faults


def figure(page: AppTest) -> dict[str, Any]:
    """The map as it was sent to the browser."""
    specs = [json.loads(chart.proto.spec) for chart in page.get("plotly_chart")]
    found: dict[str, Any] = next(spec for spec in specs if any("customdata" in trace for trace in spec["data"]))
    return found


def cells(page: AppTest) -> dict[tuple[int, int], str]:
    """(context, requests) -> the cell's text."""
    return {
        tuple(place): text
        for trace in figure(page)["data"] for place, text in zip(trace["customdata"], trace["text"], strict=True)
    }  # fmt: skip


def test_the_map_shows_what_the_plan_says_of_its_cells(open_capacity: OpenPage) -> None:
    found = cells(open_capacity())
    model = from_catalogue(LLAMA)
    for context, requests in ((1_024, 64), (8_192, 16), (32_768, 16), (131_072, 2), (131_072, 32)):
        own = plan(model, "vllm", {"max_model_len": context}, "h100-sxm", 1, Workload(requests=requests), advice=False)
        text = found[context, requests].strip("</b>?").replace("−", "-")
        assert (float(text) >= 0) == own.fits
        assert abs(float(text) - own.headroom_bytes / GIB) <= (0.051 if abs(float(text)) < 9.95 else 0.51)


def test_the_asked_cell_is_framed_and_said_in_bold(open_capacity: OpenPage) -> None:
    page = open_capacity(load=16)
    assert [place for place, text in cells(page).items() if text.startswith("<b>")] == [(8_192, 16)]
    first, second = figure(page)["layout"]["shapes"]
    contexts = figure(page)["data"][0]["x"]
    assert contexts[round((first["x0"] + first["x1"]) / 2)] == "8K"
    assert first["line"]["width"] > second["line"]["width"]


def test_fitting_is_told_by_sign_pattern_and_words(open_capacity: OpenPage) -> None:
    for trace in figure(open_capacity())["data"]:
        for text, shape, hover in zip(trace["text"], trace["marker"]["pattern"]["shape"], trace["hovertext"], strict=True):
            short = "−" in text
            assert (shape == "/") == short
            assert ("does not fit" in hover) == short


def test_a_map_where_nothing_fits_has_its_colours(open_capacity: OpenPage) -> None:
    page = open_capacity(model=DEEPSEEK, node="h100")
    colours = {colour for trace in figure(page)["data"] for colour in trace["marker"]["color"]}
    assert all(0 <= int(part) <= 255 for colour in colours for part in colour[4:-1].split(","))


def clicked(page: AppTest, context: int, requests: int, server: str = "vllm") -> AppTest:
    """The page after the inputs that a click on this cell sets: Streamlit's runner clicks no charts, a browser test does."""
    model = from_catalogue(str(page.selectbox(key="model").value))
    node, argument = named(str(page.selectbox(key="node").value))
    settings = {"front_end": "server"} if server == "llama.cpp" else {}
    engine = "llama.cpp" if server == "llama.cpp" else server
    work = Workload(int(page.number_input(key="prompt").value or 0), int(page.number_input(key="output").value or 0), 16)
    found = plan(model, engine, settings, node, 1, work, advice=False)
    asked = Asked(model, LLAMA, server, found.settings, node, argument, 1, work)
    for name, value in capacity_map.values(context, requests, asked, found).items():
        page.session_state[name] = value
    return page.run()


@pytest.mark.parametrize(
    ("link", "context", "requests"),
    [
        ({}, 32_768, 8),
        ({}, 131_072, 4),
        ({}, 2_048, 64),
        ({"server": "sglang"}, 16_384, 16),
        ({"server": "llama.cpp"}, 16_384, 4),
        ({"server": "transformers"}, 4_096, 8),
    ],
)
def test_a_cell_that_is_taken_is_asked_for(open_capacity: OpenPage, link: dict[str, Any], context: int, requests: int) -> None:
    page = clicked(open_capacity(**link), context, requests, link.get("server", "vllm"))
    assert f"{requests} requests of {context:,} tokens" in verdict(page)
    assert verdict(page) == printed(shell(page)).splitlines()[0]
    own = next(text for place, text in cells(page).items() if place == (context, requests))
    assert own.startswith("<b>")
    assert page.number_input(key="output").value == min(1_024, context // 2)


def test_a_cell_of_varying_requests_sets_them_alike() -> None:
    model, (node, argument) = from_catalogue(LLAMA), named("h100")
    work = Workload(samples=((100, 20), (3_000, 400)), requests=4)
    found = plan(model, "vllm", None, node, 1, work, advice=False)
    asked = Asked(model, LLAMA, "vllm", found.settings, node, argument, 1, work)
    assert capacity_map.values(2_048, 8, asked, found) == {
        "load": 8, "vary": "fixed", "prompt": 2_048 - 210, "output": 210, "shared": 0, "occupancy": None,
        "vllm.max_model_len": 2_048,
    }  # fmt: skip


def test_a_refused_cell_says_so() -> None:
    found = plan(from_catalogue(GEMMA), "llama.cpp", {"front_end": "server"}, "h100", 1, Workload(1_000, 24, 1), advice=False)
    trace = capacity_map.figure(fit_map(found, (1_024,), (512,)), (1, 1))["data"][0]
    assert trace["text"] == ["–"]
    assert trace["marker"]["pattern"]["shape"] == ["x"]
    assert "at most 256" in trace["hovertext"][0]


# Other choices


def choices(page: AppTest) -> list[dict[str, str]]:
    """The rows of the table of other choices."""
    return next(table.value.to_dict("records") for table in page.table if "Choice" in table.value.columns)


def compare(page: AppTest, view: str) -> AppTest:
    return page.button_group(key="compare").set_value(view).run()


def test_splits_are_ranked_and_one_is_taken(open_capacity: OpenPage) -> None:
    page = open_capacity(gpus=4, load=64)
    assert [row["Choice"] for row in choices(page) if "in use" in row["Choice"]] == ["**TP 4** (in use)"]
    page = pressed(page, "other_splits_1")
    assert page.session_state["vllm.tensor_parallel_size"] in (1, 2)
    assert verdict(page) == printed(shell(page)).splitlines()[0]


@pytest.mark.parametrize(
    ("view", "link", "words", "key"),
    [
        ("kv", {"load": 100}, "fp8", "vllm.kv_cache_dtype"),
        ("gpus", {"load": 100}, "H200 141GB SXM5", "node"),
        ("fewest", {"model": DEEPSEEK, "node": "H200 141GB SXM5"}, "x H200 141GB SXM5", "gpus"),
    ],
)
def test_each_view_is_planned_and_taken(
    open_capacity: OpenPage, view: str, link: dict[str, Any], words: str, key: str
) -> None:
    page = compare(open_capacity(**link), view)
    assert not faults(page)[1:]
    place, row = next((place, row) for place, row in enumerate(choices(page)) if words in row["Choice"])
    assert row["Verdict"] == "fits"
    before = page.session_state[key]
    page = pressed(page, f"other_{view}_{place}")
    assert page.session_state[key] != before
    assert verdict(page).startswith("Starts. ")
    assert verdict(page) == printed(shell(page)).splitlines()[0]


def test_what_an_engine_refuses_stands_with_its_reason(open_capacity: OpenPage) -> None:
    rows = {row["Choice"]: row for row in choices(open_capacity(model="Qwen/Qwen2.5-72B", gpus=6))}
    assert "do not divide" in rows["TP 6"]["Verdict"]
    assert rows["TP 6"]["Most requests"] == "–"


def test_a_mixed_node_has_its_dtypes_alone(open_capacity: OpenPage) -> None:
    page = open_capacity(server="llama.cpp", node="2x4090+1x3090", load=1)
    assert next(row["Choice"] for row in choices(page)).startswith("**f16**")
    assert set(page.button_group(key="compare").options) == {"KV dtypes", "Kinds of GPU", "Fewest GPUs"}


def test_given_figures_are_said_to_be_left_out(open_capacity: OpenPage) -> None:
    page = compare(open_capacity(**{"given.weights": 15}), "gpus")
    assert any("Without your own figures" in str(caption.value) for caption in page.caption)


def test_a_refused_split_offers_those_that_are_not(open_capacity: OpenPage) -> None:
    page = open_capacity(model="Qwen/Qwen2.5-72B", node="A100 80GB SXM4", gpus=3, **{"vllm.tensor_parallel_size": 3})
    page = pressed(page, "other_splits_0")
    assert verdict(page).startswith("Starts. ")
    assert page.session_state["vllm.pipeline_parallel_size"] == 3
