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
from planner.units import format_bytes
from planner.workload import Workload
from ui import compare_rows
from ui.compare_rows import Combination, Row
from ui.i18n import t

APP = Path(__file__).resolve().parents[2] / "app.py"
LLAMA = "meta-llama/Llama-3.1-8B"
WORDS = {"fits": t("compare.fits"), "does_not_fit": t("compare.short"), "refused": t("compare.refused")}


def row(model: str, option: str, gpu: str, word: str, count: int, tokens: int, requests: int) -> Row:
    return compare_rows.row(Combination(model, option, gpu, word), count, tokens, requests)


@pytest.fixture
def compare() -> AppTest:
    return AppTest.from_file(str(APP), default_timeout=60).switch_page("ui/compare.py").run()


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
    assert row(LLAMA, "llama.cpp", "h100", "fp8", 1, 1024, 1).why == "llama.cpp has no KV cache in fp8."
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
    def order(by: str, *arranged: int) -> str:
        return "".join(rows[place].model for place in compare_rows.ordered(rows, by, arranged or (0, 1, 2, 3)))

    assert {by: order(by) for by in ("picked", "requests", "cache", "free")} == {
        "picked": "abcd", "requests": "dcba", "cache": "cdba", "free": "cdba",
    }  # fmt: skip
    assert order("picked", 3, 0, 1, 2) == "dabc"


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


def opened(**link: str | list[str]) -> AppTest:
    page = AppTest.from_file(str(APP), default_timeout=60)
    for name, value in link.items():
        page.query_params[name] = value
    return page.switch_page("ui/compare.py").run()


def models(page: AppTest) -> list[str]:
    assert not page.exception
    return [f"{line.iloc[0]} {line.iloc[1]}" for _, line in page.dataframe[0].value.iterrows()]


TWO = {"models": [LLAMA, "openai/gpt-oss-20b"]}
LV, LC, OV, OC = f"{LLAMA} vLLM", f"{LLAMA} llama.cpp", "openai/gpt-oss-20b vLLM", "openai/gpt-oss-20b llama.cpp"


def test_a_row_is_moved_and_the_link_keeps_it() -> None:
    """The second row moved up stands first, is still the one looked at, and a link with the order opens on it."""
    page = opened(**TWO)
    assert models(page) == [LV, LC, OV, OC]
    page = page.selectbox(key="row").select_index(1).run()
    page = page.button(key="compare_up").click().run()
    assert models(page) == [LC, LV, OV, OC]
    assert page.button(key="compare_up").disabled
    assert any("llama.cpp" in header.value.replace("\\", "") for header in page.header)
    assert (page.query_params["rows"], page.query_params["row"]) == ("1.0.2.3", "1")
    assert models(opened(**TWO, rows="1.0.2.3", row="1")) == [LC, LV, OV, OC]
    back = page.button(key="compare_down").click().run()
    assert models(back) == [LV, LC, OV, OC]
    assert "rows" not in back.query_params  # the order of picking is the default


def test_what_is_sorted_stands_so_when_a_row_is_moved() -> None:
    page = opened(**TWO, order="cache", row="0")
    assert models(page) == [OC, OV, LC, LV]
    page = page.button(key="compare_up").click().run()
    assert models(page) == [OC, OV, LV, LC]
    assert "order" not in page.query_params


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ({"order": "colour"}, "order = colour"), ({"rows": "3.3.1"}, "rows"), ({"rows": "x" * 5000}, "rows"),
        ({"row": "99"}, "row"), ({"row": "²"}, "row"), ({"dtypes": ["auto", "int99"]}, "dtypes"), ({"length": "many"}, "length"),
        ({"each": "65"}, "each"),
    ],
)  # fmt: skip
def test_what_a_link_says_wrongly_is_reported_and_the_rest_stands(link: dict[str, str | list[str]], said: str) -> None:
    page = opened(**link)
    assert len(models(page)) >= 6
    found = [box.value.replace("\\", "") for box in page.warning if "link" in box.value]
    assert len(found) == 1
    assert said in found[0]


def test_a_row_in_detail_is_the_capacity_pages_answer() -> None:
    """Its terms add up to the device, each with its confidence, and the commands and the way to the Capacity page stand there."""
    page = opened(models=LLAMA, engines="vllm", length="16384", at_once="8", row="0")
    assert not page.exception
    assert not page.error
    want = plan(model_configs.read(LLAMA), "vllm", {"max_model_len": 16_384}, "h100-sxm", 1, Workload(16_384, requests=8),
                advice=False)  # fmt: skip
    commands = [code.value for code in page.code]
    assert want.command in commands
    assert any(line.startswith(f"python -m planner plan {LLAMA} --gpu h100-sxm --engine vllm --requests 8") for line in commands)
    sizes, confidences = (page.table[0].value[t(f"capacity.terms.{name}")] for name in ("size", "confidence"))
    assert list(sizes) == [format_bytes(term.bytes) for term in want.terms]
    assert list(confidences) == [term.confidence for term in want.terms]


def test_a_typed_model_is_asked_of_the_hub_and_never_read_as_a_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The Hub being off, the row says why; a folder of the server with a config.json is no model of this page."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    page = opened(models=[LLAMA, "nobody/nothing", str(tmp_path)], engines="vllm")
    table = page.dataframe[0].value
    assert list(table[t("compare.column.verdict")]) == [WORDS["fits"], WORDS["refused"], WORDS["refused"]]
    assert all(table[t("compare.column.why")].iloc[1:])
    assert not page.exception


def test_all_refused_leaves_a_table_and_no_picture() -> None:
    page = opened(models=LLAMA, engines="llama.cpp", dtypes="fp8")
    assert list(page.dataframe[0].value[t("compare.column.verdict")]) == [WORDS["refused"]]
    assert len(page.get("plotly_chart")) == 0
    assert not page.error


def test_an_export_is_no_formula() -> None:
    """A spreadsheet runs a cell that begins with a sign; a typed name is quoted, a negative number is not."""
    found = compare_rows.as_csv([Row("=1+1", "vLLM", "h100", 1, "auto", "refused", free_bytes=-5)]).splitlines()[1]
    assert found.startswith("'=1+1,")
    assert ",-5," in found


def test_the_model_of_another_page_stands_before_the_examples() -> None:
    page = AppTest.from_file(str(APP), default_timeout=60)
    page.query_params["model"] = "Qwen/Qwen3-8B"
    page = page.run().switch_page("ui/compare.py").run()
    assert page.multiselect(key="models").value == ["Qwen/Qwen3-8B", LLAMA, "google/gemma-3-27b-it", "openai/gpt-oss-20b"]
