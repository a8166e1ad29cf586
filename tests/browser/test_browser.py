"""The page in a real browser: it opens, a model is picked, the answer is read, and nothing is wrong on it or in the console."""

from __future__ import annotations

import re

import pytest

from .watched import Watched, choose

pytestmark = pytest.mark.browser


def test_a_model_is_picked_and_its_answer_read(page: Watched) -> None:
    page.open()
    page.answer("10.00 GiB")
    choose(page.page, "model", "google/gemma-3-27b-it")
    page.answer("2.91 GiB")
    choose(page.page, "kv", "fp8")
    page.answer("1.45 GiB")
    assert "model=google%2Fgemma-3-27b-it" in page.page.url
    assert "kv=fp8" in page.page.url
    page.nothing_wrong()


def test_an_engine_is_chosen_and_its_answer_read(page: Watched) -> None:
    page.open("?model=google/gemma-3-27b-it&tokens=131072&gpu=h100")
    page.answer("10.41 GiB")
    choose(page.page, "engine", "vllm")
    page.answer("17.98 GiB")
    page.page.get_by_text("window layers hold up to 17,424 positions instead of 1,023").wait_for(timeout=15_000)
    assert page.page.get_by_label(re.compile("From the architecture's 10.41 GiB to 17.98 GiB in vLLM")).count() >= 1
    gpus = page.page.locator('[class*="tensor_parallel_size"] input')
    gpus.fill("2")
    gpus.press("Enter")
    page.answer("8.99 GiB")
    assert "engine=vllm" in page.page.url
    assert "vllm.tensor_parallel_size=2" in page.page.url
    page.nothing_wrong()
    page.page.reload()
    page.answer("8.99 GiB")
    page.nothing_wrong()


@pytest.mark.parametrize("option", ["transformers", "sglang", "tensorrt-llm", "tgi", "llama.cpp", "ollama"])
def test_every_engine_draws_without_a_fault(page: Watched, option: str) -> None:
    page.open(f"?engine={option}&requests=4")
    page.answer("40.00 GiB")
    page.page.get_by_text("All engines side by side").wait_for(timeout=15_000)
    page.nothing_wrong()


def test_a_link_opens_what_was_shared(page: Watched) -> None:
    page.open("?model=deepseek-ai/DeepSeek-V3&tokens=65536&requests=2&gpu=h200")
    page.answer("8.58 GiB")
    assert page.page.get_by_text("On one H200 141GB SXM5").count() == 1
    page.nothing_wrong()


def test_a_gpu_may_be_typed_by_its_short_name(page: Watched) -> None:
    page.open()
    box = page.page.locator(".st-key-gpu input")
    box.click()
    box.fill("96 GiB")
    page.page.keyboard.press("Enter")
    page.page.get_by_text("96.00 GiB there").or_(page.page.get_by_text("96.00 GiB (")).first.wait_for(timeout=15_000)
    page.nothing_wrong()


@pytest.mark.parametrize("width", ["desktop", "phone"])
@pytest.mark.parametrize(
    "query",
    [
        "", "?model=Qwen/Qwen3-Next-80B-A3B-Instruct&requests=64&gpu=l4&cache=static",
        "?model=deepseek-ai/DeepSeek-V4-Flash&engine=vllm&requests=64&prefix=4096",
    ],
)  # fmt: skip
def test_nothing_is_wider_than_the_window(page: Watched, width: str, query: str) -> None:
    page.open(query)
    page.page.wait_for_timeout(500)
    wider = page.page.evaluate(
        "[document.documentElement, document.querySelector('[data-testid=\"stMain\"]')].map(e => e.scrollWidth - e.clientWidth)"
    )
    assert wider == [0, 0]
    page.nothing_wrong()


def test_an_unknown_architecture_is_one_message_with_a_way_on(page: Watched) -> None:
    page.open("?tokens=1024")
    page.page.get_by_text("config.json", exact=True).first.click()
    area = page.page.locator(".st-key-paste textarea")
    area.fill('{"model_type": "made_up", "num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 512}')
    page.page.keyboard.press("Control+Enter")
    page.page.get_by_text("does not know how model_type 'made_up' caches").wait_for(timeout=15_000)
    assert page.page.locator('[data-testid="stAlertContentError"]').count() == 1
    page.page.get_by_text("Treat it as plain attention").click()
    page.answer("8.00 MiB")
    page.nothing_wrong()


def test_the_hub_switched_off_is_one_message_and_the_catalogue_still_works(page: Watched) -> None:
    page.open()
    page.page.get_by_text("Hugging Face", exact=True).first.click()
    page.page.locator(".st-key-hub input").fill("org/model")
    page.page.keyboard.press("Enter")
    page.page.get_by_text("The catalogue works offline").wait_for(timeout=15_000)
    assert page.page.locator('[data-testid="stAlertContentError"]').count() == 1
    page.page.get_by_text("Catalogue", exact=True).first.click()
    page.answer("10.00 GiB")
    page.nothing_wrong()


@pytest.mark.parametrize(("query", "figures"), [("", 3), ("?engine=sglang", 3), ("?engine=vllm&tokens=1000", 4)])
def test_every_input_has_a_name_and_every_figure_a_text(page: Watched, query: str, figures: int) -> None:
    page.open(query)
    unnamed = page.page.evaluate(
        "[...document.querySelectorAll('main input:not([type=file]), main textarea')].filter(e => !e.getAttribute('aria-label')"
        " && !e.labels?.length && !e.getAttribute('aria-labelledby')).map(e => e.outerHTML.slice(0, 200))"
    )
    assert unnamed == []
    charts = page.page.locator('[data-testid="stPlotlyChart"]')
    assert charts.count() == figures
    for text in ("Memory of one B200", "80 layers of Qwen", "against context length"):
        assert page.page.get_by_label(re.compile(text)).count() >= 1, text


def test_the_method_page_opens(page: Watched) -> None:
    page.open()
    page.page.get_by_text("Method", exact=True).first.click()
    page.page.get_by_text("How each kind of cache is counted").wait_for(timeout=15_000)
    page.nothing_wrong()
