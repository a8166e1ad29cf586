"""A link opens the page that it was copied from: each input is set as a person does, and the address opened elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from .watched import Watched, choose, quiet

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

LONG = 60_000
#: All that a person reads on a page: its words, what its inputs hold, and what its figures say to those who cannot see them.
SEEN = """() => {
    const main = document.querySelector('[data-testid="stMain"]')
    const inputs = [...main.querySelectorAll('input, textarea')].filter(e => e.type !== 'file')
    const chosen = [...main.querySelectorAll('[data-selected], [aria-checked="true"], [data-tag]')]
    return JSON.stringify({
        words: main.innerText.split('\\n').map(line => line.trim()).filter(Boolean),
        inputs: inputs.map(e => [e.getAttribute('aria-label'), e.type === 'checkbox' ? e.checked : e.value]),
        chosen: chosen.map(e => e.innerText),
        figures: [...main.querySelectorAll('[data-testid="stPlotlyChart"]')].map(e => e.getAttribute('aria-label')),
    })
}"""


def number(page: Page, key: str, value: str) -> None:
    box = page.locator(f".st-key-{key} input")
    box.fill(value)
    box.press("Enter")
    quiet(page)


def pick(page: Page, key: str, text: str) -> None:
    choose(page, key, text)
    quiet(page)


def more(page: Page, key: str, text: str) -> None:
    """One more of several, typed."""
    box = page.locator(f".st-key-{key} input").last
    box.click()
    box.fill(text)
    page.get_by_role("option").filter(has_text=text).first.click()
    page.keyboard.press("Escape")
    quiet(page)


def press(page: Page, key: str, text: str) -> None:
    page.locator(f".st-key-{key}").get_by_text(text, exact=True).first.click()
    quiet(page)


def slide(page: Page, key: str, steps: int) -> None:
    handle = page.locator(f".st-key-{key}").get_by_role("slider")
    for _ in range(abs(steps)):
        handle.press("ArrowRight" if steps > 0 else "ArrowLeft")
    quiet(page)


def compared(page: Page) -> None:
    more(page, "models", "Qwen/Qwen3-8B")
    more(page, "engines", "sglang")
    more(page, "dtypes", "fp8")
    number(page, "length", "16384")
    number(page, "at_once", "8")
    number(page, "each", "2")
    press(page, "order", "smallest cache")
    box = page.locator(".st-key-row input")
    box.click()
    box.fill("Qwen3-8B · SGLang")
    page.get_by_role("option").first.click()
    page.locator(".st-key-compare_detail").wait_for(timeout=LONG)
    page.locator(".st-key-compare_up button").click()
    quiet(page)


def learned(page: Page) -> None:
    pick(page, "learn_model", "meta-llama/Llama-3.1-8B")
    pick(page, "learn_gpu", "L40S")
    slide(page, "learn_step", -2)
    number(page, "learn_warm_known", "4096")
    number(page, "learn_work_answer", "2048")
    number(page, "learn_price_requests", "3")
    number(page, "learn_heads_kv", "4")
    press(page, "learn_block", "32")
    slide(page, "learn_paging_first", 5)
    number(page, "learn_helpers_ask_chunk", "512")


def explained(page: Page) -> None:
    pick(page, "explain_model", "google/gemma-3-27b-it")
    pick(page, "explain_gpu", "L40S")


def validated(page: Page) -> None:
    pick(page, "validate_model", "google/gemma-3-1b-it")
    number(page, "validate_layers", "7")
    number(page, "validate_batch", "3")
    number(page, "validate_tokens", "32, 48")
    pick(page, "validate_cache", "static")
    page.locator(".st-key-validate_speed label").first.click()
    quiet(page)


#: By page: what a person sets, and parameters that the link has then.
SET: dict[str, tuple[Callable[[Page], None], dict[str, list[str]]]] = {
    "compare": (compared, {"length": ["16384"], "at_once": ["8"], "each": ["2"], "dtypes": ["auto", "fp8"]}),
    "learn": (learned, {
        "learn_model": ["meta-llama/Llama-3.1-8B"], "learn_gpu": ["L40S"], "learn_step": ["3"], "learn_warm_known": ["4096"],
        "learn_work_answer": ["2048"], "learn_price_requests": ["3"], "learn_heads_kv": ["4"], "learn_block": ["32"],
        "learn_paging_first": ["80"], "learn_helpers_ask_chunk": ["512"],
    }),
    "explain": (explained, {"explain_model": ["google/gemma-3-27b-it"], "explain_gpu": ["L40S"]}),
    "validate": (validated, {
        "validate_model": ["google/gemma-3-1b-it"], "validate_layers": ["7"], "validate_batch": ["3"],
        "validate_tokens": ["32, 48"], "validate_cache": ["static"], "validate_speed": ["true"],
    }),
}  # fmt: skip


def read(page: Page) -> dict[str, Any]:
    quiet(page)
    found: dict[str, Any] = json.loads(page.evaluate(SEEN))
    return found


def opened(browser: Browser, url: str) -> Watched:
    parts = urlsplit(url)
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    watched = Watched(page, f"{parts.scheme}://{parts.netloc}")
    watched.page.goto(url)
    watched.page.locator('[data-testid="stMain"] h1').wait_for(timeout=LONG)
    quiet(watched.page)
    return watched


@pytest.mark.parametrize("path", SET)
def test_a_copied_link_opens_the_same_page(browser: Browser, address: str, path: str) -> None:
    first = opened(browser, f"{address}/{path}")
    assert urlsplit(first.page.url).query == ""  # defaults are not written
    act, parameters = SET[path]
    act(first.page)
    asked = parse_qs(urlsplit(first.page.url).query)
    assert {name: asked.get(name) for name in parameters} == parameters
    want = read(first.page)
    second = opened(browser, first.page.url)
    got = read(second.page)
    assert {name: [line for line in got[name] if line not in want[name]] for name in want} == {name: [] for name in want}
    assert got == want
    assert parse_qs(urlsplit(second.page.url).query) == asked
    for watched in (first, second):
        assert watched.page.locator('[data-testid="stException"]').count() == 0
        assert watched.wrong == []
        watched.page.context.close()


def test_a_default_leaves_the_link(browser: Browser, address: str) -> None:
    """What is set back is written no more."""
    watched = opened(browser, f"{address}/learn?learn_work_answer=2048&learn_step=3")
    number(watched.page, "learn_work_answer", "1024")
    slide(watched.page, "learn_step", 2)
    assert urlsplit(watched.page.url).query == ""
    watched.page.context.close()


def test_a_row_of_compare_opens_on_the_capacity_page(browser: Browser, address: str) -> None:
    """The same verdict stands there, whatever was asked on that page before."""
    watched = opened(browser, f"{address}/capacity?load=99&prompt=100")
    page = watched.page
    page.goto(f"{address}/compare?models=google/gemma-3-27b-it&engines=sglang&dtypes=fp8&length=16384&at_once=8&row=0&each=2")
    detail = page.locator(".st-key-compare_detail")
    verdict = detail.locator('[data-testid="stAlert"]').first
    verdict.wait_for(timeout=LONG)
    quiet(page)
    said = verdict.inner_text()
    assert "8 requests of 16,384 tokens" in said
    page.get_by_role("link", name="Open in Capacity").click()
    page.wait_for_url("**/capacity?*", timeout=LONG)
    page.locator('[data-testid="stMetricValue"]').first.wait_for(timeout=LONG)
    quiet(page)
    assert page.locator('[data-testid="stAlert"]').first.inner_text() == said
    watched.nothing_wrong()
    page.context.close()
