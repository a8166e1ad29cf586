"""The page in a real browser: it opens, a model is picked, the answer is read, and nothing is wrong on it or in the console."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from .watched import Watched, choose

if TYPE_CHECKING:
    from playwright.sync_api import Browser

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


def write(page: Watched, text: str) -> None:
    """Write into the model box and press Enter, whether the text is one of its options or not."""
    box = page.page.locator(".st-key-model input")
    box.click()
    box.fill(text)
    page.page.get_by_role("option").first.wait_for()
    page.page.keyboard.press("Enter")


def test_an_unknown_architecture_is_one_message_with_a_way_on(page: Watched) -> None:
    page.open("?tokens=1024")
    write(page, '{"model_type": "made_up", "num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 512}')
    page.page.get_by_text("does not know how model_type 'made_up' caches").wait_for(timeout=15_000)
    assert page.page.locator('[data-testid="stAlertContentError"]').count() == 1
    page.page.get_by_text("Treat it as plain attention").click()
    page.answer("8.00 MiB")
    assert page.page.locator(".st-key-model input").input_value() == "config.json"
    assert "made_up" not in page.page.url
    page.nothing_wrong()


def test_a_config_may_be_pasted_or_uploaded_beside_the_box(page: Watched) -> None:
    page.open("?tokens=1024")
    config = {
        "model_type": "llama", "num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 512, "vocab_size": 99,
        "intermediate_size": 1024,
    }  # fmt: skip
    page.page.get_by_text("Own file").click()
    page.page.locator(".st-key-paste textarea").fill(json.dumps(config, indent=2))
    page.page.keyboard.press("Control+Enter")
    page.answer("8.00 MiB")
    file = json.dumps({**config, "num_hidden_layers": 8}).encode()
    page.page.locator(".st-key-upload input").set_input_files(
        [{"name": "config.json", "mimeType": "application/json", "buffer": file}]
    )
    page.answer("16.00 MiB")
    page.nothing_wrong()


def test_the_hub_switched_off_is_one_message_and_the_catalogue_still_works(page: Watched) -> None:
    page.open()
    write(page, "https://huggingface.co/org/model")
    page.page.get_by_text("The catalogue works offline").wait_for(timeout=15_000)
    assert page.page.locator('[data-testid="stAlertContentError"]').count() == 1
    choose(page.page, "model", "Qwen/Qwen2.5-72B")
    page.answer("10.00 GiB")
    page.nothing_wrong()


def test_words_offer_the_models_that_have_them(page: Watched) -> None:
    page.open()
    write(page, "gemma 3 27b")
    page.page.get_by_text("google/gemma-3-27b-it", exact=True).first.click()
    page.answer("2.91 GiB")
    page.nothing_wrong()


def test_the_question_goes_along_and_each_page_has_a_link_of_its_own(page: Watched, browser: Browser) -> None:
    page.open("?model=google/gemma-3-27b-it&gpu=h200&requests=3&kv=fp8")
    for name, part in (("Capacity", "node=h200"), ("Compare", "cards=h200"), ("Plan", "kv=fp8"), ("Capacity", "load=3")):
        page.page.get_by_role("navigation").get_by_text(name, exact=True).first.click()
        page.page.wait_for_function(f"location.search.includes('{part}')", timeout=30_000)
        assert "gemma-3-27b-it" in page.page.url
    tile = '[data-testid="stMetricValue"]'
    page.page.locator(tile).nth(3).wait_for(timeout=60_000)
    tiles = page.page.locator(tile).all_inner_texts()[:4]
    other = browser.new_context(viewport={"width": 1440, "height": 1000}).new_page()
    other.goto(page.page.url)
    other.locator(tile).nth(3).wait_for(timeout=60_000)
    assert other.locator(tile).all_inner_texts()[:4] == tiles
    other.context.close()
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
