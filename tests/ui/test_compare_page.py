"""The Compare page: each row is the plan of its combination, refusals say why, and every export holds all of it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import model_configs
from planner.capacity import plan
from planner.workload import Workload
from ui import compare_rows
from ui.compare_rows import Row, row
from ui.i18n import t

APP = Path(__file__).resolve().parents[2] / "app.py"
LLAMA = "meta-llama/Llama-3.1-8B"


@pytest.fixture
def compare() -> AppTest:
    page = AppTest.from_file(str(APP), default_timeout=60).run()
    return page.switch_page("ui/compare.py").run()


def test_a_row_is_the_plan() -> None:
    """The Capacity page's own call with the same words gives the same figures."""
    got = row(LLAMA, "vllm", "H100 80GB SXM5", "fp8", 2, 16_384, 10)
    settings = {"kv_cache_dtype": "fp8", "max_model_len": 16_384}
    want = plan(model_configs.read(LLAMA), "vllm", settings, "h100-sxm", 2, Workload(16_384, requests=10), advice=False)
    assert (got.verdict, got.free_bytes, got.max_requests, got.max_context) == (
        want.verdict, want.headroom_bytes, want.max_requests, want.max_context,
    )  # fmt: skip
    assert got.memory_bytes == got.weight_bytes + got.other_bytes + got.cache_bytes + got.free_bytes


def test_a_refused_row_says_why() -> None:
    """fp8 has no kernels on CDNA2; llama.cpp has no fp8 cache; a GPU that nobody knows is named."""
    assert "fp8" in row(LLAMA, "vllm", "mi250x", "fp8", 1, 1024, 1).why
    assert row(LLAMA, "llama.cpp", "h100", "fp8", 1, 1024, 1).why == t("engines.no_dtype")
    unknown = row(LLAMA, "vllm", "h1000", "auto", 1, 1024, 1)
    assert (unknown.verdict, "h1000" in unknown.why) == ("refused", True)


def test_a_machine_says_how_many_gpus() -> None:
    """8xh100 is eight GPUs, whatever the number beside it says."""
    assert row(LLAMA, "vllm", "8xh100", "auto", 1, 1024, 1).gpus == 8


def test_orders() -> None:
    """By requests, cache and room, what is refused last; as picked leaves them alone."""
    rows = [Row("a", "", "", 1, "", "refused"), Row("b", "", "", 1, "", "fits", cache_bytes=3, free_bytes=1, max_requests=2),
            Row("c", "", "", 1, "", "fits", cache_bytes=1, free_bytes=5, max_requests=9),
            Row("d", "", "", 1, "", "fits", cache_bytes=2, free_bytes=3, max_requests=None)]  # fmt: skip
    order = {by: "".join(one.model for one in compare_rows.ordered(rows, by)) for by in ("picked", "requests", "cache", "free")}
    assert order == {"picked": "abcd", "requests": "dcba", "cache": "cdba", "free": "cdba"}


def test_exports_hold_every_figure() -> None:
    rows = [row(LLAMA, "vllm", "h100", "auto", 1, 1024, 1), row(LLAMA, "llama.cpp", "h100", "fp8", 1, 1024, 1)]
    table = list(csv.DictReader(io.StringIO(compare_rows.as_csv(rows))))
    assert [int(line["free_bytes"]) for line in table] == [one.free_bytes for one in rows]
    data = json.loads(compare_rows.as_json(rows, 1024, 1))
    assert (data["tokens"], [one["verdict"] for one in data["rows"]]) == (1024, ["fits", "refused"])
    text = compare_rows.as_markdown([{"a": 1.0, "b|c": None}, {"a": 2, "b|c": "x|y"}])
    assert text.splitlines()[2:] == ["| 1.00 |  |", "| 2 | x\\|y |"]


def test_the_page_shows_every_combination(compare: AppTest) -> None:
    """Three models on two engines are six rows, of which none is lost in the picture."""
    assert not compare.exception
    assert len(compare.dataframe[0].value) == 6
    more = compare.multiselect(key="dtypes").set_value(["auto", "fp8"]).run()
    found = more.dataframe[0].value
    assert len(found) == 12
    assert list(found[t("compare.column.verdict")]).count(t("compare.refused")) == 3  # llama.cpp has no fp8 cache
    assert not more.error


def test_too_many_and_none(compare: AppTest) -> None:
    """Beyond the limit the first are shown and the page says so; with none picked it asks for some."""
    page = compare.multiselect(key="dtypes").set_value(["auto", "bfloat16", "float16", "fp8", "int8", "int4"]).run()
    page = page.multiselect(key="engines").set_value(["vllm", "sglang", "tgi", "llama.cpp"]).run()
    assert len(page.dataframe[0].value) == compare_rows.MOST
    assert any("72" in warning.value for warning in page.warning)
    page = page.multiselect(key="models").set_value([]).run()
    assert any(caption.value == t("compare.empty") for caption in page.caption)
