"""Every engine's requests against context on the Capacity page: each line is the plan's own, and who has none is told why."""

from __future__ import annotations

import csv
import io
import json
import re

from streamlit.testing.v1 import AppTest

from planner.capacity import plan
from planner.workload import Workload
from ui import capacity_engines
from ui.capacity_engines import Line
from ui.i18n import texts as catalogue
from ui.model_input import from_catalogue

from .conftest import OpenPage
from .reading import LLAMA, WHISPER
from .test_plan_page import faults, texts


def table(page: AppTest, column: str) -> list[dict[str, str]]:
    """The rows of the table that has this column."""
    return next(one.value.to_dict("records") for one in page.table if column in one.value.columns)


def engines(page: AppTest) -> dict[str, dict[int, int]]:
    """By engine the most requests at each length, as the picture was sent to the browser."""
    specs = [json.loads(chart.proto.spec) for chart in page.get("plotly_chart")]
    found = next(spec for spec in specs if any(trace.get("name") == "transformers" for trace in spec["data"]))
    named = [trace for trace in found["data"] if trace.get("name")]
    assert len({trace["line"]["dash"] for trace in named}) == len({trace["marker"]["symbol"] for trace in named}) == len(named)
    return {trace["name"]: dict(zip(trace["x"], trace["y"], strict=True)) for trace in named}


#: What each engine calls the longest request.
LENGTHS = {"vLLM": "max_model_len", "SGLang": "context_length", "TensorRT-LLM": "max_seq_len", "TGI": "max_total_tokens"}


def test_every_engine_has_its_own_line(open_capacity: OpenPage) -> None:
    found = engines(open_capacity(prompt=8_000))
    assert set(found) == {"transformers", "vLLM (yours)", "SGLang", "TensorRT-LLM", "TGI", "llama.cpp"}
    model = from_catalogue(LLAMA)
    for label, word in LENGTHS.items():
        line = next(points for name, points in found.items() if name.startswith(label))
        for length in (1_024, 9_024, 131_072):
            own = plan(model, label.lower(), {word: length}, "h100-sxm", 1, Workload(requests=1), advice=False)
            assert line[length] == own.max_requests, (label, length)


def test_the_others_store_and_split_as_the_persons_engine_does(open_capacity: OpenPage) -> None:
    found = engines(open_capacity(gpus=4, **{"vllm.kv_cache_dtype": "fp8", "vllm.tensor_parallel_size": 2}))
    settings = {"kv_cache_dtype": "fp8_e4m3", "tensor_parallel_size": 2, "context_length": 8_192}
    own = plan(from_catalogue(LLAMA), "sglang", settings, "h100-sxm", 4, Workload(requests=1), advice=False)
    assert own.replicas == 2
    assert found["SGLang"][8_192] == own.max_requests


def test_what_refuses_is_named_with_its_reason(open_capacity: OpenPage) -> None:
    page = open_capacity(model=WHISPER, server="sglang", prompt=4, output=300, load=4)
    assert set(engines(page)) == {"transformers", "vLLM"}
    assert len(faults(page)) == 1  # the person's own engine refuses, and still the others are drawn
    assert re.search(r"\*\*llama.cpp\*\* refuses: [Ll]lama.cpp has no architecture", texts(page).replace("\\", ""))
    rows = table(page, "vLLM")
    assert {row["Tokens of each request"] for row in rows} >= {"**304**", "448"}


def test_a_dtype_that_an_engine_lacks_is_said(open_capacity: OpenPage) -> None:
    page = open_capacity(**{"vllm.kv_cache_dtype": "fp8"})
    assert catalogue()["engines.no_dtype"].rstrip(".") in texts(page).replace("\\", "")
    assert "llama.cpp" not in engines(page)


def test_many_gpus_are_worked_out_on_request(open_capacity: OpenPage) -> None:
    link = {"model": "Qwen/Qwen2.5-7B", "node": "H100 80GB SXM5", "gpus": 72, "vllm.tensor_parallel_size": 4}
    page = open_capacity(**link)
    assert not [chart for chart in page.get("plotly_chart") if "transformers" in chart.proto.spec]
    assert "transformers" in engines(open_capacity(**link, per_engine="true"))


def test_the_table_has_every_figure_and_reason() -> None:
    lines = [Line("vllm", ((1_024, 8), (2_048, None))), Line("tgi", refusal="It keeps a state, and TGI does not")]
    rows = list(csv.reader(io.StringIO(capacity_engines.as_csv(lines))))
    assert rows[1:] == [
        ["vLLM", "1024", "8", ""], ["vLLM", "2048", "", ""], ["TGI", "", "", "It keeps a state, and TGI does not"],
    ]  # fmt: skip
