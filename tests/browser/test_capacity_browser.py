"""The Capacity page in a real browser: what is clicked comes true, a file is read, and nothing is cut or broken on a phone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from .watched import Watched

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.browser

LONG = 60_000


def says(page: Watched, words: str) -> None:
    """Wait for the verdict."""
    page.page.get_by_text(words).first.wait_for(timeout=LONG)


def the_map(page: Watched) -> Locator:
    found = page.page.locator(".st-key-capacity_map")
    found.locator(".bars .point").first.wait_for(timeout=LONG)
    return found


def take_cell(page: Watched, column: int, row: int) -> None:
    """Click a cell of the map, counted from the left and from below, in its corner and not on its number."""
    cell = the_map(page).locator(".trace.bars").nth(row).locator(".point path").nth(column)
    cell.scroll_into_view_if_needed()
    box = cell.bounding_box()
    assert box is not None
    page.page.mouse.click(box["x"] + box["width"] * 0.15, box["y"] + box["height"] * 0.25)


def test_the_capacity_page_opens_and_an_advice_is_applied(page: Watched) -> None:
    page.open("?model=meta-llama/Llama-3.1-8B&gpu=h100&tokens=8192&requests=16")
    page.page.get_by_text("Capacity", exact=True).first.click()
    page.page.get_by_text("Starts. 16 requests of 8,192 tokens").first.wait_for(timeout=30_000)
    page.page.locator(".st-key-load input").fill("100")
    page.page.keyboard.press("Enter")
    page.page.get_by_text("Starts, and does not hold 100 requests").first.wait_for(timeout=30_000)
    page.page.locator(".st-key-apply_1_kv_dtype").get_by_role("button").click(timeout=30_000)
    page.page.get_by_text("Starts. 100 requests of 8,192 tokens").first.wait_for(timeout=30_000)
    page.page.locator(".js-plotly-plot .main-svg").nth(2).wait_for(timeout=30_000)
    page.page.wait_for_url("**/capacity?*kv_cache_dtype=fp8*")
    page.nothing_wrong()


def test_a_cell_of_the_map_that_is_clicked_is_asked_for(page: Watched) -> None:
    page.open("capacity")
    says(page, "Starts. 16 requests of 8,192 tokens")
    take_cell(page, 5, 3)  # 1K 2K 4K 8K 16K 32K, and 1 2 4 8
    says(page, "Starts. 8 requests of 32,768 tokens")
    page.page.wait_for_url(re.compile(r"load=8\b.*prompt=31744|prompt=31744.*load=8\b"))
    assert "vllm.max_model_len=32768" in page.page.url
    take_cell(page, 7, 4)  # one that does not fit, of 131,072 tokens
    says(page, "Starts, and does not hold 16 requests of 131,072 tokens")
    page.page.reload()
    says(page, "Starts, and does not hold 16 requests of 131,072 tokens")
    page.nothing_wrong()


def test_another_choice_is_looked_at_and_taken(page: Watched) -> None:
    page.open("capacity?load=100")
    page.page.locator(".st-key-compare").get_by_text("Kinds of GPU").click(timeout=LONG)
    page.page.get_by_role("button", name="Apply H200 141GB SXM5").click(timeout=LONG)
    says(page, "Starts. 100 requests of 8,192 tokens")
    page.page.wait_for_url("**node=H200*")
    page.nothing_wrong()


def test_observed_lengths_are_uploaded_and_planned(page: Watched) -> None:
    page.open("capacity?load=100")
    page.page.get_by_text("How requests vary, and what they share").click()
    page.page.locator(".st-key-vary").get_by_text("observed").click()
    page.page.get_by_text("The file is no part of the page").wait_for(timeout=LONG)
    rows = "".join(f"{200 + 37 * i % 3000},{20 + 11 * i % 400}\n" for i in range(2_000))
    content = f"prompt_tokens,output_tokens\n{rows}".encode()
    page.page.locator(".st-key-lengths input[type=file]").set_input_files(
        {"name": "trace.csv", "mimeType": "text/csv", "buffer": content}
    )
    page.page.get_by_text("2,000 requests from trace.csv").wait_for(timeout=LONG)
    says(page, "tokens on average, up to")
    page.page.get_by_text("Time with preemption").wait_for(timeout=LONG)
    page.nothing_wrong()


@pytest.mark.parametrize("width", ["desktop", "phone"])
@pytest.mark.parametrize(
    "query",
    [
        "capacity?node=l4", "capacity?model=deepseek-ai/DeepSeek-V3&gpus=16&vllm.pipeline_parallel_size=2&price=3",
        "capacity?vary=log-normal&given.weights=15.02",
    ],
)  # fmt: skip
def test_nothing_is_wider_than_the_window_and_every_input_has_a_name(page: Watched, width: str, query: str) -> None:
    page.open(query)
    the_map(page)
    wider = page.page.evaluate(
        "[document.documentElement, document.querySelector('[data-testid=\"stMain\"]')].map(e => e.scrollWidth - e.clientWidth)"
    )
    assert wider == [0, 0]
    unnamed = page.page.evaluate(
        "[...document.querySelectorAll('main input:not([type=file]), main textarea')].filter(e => !e.getAttribute('aria-label')"
        " && !e.labels?.length && !e.getAttribute('aria-labelledby')).map(e => e.outerHTML.slice(0, 200))"
    )
    assert unnamed == []
    for text in ("Memory of one", "Most requests at once by their length", "most requests of the map"):
        assert page.page.get_by_label(re.compile(text)).count() >= 1, text
    assert page.page.locator('[data-testid="stException"]').count() == 0  # that it does not start is no fault of the page
    assert page.wrong == []
