"""From page to page: what was asked on one holds on the next, and each page keeps what is its own."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from .conftest import OpenPage
from .reading import GEMMA, LLAMA, verdict
from .test_plan_page import total

PLAN, CAPACITY, COMPARE, LEARN, METHOD = (f"ui/{name}.py" for name in ("plan", "capacity", "compare", "learn", "method"))


def turned(page: AppTest, *paths: str) -> AppTest:
    for path in paths:
        page = page.switch_page(path).run()
        assert not page.exception, page.exception[0].stack_trace
    return page


def test_the_question_goes_from_plan_to_capacity(open_page: OpenPage) -> None:
    page = turned(open_page(model=GEMMA, gpu="H200 141GB SXM5", tokens=65_536, requests=3), CAPACITY)
    assert page.selectbox(key="model").value == GEMMA
    assert page.selectbox(key="node").value == "H200 141GB SXM5"
    assert page.number_input(key="load").value == 3
    assert page.number_input(key="prompt").value + page.number_input(key="output").value == 65_536
    assert verdict(page).startswith("Starts. 3 requests of 65,536 tokens")


def test_each_page_keeps_what_the_other_has_not(open_page: OpenPage) -> None:
    page = open_page(kv="fp8")
    page = turned(page, CAPACITY)
    page.number_input(key="price").set_value(2.5).run()
    page.number_input(key="gpus").set_value(2).run()
    page = turned(page, PLAN)
    assert page.selectbox(key="kv").value == "fp8"
    assert total(page) == "5.00 GiB"
    page = turned(page, METHOD, CAPACITY)
    assert page.number_input(key="price").value == 2.5
    assert page.number_input(key="gpus").value == 2


def test_what_changes_on_a_later_page_comes_back(open_page: OpenPage) -> None:
    page = turned(open_page(), CAPACITY)
    page.selectbox(key="model").set_value(LLAMA).run()
    page.selectbox(key="server").set_value("sglang").run()
    page.number_input(key="prompt").set_value(3_072).run()
    page = turned(page, METHOD, PLAN)
    assert page.selectbox(key="model").value == LLAMA
    assert page.selectbox(key="engine").value == "sglang"
    assert page.number_input(key="tokens").value == 3_072 + 1_024


def test_a_pages_own_defaults_change_nothing(open_page: OpenPage) -> None:
    page = turned(open_page(), CAPACITY, COMPARE, PLAN)
    assert page.selectbox(key="engine").value == "architecture"
    assert total(page) == "10.00 GiB"


def test_a_config_of_ones_own_goes_along(open_page: OpenPage) -> None:
    page = open_page()
    page.text_area(key="paste").set_value('{"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4,'
        '"hidden_size": 256, "vocab_size": 99, "intermediate_size": 512, "max_position_embeddings": 40000}').run()  # fmt: skip
    before = page.metric[0].delta
    page = turned(page, CAPACITY, METHOD, PLAN)
    assert page.selectbox(key="model").value == "config.json"
    assert page.metric[0].delta == before == f"{2 * 4 * 32_768 * 128 * 2:,} bytes"


def test_compare_begins_with_the_model_and_the_gpu(open_page: OpenPage) -> None:
    page = turned(open_page(model="Qwen/Qwen3-Next-80B-A3B-Instruct", gpu="H200 141GB SXM5"), COMPARE)
    assert page.multiselect(key="models").value[0] == "Qwen/Qwen3-Next-80B-A3B-Instruct"
    assert page.multiselect(key="cards").value[0] == "H200 141GB SXM5"


def test_learn_speaks_of_the_model_and_the_gpu_where_it_has_them(open_page: OpenPage) -> None:
    page = turned(open_page(model=GEMMA, gpu="h200"), LEARN)
    assert page.selectbox(key="learn_model").value == GEMMA
    assert page.selectbox(key="learn_gpu").value == "H200 141GB SXM5"
    page = turned(open_page(model="org/unknown", gpu="96 GiB"), LEARN)
    assert page.selectbox(key="learn_model").value == "Qwen/Qwen2.5-72B"
    assert page.selectbox(key="learn_gpu").value == "H100 80GB SXM5"


def test_lengths_that_vary_stay(open_capacity: OpenPage) -> None:
    page = turned(open_capacity(vary="log-normal", prompt=800, prompt_p95=4_000), PLAN)
    page.number_input(key="tokens").set_value(2_048).run()
    page = turned(page, CAPACITY)
    assert page.segmented_control(key="vary").value == "log-normal"
    assert page.number_input(key="prompt").value == 800
    assert page.number_input(key="prompt_p95").value == 4_000
